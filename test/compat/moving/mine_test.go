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
func TestFollowIntoApachesOwn(t *testing.T) { withEach(t, both, followIntoApachesOwn) }

func followIntoApachesOwn(t *testing.T, version string) {
	program := zooid(t)
	e := startEnsemble(t, version)
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

// TestCheckWritesNothing: switch -check leaves a copy as it was, and makes none. A copy that is being made isn't
// imported.
func TestCheckWritesNothing(t *testing.T) { withEach(t, both, checkWritesNothing) }

func checkWritesNothing(t *testing.T, version string) {
	program := zooid(t)
	e := startEnsemble(t, version)
	cfg := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(cfg, []byte("dataDir="+t.TempDir()+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	parent := t.TempDir()
	kept := filepath.Join(parent, "kept")
	f, stop := startFollower(t, e, kept)
	caughtUp(t, e, f)
	refused(t, program, "another process holds it", "import", kept, filepath.Join(t.TempDir(), "to"))
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

// TestImportOfRealDirectories: a running Apache server's directory isn't imported, and neither is one whose log is
// elsewhere, unless zoo.cfg tells where: nor has it a tail or a digest. Of imports at once into one directory one
// succeeds, and has made everything. zooid doctor says to import it.
func TestImportOfRealDirectories(t *testing.T) { withEach(t, both, importOfRealDirectories) }

func importOfRealDirectories(t *testing.T, version string) {
	program, logDir := zooid(t), t.TempDir()
	e := startServers(t, version, 1, "dataLogDir="+logDir+"\n")
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
	cfg := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(cfg, []byte("clientPort=2181\ndataDir="+dir+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, program, "import it, with its sessions, ephemeral znodes and zxids", "doctor", cfg)
	tail := []string{"migrate", "tail", "-after", "0x1/0123456789abcdef/127.0.0.1:1"}
	refused(t, program, "-zoocfg FILE", "import", dir, to)
	refused(t, program, "-zoocfg FILE", append(tail, dir)...)
	// An observer may have got only a snapshot: here it is told, and return compares with what there must be.
	if out := command(t, program, "migrate", "digest", dir); !strings.Contains(out, "-zoocfg FILE") {
		t.Error(out)
	}
	whole := command(t, program, "migrate", "digest", "-zoocfg", hidden, dir)
	if out := command(t, program, append(tail, "-zoocfg", hidden, dir)...); !strings.Contains(whole, "5 znodes") ||
		!strings.Contains(out, "/logged") {
		t.Errorf("with the log: %s%s", whole, out)
	}
	var imports [4]*watched
	for i := range imports {
		imports[i] = watch(t, exec.Command(program, "import", "-zoocfg", hidden, dir, to))
	}
	done, said := 0, ""
	for _, w := range imports {
		<-w.ended
		if said += w.out.text(); w.cmd.ProcessState.Success() {
			done++
		}
	}
	if done != 1 || !strings.Contains(said, "its dataLogDir is "+logDir) {
		t.Errorf("%d imports succeeded:\n%s", done, said)
	}
	refused(t, program, "in use", "import", "-zoocfg", hidden, dir, to)
	back := filepath.Join(t.TempDir(), "back")
	if out := command(t, program, "export", "-to", back, to); !strings.Contains(out, "exported 5 znodes") {
		t.Error(out)
	}
}

// TestCopyOfAnotherEnsemble: a copy of one ensemble isn't continued with another one whose zxids fit. The servers
// send no digests. With its own ensemble it goes on, from where it was.
func TestCopyOfAnotherEnsemble(t *testing.T) {
	withEach(t, tried([]string{"3.5.10", "3.8.4", "3.9.5"}, "3.5.10", "3.9.5"), copyOfAnotherEnsemble)
}

func copyOfAnotherEnsemble(t *testing.T, version string) {
	program, dir := zooid(t), filepath.Join(t.TempDir(), "copy")
	const silent = "-Dzookeeper.digest.enabled=false"
	one, other := startServers(t, version, 1, "", silent), startServers(t, version, 1, "", silent)
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
