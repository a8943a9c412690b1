//go:build unix

package newensemble

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"syscall"

	"github.com/zooid-project/zooid/internal/storage"
)

// rootsID is the user id of root.
const rootsID = 0

// HandOver gives files that a command, run by root, has made in a server's directories to the owner of each directory:
// the server runs as its own user, and couldn't read them.
func HandOver(dirs ...string) error {
	if os.Geteuid() != rootsID {
		return nil
	}
	for _, dir := range slices.Compact(dirs) {
		if err := handOverIn(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("give the files of root in %s to the directory's owner: %w; do so by chown before the server is started",
				dir, err)
		}
	}
	return nil
}

func handOverIn(dir string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer root.Close()
	st, err := root.Stat(".")
	if err != nil {
		return err
	}
	owner, ok := st.Sys().(*syscall.Stat_t)
	if !ok || owner.Uid == rootsID {
		return nil
	}
	return fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || name == "." {
			return unlessGone(err)
		}
		if top, _, _ := strings.Cut(name, "/"); !commandsMake(top) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return unlessGone(err)
		}
		has, ok := st.Sys().(*syscall.Stat_t)
		if !ok || has.Uid != rootsID || st.Mode().IsRegular() && has.Nlink > 1 {
			return nil
		}
		return unlessGone(root.Lchown(name, int(owner.Uid), int(owner.Gid)))
	})
}

// unlessGone returns err unless it says that a file doesn't exist: a running server removes files.
func unlessGone(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// commandsMake reports whether commands make files or folders of that name in a server's directories.
func commandsMake(name string) bool {
	_, own := storage.OwnFile(name)
	prefixes := []string{"aside-", "recover-", "reserve", "allow-join-", "switch-", entryPrefix, orderName}
	return own || name == RecordName ||
		slices.ContainsFunc(prefixes, func(prefix string) bool { return strings.HasPrefix(name, prefix) })
}
