package moving

import (
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
)

// filesBelow returns the paths of the files below a directory.
func filesBelow(t *testing.T, dir string) (all string) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			all += path + "\n"
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}

// refused runs a command that must fail and say something.
func refused(t *testing.T, program, says string, args ...string) {
	t.Helper()
	out, err := exec.Command(program, args...).CombinedOutput()
	if exit := (*exec.ExitError)(nil); !errors.As(err, &exit) || exit.ExitCode() != 1 ||
		!strings.Contains(string(out), says) {
		t.Errorf("zooid %q: %v, %s; want exit code 1 and %q", args, err, out, says)
	}
}

// TestFollowIntoApachesOwn: a running Apache server's dataDir is named as the directory of the copy. Nothing in it is
// touched, however often it is tried, and its server starts on it again with all that was acknowledged.
func TestFollowIntoApachesOwn(t *testing.T) {
	need(t)
	program := zooid(t)
	e := startEnsemble(t, "3.8.4")
	c, err := zk.Open(t.Context(), e.connect(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(t.Context(), "/acknowledged", nil, zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	e.servers[0].kill() // so that its files stay as they are
	dir, cfg := e.servers[0].dir, filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(cfg, []byte("dataDir="+t.TempDir()+"\nclientPort=0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	before := filesBelow(t, dir)
	for range 2 {
		refused(t, program, "files of an Apache ZooKeeper server", "migrate", "follow", e.connect(), dir)
		refused(t, program, "-adopt", "migrate", "follow", "-adopt", e.connect(), dir)
		refused(t, program, "files of an Apache ZooKeeper server", "migrate", "switch", "-check", e.connect(), dir, cfg)
		refused(t, program, "files of another program", "migrate", "follow", e.connect(), filepath.Join(dir, "version-2"))
	}
	if after := filesBelow(t, dir); after != before {
		t.Errorf("there was\n%snow\n%s", before, after)
	}
	e.servers[1].kill()
	e.start(0)
	e.await()
	c2, err := zk.Open(t.Context(), e.servers[0].addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c2.Close()
	if _, ok, err := c2.Exists(t.Context(), "/acknowledged"); err != nil || !ok {
		t.Errorf("the acknowledged znode: %v, %v", ok, err)
	}
}

// TestCheckWritesNothing: switch -check leaves a copy as it was, and makes none.
func TestCheckWritesNothing(t *testing.T) {
	need(t)
	program := zooid(t)
	e := startEnsemble(t, "3.9.5")
	cfg := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(cfg, []byte("dataDir="+t.TempDir()+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	kept := filepath.Join(parent, "kept")
	f, stop := startFollower(t, e, kept)
	caughtUp(t, e, f)
	stop()
	before := filesBelow(t, parent)
	for _, dir := range []string{kept, filepath.Join(parent, "new")} {
		out, err := exec.Command(program, "migrate", "switch", "-check", e.connect(), dir, cfg).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "rehearsed") {
			t.Errorf("%v: %s", err, out)
		}
		if after := filesBelow(t, parent); after != before {
			t.Errorf("there was\n%snow\n%s", before, after)
		}
	}
}

// TestImportOfARunningServer: a running Apache server's directory isn't imported, and neither is one without its
// dataLogDir: that is found in zoo.cfg.
func TestImportOfARunningServer(t *testing.T) {
	need(t)
	program, logDir := zooid(t), t.TempDir()
	e := startServers(t, "3.9.5", 1, "dataLogDir="+logDir+"\n")
	c, err := zk.Open(t.Context(), e.connect(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(t.Context(), "/logged", nil, zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	dir, to := e.servers[0].dir, filepath.Join(t.TempDir(), "to")
	refused(t, program, "-accept-running", "import", dir, to)
	e.servers[0].kill()
	hidden := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.Rename(filepath.Join(dir, "zoo.cfg"), hidden); err != nil {
		t.Fatal(err)
	}
	refused(t, program, "-zoocfg FILE", "import", dir, to)
	out := command(t, program, "import", "-zoocfg", hidden, dir, to)
	if !strings.Contains(out, "its dataLogDir is "+logDir) {
		t.Error(out)
	}
	out = command(t, program, "export", "-to", filepath.Join(t.TempDir(), "back"), to)
	if !strings.Contains(out, "exported 5 znodes") {
		t.Error(out)
	}
}

// TestCopyOfAnotherEnsemble: a copy of one ensemble isn't continued with another one whose zxids fit. The servers
// are of a version that sends no digests. With its own ensemble it goes on, from where it was.
func TestCopyOfAnotherEnsemble(t *testing.T) {
	need(t)
	program, dir := zooid(t), filepath.Join(t.TempDir(), "copy")
	one, other := startServers(t, "3.5.10", 1, ""), startServers(t, "3.5.10", 1, "")
	f, stop := startFollower(t, one, dir)
	caughtUp(t, one, f)
	last := caughtUp(t, one, f).Zxid // behind transactions that came to the log
	stop()
	for {
		if stat, err := marked(t.Context(), other.connect()); err == nil && stat.Czxid > last+10 {
			break
		}
	}
	refused(t, program, "another ensemble", "migrate", "follow", other.connect(), dir)
	f, stop = startFollower(t, one, dir)
	if s := caughtUp(t, one, f); s.Snapshots != 0 || s.Zxid <= last {
		t.Errorf("with its own ensemble: %+v", s)
	}
	stop()
}
