package external

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// linksMax bounds the symbolic links on the way to a program.
const linksMax = 40

// inspect returns nil if only root, the server's user and the program's owner can change the program at an absolute
// path or put another one in its place. It follows the path as the kernel does and checks each directory on the way,
// including those of symbolic links. In a directory with the sticky bit, such as /tmp, others can create entries but
// can't replace those of other users.
func inspect(path string) error {
	st, err := os.Stat(path)
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("use the program %s: it isn't a file", path)
	}
	trusted := func(at string, st fs.FileInfo, of fs.FileInfo) error {
		if !ownedBy(st, of) {
			return fmt.Errorf("use the program %s: %s belongs to somebody else: %w", path, at, errPermissions)
		}
		shared := st.IsDir() && st.Mode()&fs.ModeSticky != 0
		if st.Mode()&fs.ModeSymlink == 0 && st.Mode().Perm()&0o022 != 0 && !shared {
			return fmt.Errorf("use the program %s: of %s, %w", path, at, errPermissions)
		}
		return nil
	}
	at, rest := "/", strings.Split(path, "/")
	for links := 0; ; {
		of, err := os.Lstat(at)
		if err != nil {
			return err
		}
		if err := trusted(at, of, st); err != nil {
			return err
		}
		if of.Mode()&fs.ModeSymlink != 0 {
			if links++; links > linksMax {
				return fmt.Errorf("use the program %s: there are more than %d symbolic links on the way", path, linksMax)
			}
			to, err := os.Readlink(at)
			if err != nil {
				return err
			}
			rest = append(strings.Split(to, "/"), rest...)
			if at = filepath.Dir(at); filepath.IsAbs(to) {
				at = "/"
			}
			continue
		}
		for len(rest) > 0 && (rest[0] == "" || rest[0] == ".") {
			rest = rest[1:]
		}
		if len(rest) == 0 {
			return nil
		}
		at, rest = filepath.Join(at, rest[0]), rest[1:] // ".." is resolved here, in a path without links
	}
}
