package cli

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/export"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// importFile is a file that is read twice: to check that it is complete, then to write
// its znodes.
type importFile struct {
	name   string
	form   string
	zipped bool
	f      *os.File      // the input of the second reading
	once   io.ReadCloser // the input of the first reading, if it can't be read twice: then f gets a copy; else nil
}

// openImport opens a file, or standard input for "-". An input that can't be read
// twice, such as a pipe, is copied to a temporary file while it is read.
func (s *shell) openImport(ctx context.Context, name, form string, zipped bool) (*importFile, error) {
	i := &importFile{name: name, form: form, zipped: zipped}
	st, err := os.Stat(name)
	if name != "-" && (err != nil || st.Mode().IsRegular()) {
		i.f, err = os.Open(name)
		return i, err
	}
	if i.once, err = s.openInput(ctx, name); err != nil {
		return nil, err
	}
	if i.f, err = os.CreateTemp("", "zooid-import-*"); err != nil {
		i.once.Close()
		return nil, fmt.Errorf("store the input until it is known to be complete: %w", err)
	}
	return i, nil
}

func (i *importFile) close() {
	i.f.Close()
	if i.once != nil {
		i.once.Close()
		os.Remove(i.f.Name())
	}
}

// first reads the file for the first time.
func (i *importFile) first(a *args) (*importReader, error) {
	if i.once == nil {
		return i.read(i.f, a)
	}
	return i.read(io.TeeReader(i.once, i.f), a)
}

// again reads the file once more.
func (i *importFile) again(a *args) (*importReader, error) {
	if _, err := i.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	return i.read(i.f, a)
}

// read starts to read the znodes in in.
func (i *importFile) read(in io.Reader, a *args) (*importReader, error) {
	if i.zipped {
		z, err := gzip.NewReader(in)
		if err != nil {
			return nil, err
		}
		in = z
	}
	r, head, err := export.Read(i.form, in, a.has("unchecked"))
	if err != nil {
		return nil, err
	}
	w := &importReader{r, a.argOr(1, head.Root)}
	if err := jute.CheckPath(w.target); err != nil {
		return nil, fmt.Errorf("the target: %w", err)
	}
	return w, nil
}

// importReader reads the znodes of a file, ready to be written.
type importReader struct {
	*export.Reader
	target string // where they go
}

// loaded is a znode read from a file.
type loaded struct {
	relative string
	data     []byte
	acl      []zk.ACL

	hasChildren bool // the file has znodes below it
}

// next returns the next znode, or io.EOF after the last one of a complete file.
func (r *importReader) next() (loaded, error) {
	n, data, err := r.Next()
	if err != nil {
		return loaded{}, err
	}
	l := loaded{relative: strings.TrimSuffix(n.Path, "/"), data: data, acl: zk.WorldACL(zk.PermAll)}
	if len(n.ACL) > 0 {
		l.acl, err = parseEntries(n.ACL)
	}
	if err != nil {
		err = fmt.Errorf("%s: its %w", n.Path, err)
	}
	return l, err
}

func parseEntries(entries []string) ([]zk.ACL, error) {
	list := make([]zk.ACL, len(entries))
	for i, entry := range entries {
		e, offset, reason := subtree.ParseEntry(entry)
		if reason != "" {
			return nil, &subtree.ACLError{Text: entry, Offset: offset, Reason: reason}
		}
		list[i] = e
	}
	return list, nil
}

// verify reads the whole file and returns the reader, which is then at the end.
func (i *importFile) verify(ctx context.Context, a *args) (*importReader, error) {
	r, err := i.first(a)
	if err != nil {
		return nil, advice.Add(fmt.Errorf("import %s: it isn't a %s export: %w", i.name, i.form, err), "%s", i.hint(err))
	}
	for err == nil {
		if _, err = r.next(); ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, advice.Add(fmt.Errorf("import %s: the file is damaged or incomplete: %w", i.name, err), "%s", i.hint(err))
	}
	return r, nil
}

// hint says what to do about a file that is refused.
func (i *importFile) hint(err error) string {
	if errors.Is(err, export.ErrNoMark) || errors.Is(err, export.ErrOld) {
		return "nothing was written; -unchecked accepts files that were edited, or exported by an older version"
	}
	return "nothing was written; -format names its format, and -unchecked accepts files that were edited"
}
