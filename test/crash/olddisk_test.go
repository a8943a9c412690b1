package crash

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// keepDisk copies a stopped server's directories, and returns a function that puts the copy back.
func (s *Server) keepDisk(t *testing.T) (putBack func()) {
	t.Helper()
	to := t.TempDir()
	run := func(name string, args ...string) {
		t.Helper()
		if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
			t.Fatalf("%s %q: %v\n%s", name, args, err, out)
		}
	}
	for _, dir := range s.dirs() {
		run("cp", "-a", dir, filepath.Join(to, filepath.Base(dir)))
	}
	return func() {
		t.Helper()
		for _, dir := range s.dirs() {
			if err := os.RemoveAll(dir); err != nil {
				t.Fatal(err)
			}
			run("cp", "-a", filepath.Join(to, filepath.Base(dir)), dir)
		}
	}
}

// TestOldDiskComesBack: the old disk of a server, as a snapshot of its machine keeps it, comes back after the server
// has joined with an empty one. The server sets it aside by itself and joins anew, whether or not the others have been
// started again meanwhile.
func TestOldDiskComesBack(t *testing.T) {
	hurtful(t)
	t.Parallel()
	for _, again := range []bool{false, true} {
		name := "others run on"
		if again {
			name = "others start again"
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := Start(t, Options{Servers: 3})
			s := e.Servers[2]
			write(t, s.Addr, "/old")
			s.Stop()
			putBack := s.keepDisk(t)
			empty(t, s)
			restart(t, s)
			if err := e.awaitVotes(); err != nil {
				t.Fatal(err)
			}
			write(t, s.Addr, "/new")
			s.Stop()
			write(t, e.Servers[0].Addr, "/without")
			if again {
				for _, other := range e.Servers[:2] {
					other.Stop()
				}
				startThem(t, e.Servers[:2]...)
				for _, other := range e.Servers[:2] {
					if _, err := other.Ready(); err != nil {
						t.Fatal(err)
					}
				}
			}
			putBack()
			startThem(t, s)
			s.awaitLog(t, "it sets that data aside and joins again")
			if err := e.awaitVotes(); err != nil {
				t.Fatal(err)
			}
			oneTree(t, []string{"/old", "/new", "/without"}, e.Servers...)
			asides, err := filepath.Glob(filepath.Join(s.Data(), "aside-former-*"))
			if err != nil || len(asides) != 1 {
				t.Errorf("the old data is in %v, %v", asides, err)
			}
		})
	}
}

// TestOlderCopyOfTheDisk: the disk of a server is replaced by an older copy of itself, of the same life. The server
// says so and doesn't go on; it joins anew by the command that it names.
func TestOlderCopyOfTheDisk(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := Start(t, Options{Servers: 3})
	s := e.Servers[2]
	write(t, s.Addr, "/old")
	s.Stop()
	putBack := s.keepDisk(t)
	restart(t, s)
	write(t, s.Addr, "/new")
	s.Stop()
	putBack()
	startThem(t, s)
	s.awaitLog(t, "this server has acknowledged log entries that it doesn't have")
	write(t, e.Servers[0].Addr, "/without")
	s.says(t, []string{"-set-aside"}, "explain", "ZD-3136")
	s.Stop()
	s.zooid(t, "recover", "-set-aside", "-cluster", s.cluster(t), "-why", "an old disk", s.config())
	restart(t, s)
	oneTree(t, []string{"/old", "/new", "/without"}, e.Servers...)
}
