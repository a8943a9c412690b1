package cli

import (
	"encoding/base64"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// documentFormat names the form of an exported file, in each of its formats.
const documentFormat = "zooid-export-1"

// documentHead begins an exported file.
type documentHead struct {
	Format string `json:"format" yaml:"format"`
	Root   string `json:"root" yaml:"root"` // the exported path
	Time   string `json:"time,omitempty" yaml:"time,omitempty"`
}

func (h *documentHead) check() error {
	if h.Format != documentFormat {
		return fmt.Errorf("its format is %q; want %q, as export writes it", h.Format, documentFormat)
	}
	return nil
}

// documentNode is one exported znode. Parents come before their children.
type documentNode struct {
	Path   string    `json:"path" yaml:"path"` // relative to the root; "/" for the root itself
	Data   *string   `json:"data,omitempty" yaml:"data,omitempty"`
	Base64 *string   `json:"base64,omitempty" yaml:"base64,omitempty"` // in place of Data
	ACL    []string  `json:"acl,omitempty" yaml:"acl,omitempty"`       // scheme:id:perms; none is world:anyone:cdrwa
	mtime  time.Time // for tar
}

// toDocument turns a znode with a relative path into its exported form.
func toDocument(relative string, n *znode, acl []zk.ACL) documentNode {
	d := documentNode{Path: relative, mtime: time.UnixMilli(n.stat.Mtime)}
	if d.Path == "" {
		d.Path = "/"
	}
	switch {
	case n.data == nil:
	case readable(n.data):
		text := string(n.data)
		d.Data = &text
	default:
		text := base64.StdEncoding.EncodeToString(n.data)
		d.Base64 = &text
	}
	if open := aclText(zk.WorldACL(zk.PermAll)); aclText(acl) != open {
		d.ACL = aclEntries(acl)
	}
	return d
}

// bytes returns the data, nil for none.
func (d *documentNode) bytes() ([]byte, error) {
	switch {
	case d.Data != nil && d.Base64 != nil:
		return nil, fmt.Errorf("%s has both data and base64", d.Path)
	case d.Data != nil:
		return []byte(*d.Data), nil
	case d.Base64 != nil:
		data, err := base64.StdEncoding.DecodeString(*d.Base64)
		if err != nil {
			return nil, fmt.Errorf("%s: its base64: %w", d.Path, err)
		}
		return data, nil
	}
	return nil, nil
}

// check refuses a path that would lead out of the imported subtree.
func (d *documentNode) check() error {
	if !strings.HasPrefix(d.Path, "/") {
		return fmt.Errorf("the path %q doesn't begin with a slash", d.Path)
	}
	return nil
}

// relative returns the path as places take it.
func (d *documentNode) relative() string { return strings.TrimSuffix(d.Path, "/") }

// acl returns the ACL.
func (d *documentNode) acl() ([]zk.ACL, error) {
	if len(d.ACL) == 0 {
		return zk.WorldACL(zk.PermAll), nil
	}
	list := make([]zk.ACL, len(d.ACL))
	for i, entry := range d.ACL {
		e, offset, reason := parseEntry(entry)
		if reason != "" {
			return nil, fmt.Errorf("%s: its %w", d.Path, &aclError{entry, offset, reason})
		}
		list[i] = e
	}
	return list, nil
}

// documentWriter writes one format, znode by znode.
type documentWriter interface {
	head(documentHead) error
	node(documentNode) error
	close() error // ends the document, not the file
}

// documentReader reads one format, znode by znode; next ends with io.EOF.
type documentReader interface {
	head() (documentHead, error)
	next() (documentNode, error)
}

// documentMax bounds one znode in a file: several times what a server takes, as
// text and base64 are longer than the data.
const documentMax = 64 << 20

// format returns the format of a file: the flag's, or what the name says.
func format(a *args, file string) (name string, zipped bool, err error) {
	base := strings.TrimSuffix(file, ".gz")
	if strings.HasSuffix(file, ".tgz") {
		base = strings.TrimSuffix(file, ".tgz") + ".tar"
	}
	zipped = base != file
	name = a.flags["format"]
	if name == "" {
		name = strings.TrimPrefix(filepath.Ext(base), ".")
	}
	switch name {
	case "yml":
		name = "yaml"
	case "":
		name = "json"
	case "json", "yaml", "tar":
	default:
		return "", false, a.usagef("%s: the format %q is unknown; want json, yaml or tar (and .gz), by the file's name or -format", a.cmd.name, name)
	}
	return name, zipped, nil
}

func newDocumentWriter(format string, w io.Writer) documentWriter {
	switch format {
	case "yaml":
		return newYAMLWriter(w)
	case "tar":
		return newTarWriter(w)
	}
	return newJSONWriter(w)
}

func newDocumentReader(format string, r io.Reader) documentReader {
	switch format {
	case "yaml":
		return newYAMLReader(r)
	case "tar":
		return newTarReader(r)
	}
	return newJSONReader(r)
}
