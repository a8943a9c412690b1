//go:build unix

package main

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
)

// TestRootsCommands: what commands make in a server's directories belongs to the directory's owner, even if root runs
// them. The server couldn't start on a recovered directory, and would ignore an allow-join. Other files of root stay.
func TestRootsCommands(t *testing.T) {
	t.Parallel()
	if os.Getuid() != 0 {
		t.Skip("needs root, to give a directory to another user")
	}
	const user = 4242
	const cluster = "0000000000000abc"
	ports := freeport.Take(t, 1)
	for _, args := range [][]string{
		{"recover", "-set-aside", "-cluster", cluster, "-why", "it joins"},
		{"recover", "-new-ensemble", "-cluster", cluster, "-why", "two disks are gone"},
		{"allow-join", "3"},
	} {
		cfg, data := survivorOf(t, ports[0], 6)
		foreign := filepath.Join(data, "lost+found")
		walk := func(visit func(name string) error) {
			t.Helper()
			err := filepath.WalkDir(data, func(name string, _ fs.DirEntry, err error) error {
				return errors.Join(err, visit(name))
			})
			if err != nil {
				t.Fatal(err)
			}
		}
		walk(func(name string) error { return os.Chown(name, user, user) })
		if err := os.Mkdir(foreign, 0o700); err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		run := runRecover
		if args[0] == "allow-join" {
			run = runAllowJoin
		}
		args := append(args[1:], cfg)
		if code := run(args, &out, &out); code != 0 {
			t.Fatalf("%q: exit code %d\n%s", args, code, out.String())
		}
		files := 0
		walk(func(name string) error {
			st, err := os.Lstat(name)
			if err != nil {
				return err
			}
			files++
			if own := st.Sys().(*syscall.Stat_t); (own.Uid == user) != (name != foreign) {
				t.Errorf("%q: %s belongs to user %d", args, name, own.Uid)
			}
			return nil
		})
		if files < 5 {
			t.Errorf("%q: only %d files are there", args, files)
		}
	}
}
