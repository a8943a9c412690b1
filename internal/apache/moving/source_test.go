//go:build unix

package moving

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/jute"
)

// apacheServer returns the dataDir of a stopped Apache server that has created /logged, and its dataLogDir, which has
// that in its log. zoo.cfg isn't there.
func apacheServer(t *testing.T) (dir, logDir string) {
	t.Helper()
	dir, logDir = t.TempDir(), t.TempDir()
	s := files.NewLive()
	record := jute.AppendInt(jute.AppendLong(nil, 1), 1)
	record = jute.AppendInt(jute.AppendLong(jute.AppendLong(record, 1<<32|1), 5), int32(jute.OpCreate2))
	record = jute.AppendACLs(jute.AppendBuffer(jute.AppendString(record, "/logged"), nil), jute.WorldACL(jute.PermAll))
	record = jute.AppendInt(jute.AppendBool(record, false), 1)
	for _, d := range []string{dir, logDir} {
		if err := files.MakeDir(d); err != nil {
			t.Fatal(err)
		}
	}
	var snapshot bytes.Buffer
	walk := s.Walk()
	for more := true; more; {
		more = walk.Step()
		if err := walk.Flush(&snapshot); err != nil {
			t.Fatal(err)
		}
	}
	snapshot.Write(walk.Finish())
	if err := os.WriteFile(files.SnapshotPath(dir, 0), snapshot.Bytes(), 0o600); err != nil {
		t.Fatal(err)
	}
	log, err := files.CreateLog(logDir, 1<<32|1)
	if err == nil {
		err = log.Append(record)
	}
	if err == nil {
		err = log.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	return dir, logDir
}

// must runs a command that has to end with a code and say something.
func must(t *testing.T, code int, says string, args ...string) {
	t.Helper()
	var out bytes.Buffer
	if got := run(args, &out, &out); got != code || !strings.Contains(out.String(), says) {
		t.Errorf("zooid %q: exit %d, %q; want %d and %q", args, got, out.String(), code, says)
	}
}

// TestForgottenLogDir: a log that is elsewhere is found by zoo.cfg, or asked for; it is never taken for none.
func TestForgottenLogDir(t *testing.T) {
	t.Parallel()
	dir, logDir := apacheServer(t)
	request := "0x1/" + string(proof.NewTry()) + "/127.0.0.1:1"
	to := func() string { return filepath.Join(t.TempDir(), "to") }
	must(t, 1, "-datalogdir DIR or -zoocfg FILE", "import", dir, to())
	must(t, 1, "-datalogdir DIR or -zoocfg FILE", "import", filepath.Join(dir, "version-2"), to())
	must(t, 1, "-datalogdir DIR or -zoocfg FILE", "migrate", "tail", "-after", request, dir)
	must(t, 0, "-datalogdir DIR or -zoocfg FILE", "migrate", "digest", dir)
	must(t, 0, "0 transactions of 0 logs", "import", "-without-log", dir, to())
	must(t, 0, "1 transactions of 1 logs", "import", "-datalogdir", logDir, dir, to())
	cfg := func(path, dataDir string) string {
		t.Helper()
		text := "# dataLogDir=/none\ndataDir = " + dataDir + "\ndataLogDir=" + logDir + "\nclientPort=2181\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	named := cfg(filepath.Join(t.TempDir(), "zoo.cfg"), dir)
	must(t, 0, "its dataLogDir is "+logDir, "import", "-zoocfg", named, dir, to())
	must(t, 1, "is of the dataDir", "import", "-zoocfg", cfg(named+"2", t.TempDir()), dir, to())
	cfg(filepath.Join(dir, "zoo.cfg"), t.TempDir()) // another server's
	must(t, 1, "-datalogdir DIR or -zoocfg FILE", "import", dir, to())
	cfg(filepath.Join(dir, "zoo.cfg"), dir)
	must(t, 0, "1 transactions of 1 logs", "import", dir, to())
	must(t, 0, "zxid 0x100000001", "migrate", "digest", dir)
	must(t, 0, "zooid tail 1", "migrate", "tail", "-after", request, dir)
}

// TestLogDirInProperties: a zoo.cfg is read as Apache reads it, as Java's properties. A relative path in it isn't taken
// for one that is relative to this process.
func TestLogDirInProperties(t *testing.T) {
	t.Parallel()
	dir, logDir := apacheServer(t)
	if err := os.WriteFile(files.LogPath(dir, 1), nil, 0o600); err != nil { // of the time before there was a dataLogDir
		t.Fatal(err)
	}
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "zoo.cfg")
	to := func() string { return filepath.Join(t.TempDir(), "to") }
	for _, c := range []struct {
		text, says string
		code       int
	}{
		{"dataDir:" + dir + "\r\ndataLogDir : " + logDir + "\r\n", "its dataLogDir is " + logDir, 0},
		{"dataDir " + dir + "\ndataLogDir\t" + logDir, "its dataLogDir is " + logDir, 0},
		{"dataDir=" + link + "\ndataLogDir=\\\n    " + logDir, "its dataLogDir is " + logDir, 0},
		{"dataDir=" + dir + "\ndataLogDir=log", "relative to the directory in which Apache was started", 1},
	} {
		if err := os.WriteFile(file, []byte(c.text+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		must(t, c.code, c.says, "import", dir, to())
		must(t, c.code, c.says, "import", "-zoocfg", file, link, to())
	}
}

// TestImportOfARunningServer: a directory into which somebody writes isn't imported, unless the operator says so, and
// the report repeats it.
func TestImportOfARunningServer(t *testing.T) {
	t.Parallel()
	dir, logDir := apacheServer(t)
	to := filepath.Join(t.TempDir(), "to")
	imports := func(code int, says string, flags ...string) {
		t.Helper()
		must(t, code, says, append(append([]string{"import", "-datalogdir", logDir}, flags...), dir, to)...)
		if code == 1 {
			if entries, err := os.ReadDir(to); err == nil && len(entries) > 0 {
				t.Errorf("refused, and %d files are there", len(entries))
			}
		}
	}
	open, err := os.OpenFile(files.LogPath(logDir, 1<<32|1), os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	imports(1, "give -accept-running")
	open.Close()
	follower, err := proof.HoldCopy(dir, false)
	if err != nil {
		t.Fatal(err)
	}
	imports(1, "another process holds it")
	follower.Close()
	earlier, err := os.Create(filepath.Join(dir, "follow.lock"))
	if err != nil {
		t.Fatal(err)
	}
	defer earlier.Close()
	if err := syscall.Flock(int(earlier.Fd()), syscall.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	imports(1, "follow stores its copy there")
	imports(0, "accepted (-accept-running)", "-accept-running")
}

// TestImportsAtOnce: of two imports into one directory one succeeds, and what it has made is whole.
func TestImportsAtOnce(t *testing.T) {
	t.Parallel()
	dir, logDir := apacheServer(t)
	to := filepath.Join(t.TempDir(), "to")
	args := []string{"import", "-datalogdir", logDir, dir, to}
	var mu sync.Mutex
	done := 0
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			var out bytes.Buffer
			if run(args, &out, &out) == 0 {
				mu.Lock()
				done++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if done != 1 {
		t.Errorf("%d of 8 imports succeeded", done)
	}
	must(t, 1, "in use", args...)
	segments := 0
	err := filepath.WalkDir(to, func(path string, _ fs.DirEntry, err error) error {
		if strings.HasSuffix(path, ".log") {
			segments++
		}
		return err
	})
	if err != nil || segments != 1 {
		t.Errorf("%d segments, %v", segments, err)
	}
	must(t, 0, "exported", "export", "-to", filepath.Join(t.TempDir(), "back"), to)
}
