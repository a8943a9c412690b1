package cli

import (
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/zooid-project/zooid/internal/export"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// importFile is a file that is read twice: to see that it is whole, and to write
// what it says.
type importFile struct {
	name   string
	form   string
	zipped bool
	f      *os.File
	spool  string // the temporary file to be removed, "" for none
}

// openImport opens a file, "-" being standard input. What can't be read twice, such
// as a pipe, is copied to a temporary file.
func openImport(name, form string, zipped bool) (*importFile, error) {
	i := &importFile{name: name, form: form, zipped: zipped, f: os.Stdin}
	if name != "-" {
		var err error
		if i.f, err = os.Open(name); err != nil {
			return nil, err
		}
		if st, err := i.f.Stat(); err == nil && st.Mode().IsRegular() {
			return i, nil
		}
		defer i.f.Close()
	}
	in := i.f
	f, err := os.CreateTemp("", "zooid-import-*")
	if err != nil {
		return nil, fmt.Errorf("keep what is read until it is known to be whole: %w", err)
	}
	i.f, i.spool = f, f.Name()
	if _, err := io.Copy(f, in); err != nil {
		i.close()
		return nil, fmt.Errorf("keep what is read in %s until it is known to be whole: %w", f.Name(), err)
	}
	return i, nil
}

func (i *importFile) close() {
	i.f.Close()
	if i.spool != "" {
		os.Remove(i.spool)
	}
}

// read begins to read the file from its start.
func (i *importFile) read(a *args) (*importReader, error) {
	if _, err := i.f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	var in io.Reader = i.f
	if i.zipped {
		z, err := gzip.NewReader(i.f)
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
		return nil, fmt.Errorf("the znode to write to: %w", err)
	}
	return w, nil
}

// importReader reads the znodes of a file as they are written.
type importReader struct {
	*export.Reader
	target string // where they go
}

// loaded is one of them.
type loaded struct {
	relative string
	data     []byte
	acl      []zk.ACL

	hasChildren bool // the file has znodes below it
}

// next returns the next one, io.EOF after the last of a file that is whole.
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
		e, offset, reason := parseEntry(entry)
		if reason != "" {
			return nil, &aclError{entry, offset, reason}
		}
		list[i] = e
	}
	return list, nil
}

// verify reads the file whole. It returns what it has read to the end.
func (i *importFile) verify(ctx context.Context, a *args) (*importReader, error) {
	r, err := i.read(a)
	if err != nil {
		return nil, advise(fmt.Errorf("import %s: it is no %s export: %w", i.name, i.form, err), "%s", i.hint(err))
	}
	for err == nil {
		if _, err = r.next(); ctx.Err() != nil {
			err = ctx.Err()
		}
	}
	if !errors.Is(err, io.EOF) {
		return nil, advise(fmt.Errorf("import %s: the file is not whole: %w", i.name, err), "%s", i.hint(err))
	}
	return r, nil
}

// hint says what to do about a file that is refused.
func (i *importFile) hint(err error) string {
	if errors.Is(err, export.ErrNoMark) || errors.Is(err, export.ErrOld) {
		return "nothing was written; -unchecked takes files that were edited, or exported by an older version"
	}
	return "nothing was written; -format names its format, and -unchecked takes files that were edited"
}
