package export

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"hash"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// endMark is the last record of an exported file. A file without it was cut short.
type endMark struct {
	Znodes int    `json:"znodes" yaml:"znodes"`
	SHA256 string `json:"sha256" yaml:"sha256"` // of the head and the znodes; see checksum
}

// checksum computes the end mark of a document. It covers the content, not how the format spells it.
type checksum struct {
	h      hash.Hash
	znodes int
}

func newSum(head Head) *checksum {
	d := &checksum{h: sha256.New()}
	d.add(head.Format)
	d.add(head.Root)
	d.add(head.Time)
	return d
}

// add hashes a text, preceded by its length, so that two different lists of texts never have the same hash.
func (d *checksum) add(text string) {
	d.number(len(text))
	_, _ = io.WriteString(d.h, text) // writing to a hash never fails
}

func (d *checksum) number(n int) {
	_, _ = d.h.Write(binary.AppendUvarint(nil, uint64(n)))
}

// node hashes a znode: its path, its data (0 if there are none), and its ACL.
func (d *checksum) node(n Node, data []byte) {
	d.znodes++
	d.add(n.Path)
	if data == nil {
		d.number(0)
	} else {
		d.number(1)
		d.add(string(data))
	}
	d.number(len(n.ACL))
	for _, entry := range n.ACL {
		d.add(entry)
	}
}

func (d *checksum) mark() endMark {
	return endMark{d.znodes, fmt.Sprintf("%x", d.h.Sum(nil))}
}

// ErrNoMark says that a document doesn't end with an end mark.
var ErrNoMark = errors.New("it has no end mark: it was cut, or written by an older version or by hand")

// Reader reads and checks a document: each znode must be valid, its parent must come before it, and the end mark must
// match. The znodes are only known to be complete and correct once Next has returned io.EOF.
type Reader struct {
	r         formatReader
	unchecked bool // the end mark may be missing, or not match
	sum       *checksum
	last      []string // the parts of the last path; nil before the first
}

// Read reads the head of a document in a format: json, yaml or tar. If unchecked is set, the end mark may be missing or
// wrong.
func Read(format string, in io.Reader, unchecked bool) (*Reader, Head, error) {
	r := codecOf(format).reader(in)
	head, err := r.head()
	if err == nil {
		err = head.check(unchecked)
	}
	if err != nil {
		return nil, head, err
	}
	return &Reader{r: r, unchecked: unchecked, sum: newSum(head)}, head, nil
}

// Sum returns the checksum of what was read so far.
func (r *Reader) Sum() string { return r.sum.mark().SHA256 }

// Znodes returns the number of znodes read so far.
func (r *Reader) Znodes() int { return r.sum.znodes }

// Next returns the next znode and its data, nil if it has none. After the last znode of a complete document it returns
// io.EOF.
func (r *Reader) Next() (n Node, data []byte, err error) {
	n, data, err = r.next()
	if err != nil && !errors.Is(err, io.EOF) {
		err = fmt.Errorf("after %s%s: %w", znodes(r.sum.znodes), r.lastPath(), err)
	}
	return n, data, err
}

func znodes(n int) string {
	if n == 1 {
		return "1 znode"
	}
	return fmt.Sprintf("%d znodes", n)
}

func (r *Reader) lastPath() string {
	if r.last == nil {
		return ""
	}
	return fmt.Sprintf(", the last %q", strings.Join(r.last, "/")+"/")
}

func (r *Reader) next() (n Node, data []byte, err error) {
	n, err = r.r.next()
	if errors.Is(err, io.EOF) {
		mark, err := r.r.end()
		if err == nil {
			err = r.checkEnd(mark)
		}
		return n, nil, err
	}
	if err == nil {
		data, err = n.bytes()
	}
	if err == nil {
		err = r.checkPath(n.Path)
	}
	if err == nil {
		r.sum.node(n, data)
	}
	return n, data, err
}

// checkEnd returns io.EOF if the mark matches the data read.
func (r *Reader) checkEnd(mark *endMark) error {
	switch want := r.sum.mark(); {
	case r.unchecked:
	case mark == nil:
		return ErrNoMark
	case mark.Znodes != want.Znodes:
		return fmt.Errorf("its end mark says %s: it is damaged, or was changed", znodes(mark.Znodes))
	case mark.SHA256 != want.SHA256:
		return errors.New("its checksum is not that of its content: it is damaged, or was changed")
	}
	return io.EOF
}

// checkPath checks that the paths are in the order in which export writes them.
func (r *Reader) checkPath(path string) error {
	if err := jute.CheckPath(path); err != nil {
		return err
	}
	parts := strings.Split(strings.TrimSuffix(path, "/"), "/")
	switch {
	case r.last == nil:
		if path != "/" {
			return fmt.Errorf("it begins with %q; want /", path)
		}
	case slices.Compare(r.last, parts) >= 0:
		return fmt.Errorf("%q is out of order; want each znode once, after its parent, siblings sorted by name", path)
	case len(parts) > len(r.last)+1, !slices.Equal(parts[:len(parts)-1], r.last[:len(parts)-1]):
		return fmt.Errorf("%q has no parent before it", path)
	}
	r.last = parts
	return nil
}

// Writer writes a document, with its end mark after the last znode.
type Writer struct {
	w   formatWriter
	sum *checksum
}

// Create begins a document in a format: json, yaml or tar.
func Create(format string, out io.Writer, root string, at time.Time) (*Writer, error) {
	head := Head{formatNow, root, at.UTC().Format("2006-01-02T15:04:05.000Z")}
	w := &Writer{codecOf(format).writer(out), newSum(head)}
	return w, w.w.head(head)
}

// Node writes a znode. Parents must come before their children.
func (w *Writer) Node(n Node) error {
	data, err := n.bytes()
	if err == nil {
		err = n.checkText()
	}
	if err != nil {
		return err
	}
	w.sum.node(n, data)
	return w.w.node(n)
}

// Close ends the document. It doesn't close the file.
func (w *Writer) Close() error { return w.w.close(w.sum.mark()) }
