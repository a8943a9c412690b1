package compare

import (
	"context"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/tool/txnlog"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/zk"
)

// stored is a znode of a data directory.
type stored struct {
	path     string
	data     []byte
	acl      []zk.ACL
	stat     files.Stat
	session  int64 // the session that owns it
	children int32
}

// Files is the tree of a data directory, held entirely in memory.
type Files struct {
	znodes []stored // in the order of their paths
	zxid   int64    // of the last transaction that is in it
	keep   any      // keeps the memory of the data alive

	open func() (*Files, error) // reads the directory again
}

// OpenFiles reads a data directory: Apache's if it has version-2 and no files of Zooid, else Zooid's. A server may be
// running on a directory of Zooid's.
func OpenFiles(dir string, reconfigure tree.Reconfigure, progress func(files.Progress)) (*Files, error) {
	var f *Files
	var err error
	if isApache(dir) {
		f, err = openApache(dir, progress)
	} else {
		f, err = openZooid(dir, reconfigure)
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(f.znodes, func(a, b stored) int { return comparePaths(a.path, b.path) })
	f.count()
	f.open = func() (*Files, error) { return OpenFiles(dir, reconfigure, progress) }
	return f, nil
}

func isApache(dir string) bool {
	if _, err := os.Stat(filepath.Join(dir, "IDENTITY")); err == nil {
		return false
	}
	_, err := os.Stat(filepath.Join(dir, files.Version2))
	return err == nil || filepath.Base(filepath.Clean(dir)) == files.Version2
}

func openApache(dir string, progress func(files.Progress)) (*Files, error) {
	state, _, err := files.Load(files.Options{Dir: dir, Progress: progress})
	if err != nil {
		return nil, err
	}
	f := &Files{keep: state, zxid: state.Zxid, znodes: make([]stored, 0, state.Len())}
	err = state.Znodes(func(z *files.Znode) error {
		f.znodes = append(f.znodes,
			stored{path: named(z.Path), data: z.Data, acl: z.ACL.List, stat: z.Stat, session: state.Owner(z, false).Session})
		return nil
	})
	return f, err
}

func openZooid(dir string, reconfigure tree.Reconfigure) (*Files, error) {
	t, _, err := txnlog.Newest(txnlog.Options{Dirs: []string{dir}, Reconfigure: reconfigure})
	if err != nil {
		return nil, err
	}
	f := &Files{keep: t, zxid: t.LastZxid(), znodes: make([]stored, 0, t.NodeCount())}
	t.Znodes(func(z *tree.Foreign) bool {
		f.znodes = append(f.znodes,
			stored{path: strings.Clone(z.Path), data: z.Data, acl: z.ACL, stat: apache.ApacheStat(z), session: z.Owner})
		return true
	})
	return f, nil
}

// named returns the path of a znode that Apache's files call name: there "" is the root.
func named(path string) string {
	if path == "" {
		return "/"
	}
	return path
}

// count counts the children of each znode.
func (f *Files) count() {
	for _, z := range f.znodes {
		if parent, _ := files.SplitPath(z.path); z.path != "/" {
			if i, ok := f.find(named(parent)); ok {
				f.znodes[i].children++
			}
		}
	}
}

func (f *Files) find(path string) (int, bool) {
	return slices.BinarySearchFunc(f.znodes, path, func(z stored, path string) int { return comparePaths(z.path, path) })
}

// All iterates over the znodes that were there when it is called.
func (f *Files) All(context.Context) iter.Seq2[*Znode, error] {
	znodes := f.znodes
	return func(yield func(*Znode, error) bool) {
		for i := range znodes {
			if !yield(znodes[i].znode(), nil) {
				return
			}
		}
	}
}

func (z *stored) znode() *Znode {
	return &Znode{Path: z.path, Data: z.data, ACL: z.acl, Stat: z.stat.Visible(z.session, z.data, z.children)}
}

// Read returns a znode.
func (f *Files) Read(_ context.Context, path string) (*Znode, error) {
	i, ok := f.find(path)
	if !ok {
		return nil, nil
	}
	return f.znodes[i].znode(), nil
}

// Sync returns ErrCopy.
func (f *Files) Sync(context.Context) error { return ErrCopy }

// Zxid returns the zxid up to which the directory was read.
func (f *Files) Zxid(context.Context) (int64, error) { return f.zxid, nil }

// filesPoll is the time between two readings of a directory.
const filesPoll = 200 * time.Millisecond

// Reach reads the directory again, since its writer may have written more.
func (f *Files) Reach(ctx context.Context, zxid int64, patience time.Duration) (int64, error) {
	for end := time.Now().Add(patience); f.zxid < zxid; {
		now, err := f.open()
		if err == nil && now.zxid >= f.zxid { // an older state means that files are being replaced
			f.znodes, f.zxid, f.keep = now.znodes, now.zxid, now.keep
		}
		if f.zxid >= zxid || !time.Now().Before(end) {
			return f.zxid, err
		}
		select {
		case <-ctx.Done():
			return f.zxid, ctx.Err()
		case <-time.After(filesPoll):
		}
	}
	return f.zxid, nil
}

// Files is true.
func (f *Files) Files() bool { return true }
