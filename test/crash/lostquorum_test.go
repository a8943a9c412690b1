package crash

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// TestLostQuorum kills three servers under load and takes two of the disks away. The third
// becomes the beginning of a new ensemble, by the commands of an operator: everything that its
// log held is there, so nothing that it acknowledged is lost. The others join with empty
// disks. One that comes back with its old disk is refused, and changes nothing.
func TestLostQuorum(t *testing.T) {
	_, rng := hurtful(t)
	e := Start(t, Options{Servers: 3})
	at := rng.IntN(3)
	survivor, lost, old := e.Servers[at], e.Servers[(at+1)%3], e.Servers[(at+2)%3]
	acknowledged := e.writeUntilKilled(t)
	ours := survivor.logged(t)
	if len(ours) == 0 || len(acknowledged) == 0 {
		t.Fatalf("%d writes were acknowledged, and the survivor's log holds %d", len(acknowledged), len(ours))
	}
	t.Logf("%d writes were acknowledged; the survivor's log holds %d", len(acknowledged), len(ours))
	empty(t, lost)

	said := survivor.recover(t, 0, filepath.Join(survivor.Folder, "zoo.cfg"))
	cluster := clusterShown.FindStringSubmatch(said)
	if cluster == nil || !strings.Contains(said, "The ensemble has 3 voters. Writes that the missing servers acknowledged") {
		t.Fatalf("recover says\n%s", said)
	}
	renew := []string{
		"-new-ensemble", "-cluster", cluster[1], "-why", "two disks are gone", filepath.Join(survivor.Folder, "zoo.cfg"),
	}
	refused := func(says string, args ...string) {
		t.Helper()
		if said := survivor.recover(t, 1, args...); !strings.Contains(said, says) {
			t.Errorf("recover %q says\n%s\nwant %q in it", args, said, says)
		}
	}
	refused("nothing was changed", "-new-ensemble", "-cluster", "0123456789abcdef", "-why", "a slip",
		filepath.Join(survivor.Folder, "zoo.cfg"))
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	old.awaitPeerPort(t)
	refused(fmt.Sprintf("server %d answers", old.ID), renew...)
	old.Kill()

	if said := survivor.recover(t, 0, renew...); !strings.Contains(said, "the new ensemble has the cluster id") {
		t.Fatalf("recover says\n%s", said)
	}
	restart(t, survivor)
	survivor.holds(t, ours)
	restart(t, lost) // with an empty disk, while the third is away
	lost.holds(t, ours)
	write(t, lost.Addr, "/after")

	// The old server with its old disk is no part of it.
	if err := old.Start(); err != nil {
		t.Fatal(err)
	}
	old.awaitLog(t, "belongs to cluster")
	for _, path := range []string{"/while-refused-1", "/while-refused-2"} {
		write(t, survivor.Addr, path)
	}
	if mode, err := old.Mode(); err == nil && mode != "" {
		t.Errorf("the old server serves as %s", mode)
	}
	old.Kill()
	if said := old.recover(t, 0, "-set-aside", "-cluster", cluster[1], "-why", "it joins anew",
		filepath.Join(old.Folder, "zoo.cfg")); !strings.Contains(said, "aside-recovered-") {
		t.Errorf("recover -set-aside says\n%s", said)
	}
	restart(t, old)
	old.holds(t, append(ours, "/after", "/while-refused-1", "/while-refused-2"))
	write(t, old.Addr, "/all-three")
	trees := map[string]bool{}
	for _, s := range e.Servers {
		s.holds(t, []string{"/all-three"})
		trees[contents(t, s.Addr)] = true
	}
	if len(trees) != 1 {
		verdict.Final(t, verdict.Digest)
		t.Errorf("the servers hold %d different trees", len(trees))
	}
	// Three votes again: any one may go.
	for deadline := time.Now().Add(startPatience); ; time.Sleep(readyPause) {
		if mode, err := old.Mode(); err == nil && mode == "follower" {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("server %d has no vote yet; its log ends:\n%s", old.ID, old.LogEnd())
		}
	}
	survivor.Stop()
	write(t, lost.Addr, "/without-the-survivor")
	restart(t, survivor)
	survivor.holds(t, []string{"/without-the-survivor"})
	record, err := os.ReadFile(filepath.Join(survivor.Data(), "RECOVERED"))
	if err != nil || !strings.Contains(string(record), `"why":"two disks are gone"`) ||
		!strings.Contains(string(record), cluster[1]) {
		t.Errorf("the record says %s, %v", record, err)
	}
}

var clusterShown = regexp.MustCompile(`cluster ([0-9a-f]{16})`)

// writeUntilKilled has clients of all servers create znodes, kills all servers at once under
// that load, and returns the paths that were acknowledged.
func (e *Ensemble) writeUntilKilled(t *testing.T) (acknowledged []string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	var mu sync.Mutex
	var wg sync.WaitGroup
	for w := range 6 {
		c, err := zk.Open(ctx, e.Servers[w%3].Addr, zk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			defer c.Detach()
			for i := 0; ctx.Err() == nil; i++ {
				path := fmt.Sprintf("/written-%d-%d", w, i)
				if _, err := c.Create(ctx, path, []byte(path), zk.ModePersistent, zk.WorldACL(zk.PermAll)); err == nil {
					mu.Lock()
					acknowledged = append(acknowledged, path)
					mu.Unlock()
				}
			}
		})
	}
	for enough := false; !enough; time.Sleep(readyPause) {
		mu.Lock()
		enough = len(acknowledged) >= 300
		mu.Unlock()
	}
	for _, s := range e.Servers {
		s.Kill()
	}
	cancel()
	wg.Wait()
	return acknowledged
}

// logged returns the znodes whose creation a stopped server's log holds, acknowledged or not, by
// the program that shows logs.
func (s *Server) logged(t *testing.T) (paths []string) {
	t.Helper()
	out, err := exec.Command(s.program, append([]string{"log", "-json"}, s.dirs()...)...).Output()
	if err != nil {
		t.Fatalf("zooid log of server %d: %v", s.ID, err)
	}
	for line := range strings.Lines(string(out)) {
		var entry struct{ Path, Result string }
		if json.Unmarshal([]byte(line), &entry) == nil && strings.HasPrefix(entry.Path, "/written-") &&
			strings.EqualFold(entry.Result, "ok") {
			paths = append(paths, entry.Path)
		}
	}
	return paths
}

// recover runs zooid recover and returns what it says.
func (s *Server) recover(t *testing.T, code int, args ...string) string {
	t.Helper()
	cmd := exec.Command(s.program, append([]string{"recover"}, args...)...)
	out, _ := cmd.CombinedOutput()
	if got := cmd.ProcessState.ExitCode(); got != code {
		t.Fatalf("zooid recover %q: exit code %d, want %d\n%s", args, got, code, out)
	}
	return string(out)
}

// awaitPeerPort waits until other servers can connect.
func (s *Server) awaitPeerPort(t *testing.T) {
	t.Helper()
	for deadline := time.Now().Add(startPatience); ; time.Sleep(readyPause) {
		c, err := net.Dial("tcp", s.Peer)
		if err == nil {
			c.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("server %d doesn't listen for its peers: %v", s.ID, err)
		}
	}
}

func restart(t *testing.T, s *Server) {
	t.Helper()
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Ready(); err != nil {
		t.Fatal(err)
	}
}

// holds checks that a server has all znodes, with what was written to them.
func (s *Server) holds(t *testing.T, paths []string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	c, err := zk.Open(ctx, s.Addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.Sync(ctx, "/"); err != nil {
		t.Fatal(err)
	}
	var missing []string
	lost := false // and not only unreadable for the time being
	for _, path := range slices.Sorted(slices.Values(paths)) {
		data, _, err := c.Get(ctx, path)
		if err != nil || strings.HasPrefix(path, "/written-") && string(data) != path {
			missing = append(missing, fmt.Sprintf("%s (%q, %v)", path, data, err))
			lost = lost || err == nil || errors.Is(err, zk.ErrNoNode)
		}
	}
	if lost {
		verdict.Final(t, verdict.Checker)
	}
	if len(missing) > 0 {
		t.Errorf("server %d lacks %d of %d znodes: %v", s.ID, len(missing), len(paths), missing[:min(len(missing), 10)])
	}
}
