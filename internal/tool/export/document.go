// Package export reads and writes files of a subtree, in JSON, YAML or tar, znode by znode. It accepts a file only if
// the file is complete.
package export

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode"
	"unicode/utf8"
)

// The versions of an exported file, the same for each of its formats.
const (
	formatNow = "zooid-export-2"
	// formatOld is the previous version, which has no end mark.
	formatOld = "zooid-export-1"
)

// Head is the first record of an exported file.
type Head struct {
	Format string `json:"format" yaml:"format"`
	Root   string `json:"root" yaml:"root"` // the exported path
	Time   string `json:"time,omitempty" yaml:"time,omitempty"`
}

var ErrOld = errors.New("its format is that of an older version, " + formatOld + ": it has no checksum")

func (h *Head) check(unchecked bool) error {
	switch {
	case h.Format == formatOld && !unchecked:
		return ErrOld
	case h.Format != formatNow && h.Format != formatOld:
		return fmt.Errorf("its format is %q; want %q, as export writes it", h.Format, formatNow)
	}
	return nil
}

// Node is one exported znode. Parents come before their children.
type Node struct {
	Path   string    `json:"path" yaml:"path"` // relative to the root; "/" for the root itself
	Data   *string   `json:"data,omitempty" yaml:"data,omitempty"`
	Base64 *string   `json:"base64,omitempty" yaml:"base64,omitempty"` // instead of Data
	ACL    []string  `json:"acl,omitempty" yaml:"acl,omitempty"`       // scheme:id:perms; empty means world:anyone:cdrwa
	mtime  time.Time // for tar
}

// NewNode returns the exported form of a znode. data is nil if the znode has none. A nil acl means world:anyone:cdrwa.
// mtime is the time of the znode's file in a tar.
func NewNode(path string, data []byte, acl []string, mtime time.Time) Node {
	n := Node{Path: path, ACL: acl, mtime: mtime}
	switch {
	case data == nil:
	case Readable(data):
		text := string(data)
		n.Data = &text
	default:
		text := base64.StdEncoding.EncodeToString(data)
		n.Base64 = &text
	}
	return n
}

// Readable reports whether data is text that people can read and every format can represent.
func Readable(data []byte) bool {
	for len(data) > 0 {
		r, n := utf8.DecodeRune(data)
		if r == utf8.RuneError || !unicode.IsPrint(r) && r != '\n' && r != '\t' {
			return false
		}
		data = data[n:]
	}
	return true
}

// bytes returns the data, nil for none.
func (d *Node) bytes() ([]byte, error) {
	switch {
	case d.Data != nil && d.Base64 != nil:
		return nil, fmt.Errorf("%s has both data and base64", d.Path)
	case d.Data != nil:
		return []byte(*d.Data), nil
	case d.Base64 != nil:
		data, err := base64.StdEncoding.Strict().DecodeString(*d.Base64)
		if err != nil {
			return nil, fmt.Errorf("%s: its base64: %w", d.Path, err)
		}
		return data, nil
	}
	return nil, nil
}

// checkText refuses text that isn't valid UTF-8, which no format can represent.
func (d *Node) checkText() error {
	for _, text := range append([]string{d.Path}, d.ACL...) {
		if !utf8.ValidString(text) {
			return fmt.Errorf("%q: its path or its ACL is not text in UTF-8, and can't be exported", d.Path)
		}
	}
	return nil
}

// formatWriter writes one format, znode by znode.
type formatWriter interface {
	head(Head) error
	node(Node) error
	close(endMark) error // ends the document, but doesn't close the file
}

// formatReader reads one format, znode by znode; next returns io.EOF at the end. Then end checks that nothing follows,
// and returns the end mark, nil if there is none.
type formatReader interface {
	head() (Head, error)
	next() (Node, error)
	end() (*endMark, error)
}

// codecs has the formats, by their names.
var codecs = map[string]codec{
	"json": {newJSONWriter, newJSONReader}, "yaml": {newYAMLWriter, newYAMLReader}, "tar": {newTarWriter, newTarReader},
}

type codec struct {
	writer func(io.Writer) formatWriter
	reader func(io.Reader) formatReader
}

// codecOf returns a format's codec; JSON is the default.
func codecOf(format string) codec {
	if c, ok := codecs[format]; ok {
		return c
	}
	return codecs["json"]
}
