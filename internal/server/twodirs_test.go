package server

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// emptyDir removes what is in a directory, as a new disk in its place does.
func emptyDir(t *testing.T, dir string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if err := os.RemoveAll(filepath.Join(dir, e.Name())); err != nil {
			t.Fatal(err)
		}
	}
}

// missing checks that a server doesn't start since one of its directories lacks what the other proves, and says so.
func missing(t *testing.T, opt Options, dir string) {
	t.Helper()
	s, err := Open(opt)
	if err == nil {
		s.Close()
		t.Fatalf("a server started without what %s held", dir)
	}
	lost := (*storage.MissingError)(nil)
	if !errors.As(err, &lost) || lost.Dir != dir || !strings.Contains(err.Error(), opt.DataDir) ||
		!strings.Contains(err.Error(), opt.LogDir) {
		t.Fatalf("start without what %s held: %v", dir, err)
	}
}

// reads waits until the server at addr, after a sync, has the znode.
func reads(t *testing.T, addr, path string) {
	t.Helper()
	c := connect(t, addr, 0, nil)
	defer c.conn.Close()
	if h, _ := c.call(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") }); h.Err != jute.OK {
		t.Fatalf("sync on %s: %v", addr, h.Err)
	}
	if h, _ := c.call(jute.OpExists, reading(path, false)); h.Err != jute.OK {
		t.Fatalf("%s on %s: %v", path, addr, h.Err)
	}
}

// TestTwoDirectoriesAlone restarts a server alone whose log has a directory of its own, with both, with the layout of
// before, in which only the log's directory says whose it is, and without one of them.
func TestTwoDirectoriesAlone(t *testing.T) {
	t.Parallel()
	log := &logLines{}
	opt := Options{
		DataDir: t.TempDir(), LogDir: t.TempDir(), Listen: []string{"127.0.0.1:0"}, Serving: Serving{SnapCount: 1 << 30},
		Log: log.logger(),
	}
	run := func(do func(addr string)) {
		t.Helper()
		s, err := Open(opt)
		if err != nil {
			t.Fatal(err)
		}
		do(s.Addrs()[0].String())
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	run(func(addr string) { writes(t, addr, "/a") })
	run(func(addr string) { reads(t, addr, "/a") })
	if err := os.Remove(filepath.Join(opt.DataDir, "IDENTITY")); err != nil {
		t.Fatal(err)
	}
	run(func(addr string) { reads(t, addr, "/a") })
	emptyDir(t, opt.DataDir)
	run(func(addr string) { reads(t, addr, "/a") }) // the log has it all
	log.says(t, "data directory was new or empty", opt.DataDir, opt.LogDir)

	aside := t.TempDir()
	if err := os.CopyFS(aside, os.DirFS(opt.LogDir)); err != nil {
		t.Fatal(err)
	}
	emptyDir(t, opt.LogDir)
	missing(t, opt, opt.LogDir)
	if err := os.CopyFS(opt.LogDir, os.DirFS(aside)); err != nil { // mounted again
		t.Fatal(err)
	}
	run(func(addr string) { reads(t, addr, "/a") })
}

// TestTwoDirectoriesOfThree restarts one server of three and all three, whose logs have directories of their own, and
// takes one of the two away from one of them: it goes on if the log has everything, else it says what is missing and
// has no vote until it is emptied whole and joins again.
func TestTwoDirectoriesOfThree(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{Serving: Serving{SnapCount: 1 << 30}, PeerSecrets: secretForTests})
	var lines strings.Builder
	for _, m := range opts[0].Members {
		fmt.Fprintf(&lines, "%d %s\n", m.ID, m.Addrs[0])
	}
	for i, s := range servers { // once more, with two directories each
		s.Close()
		opts[i].Membership = lineMembership(lines.String())
		emptyDir(t, opts[i].DataDir)
		if opts[i].LogDir != "" {
			emptyDir(t, opts[i].LogDir)
		}
		opts[i].LogDir = t.TempDir()
	}
	copy(servers, openAll(t, opts))
	// One that writes the log in another directory than the one it looks for it in waits for peers to let it in.
	restart := func(i int) {
		t.Helper()
		opened := make(chan *Server, 1)
		go func() {
			s, err := Open(opts[i])
			if err != nil {
				t.Errorf("restart server %d: %v", i+1, err)
			}
			opened <- s
		}()
		select {
		case servers[i] = <-opened:
		case <-time.After(patience):
			t.Fatalf("server %d, restarted, doesn't find its data", i+1)
		}
		if t.Failed() {
			t.FailNow()
		}
	}
	addr := func(i int) string { return opts[i].Listen[0] }
	serves := func(when int) {
		t.Helper()
		path := fmt.Sprintf("/n%d", when)
		writes(t, addr(when%3), path)
		for i := range servers {
			reads(t, addr(i), path)
		}
	}
	serves(0)
	servers[1].Close()
	restart(1)
	if _, err := os.Stat(filepath.Join(opts[1].LogDir, peer.NoteName)); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a restarted server joins its ensemble like one that lost its disk (%v)", err)
	}
	serves(1)
	for _, s := range servers {
		s.Close()
	}
	copy(servers, openAll(t, opts))
	serves(2)

	servers[1].Close()
	emptyDir(t, opts[1].DataDir) // the log has everything
	restart(1)
	serves(3)

	servers[1].Close()
	emptyDir(t, opts[1].LogDir)
	missing(t, opts[1], opts[1].LogDir)
	writes(t, addr(0), "/meanwhile")
	emptyDir(t, opts[1].DataDir)
	restart(1)
	serves(4)
}
