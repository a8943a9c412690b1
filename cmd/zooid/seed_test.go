package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// seedlings are the servers of an ensemble that is to begin with what Apache had.
type seedlings struct {
	t       *testing.T
	dir     string
	clients []string
	running [3]*exec.Cmd
}

func newSeedlings(t *testing.T, lines string) *seedlings {
	t.Helper()
	s := &seedlings{t: t, dir: t.TempDir()}
	ports := freeport.Take(t, 9)
	for i := range 3 {
		s.clients = append(s.clients, "127.0.0.1:"+strconv.Itoa(ports[3*i]))
		lines += fmt.Sprintf("server.%d=127.0.0.1:%d:%d;127.0.0.1:%d\n", i+1, ports[3*i+1], ports[3*i+2], ports[3*i])
	}
	for i := range 3 {
		err := os.Mkdir(s.place(i), 0o700)
		if err == nil {
			err = os.WriteFile(filepath.Join(s.place(i), "myid"), []byte(strconv.Itoa(i+1)), 0o600)
		}
		if err == nil {
			err = os.WriteFile(s.config(i),
				fmt.Appendf(nil, "dataDir=%s\ntickTime=500\ninitLimit=20\nsyncLimit=10\n%s", s.place(i), lines), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func (s *seedlings) place(i int) string  { return filepath.Join(s.dir, "data"+strconv.Itoa(i+1)) }
func (s *seedlings) config(i int) string { return filepath.Join(s.dir, fmt.Sprintf("zoo%d.cfg", i+1)) }

// thisTry is the try of the tests' seeds.
const thisTry = "0123456789abcdef"

// plant runs zooid migrate seed for a server, and has it release what stays.
func (s *seedlings) plant(i int, snapshot string, stay bool) (string, error) {
	if !stay {
		return s.order(i, apache.SeedRehearse, thisTry, snapshot)
	}
	said, err := s.order(i, apache.SeedPlant, thisTry, snapshot)
	if err == nil {
		_, err = s.order(i, apache.SeedRelease, thisTry, "")
	}
	return said, err
}

// order gives zooid migrate seed an order.
func (s *seedlings) order(i int, do, try, snapshot string) (string, error) {
	var in bytes.Buffer
	if err := (apache.SeedOrder{Do: do, Try: try}).Send(&in, snapshot); err != nil {
		return "", err
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS=migrate seed "+s.config(i))
	cmd.Stdin = &in
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func (s *seedlings) start(i int) {
	s.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS=server "+s.config(i))
	log, err := os.Create(s.config(i) + ".log")
	if err != nil {
		s.t.Fatal(err)
	}
	cmd.Stderr = log
	if err := cmd.Start(); err != nil {
		s.t.Fatal(err)
	}
	log.Close()
	s.running[i] = cmd
	s.t.Cleanup(func() {
		s.kill(i)
		if said, _ := os.ReadFile(log.Name()); s.t.Failed() {
			s.t.Logf("server %d said:\n%s", i+1, said)
		}
	})
}

func (s *seedlings) kill(i int) {
	if cmd := s.running[i]; cmd != nil {
		cmd.Process.Kill()
		cmd.Wait()
		s.running[i] = nil
	}
}

// log returns what a server has said since its last start.
func (s *seedlings) log(i int) string {
	log, err := os.ReadFile(s.config(i) + ".log")
	if err != nil {
		s.t.Fatal(err)
	}
	return string(log)
}

// said reports whether a server's log has a text.
func (s *seedlings) said(i int, text string) bool {
	log, err := os.ReadFile(s.config(i) + ".log")
	return err == nil && bytes.Contains(log, []byte(text))
}

// open opens a session, or resumes one.
func (s *seedlings) open(patience time.Duration, i int, o zk.Options) (*zk.Client, error) {
	ctx, cancel := context.WithTimeout(s.t.Context(), patience)
	defer cancel()
	return zk.Open(ctx, s.clients[i], o)
}

// apacheDir makes a dataDir of Apache's, with a session and its znode.
func apacheDir(t *testing.T, session int64) string {
	t.Helper()
	dir := t.TempDir()
	_, err := files.Write(dir, &files.Content{
		Zxid: 0x500000007, Epoch: 5, Sessions: []files.Session{{ID: session, Timeout: 60000}},
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/a"} {
				if err := visit(path, []byte(path), jute.WorldACL(jute.PermAll),
					&files.Stat{Czxid: 0x500000001, Mzxid: 0x500000001}); err != nil {
					return err
				}
			}
			return visit("/mine", nil, jute.WorldACL(jute.PermAll),
				&files.Stat{Czxid: 0x500000002, Mzxid: 0x500000002, Owner: session})
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestSeededEnsemble: servers that begin with the same seed are an ensemble at once. One of them alone serves nobody,
// so that what a client was told is on two disks; a session of Apache's goes on. A voter whose seed got lost joins with
// an empty directory.
func TestSeededEnsemble(t *testing.T) {
	t.Parallel()
	const session = 0x100000000000001
	for name, lines := range map[string]string{"secret": "quorum.secret=0123456789012345678901234567\n", "none": ""} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newSeedlings(t, lines)
			lost := name == "secret" // one of the seeds
			said := map[int]string{}
			o := apache.ImportOptions{
				Apache: files.Options{Dir: apacheDir(t, session)}, Dir: s.place(0), Voters: []uint64{1, 2, 3},
				Copy: func(snapshot string, digest uint64, stay bool) error {
					for i := 1; i < 3; i++ {
						if stay && lost && i == 2 {
							continue
						}
						out, err := s.plant(i, snapshot, stay)
						if err != nil || out != fmt.Sprintf("zooid seed planted: %s %016x\n", thisTry, digest) {
							t.Errorf("server %d: %v, %s", i+1, err, out)
						}
						said[i] = out
					}
					return nil
				},
			}
			state, report, err := files.Load(o.Apache)
			if err != nil {
				t.Fatal(err)
			}
			made, err := o.Make(state, report.Epoch)
			if err == nil {
				err = made.Rehearse()
			}
			if err != nil || len(said) != 2 {
				t.Fatalf("the rehearsal: %v, %v", err, said)
			}
			for i := range 3 {
				if left, err := os.ReadDir(s.place(i)); err != nil || len(left) != 1 {
					t.Errorf("a rehearsal leaves %v, %v", left, err)
				}
			}
			if made, err = o.Make(state, report.Epoch); err == nil {
				err = made.Write()
			}
			if err != nil {
				t.Fatal(err)
			}
			if out, err := s.plant(1, filepath.Join(s.place(0), "0000000000000001.snap"), true); err == nil ||
				!strings.Contains(out, "in use") {
				t.Errorf("a second seed: %v, %s", err, out)
			}

			s.start(0)
			if c, err := s.open(3*time.Second, 0, zk.Options{}); err == nil {
				c.Close()
				t.Error("one server of three serves")
			}
			s.start(1)
			passwd := files.Passwd(session)
			resumed, err := s.open(time.Minute, 0,
				zk.Options{SessionTimeout: time.Minute, Resume: zk.Session{ID: session, Passwd: passwd[:]}})
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
			defer cancel()
			stat, err := resumed.Set(ctx, "/mine", []byte("x"), -1)
			if err != nil || stat.EphemeralOwner != session || stat.Czxid != 0x500000002 || stat.Mzxid <= 0x500000007 {
				t.Errorf("%+v, %v", stat, err)
			}
			text, _, err := resumed.Get(ctx, "/zookeeper/config")
			if err != nil || strings.Count(string(text), ":participant;") != 3 {
				t.Errorf("the membership is %q, %v", text, err)
			}
			resumed.Detach()
			s.start(2)
			c, err := s.open(time.Minute, 2, zk.Options{})
			if err != nil {
				t.Fatal(err)
			}
			if err := c.Sync(ctx, "/"); err != nil {
				t.Error(err)
			}
			c.Detach()
			for lost && !s.said(2, "it is a member and votes") {
				if ctx.Err() != nil {
					t.Fatal("the server whose seed got lost gets no vote")
				}
				time.Sleep(20 * time.Millisecond)
			}
			s.kill(0)
			if c, err = s.open(time.Minute, 2, zk.Options{}); err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if data, _, err := c.Get(ctx, "/mine"); err != nil || string(data) != "x" {
				t.Errorf("without the first server: %q, %v", data, err)
			}
			if _, err := c.Create(ctx, "/b", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
				t.Errorf("without the first server: %v", err)
			}
		})
	}
}

// TestSeedRefuses: what isn't a seed, or one for other servers, makes no data directory.
func TestSeedRefuses(t *testing.T) {
	t.Parallel()
	s, imported := newSeedlings(t, ""), t.TempDir()
	try := func(what string, in []byte, says string) {
		t.Helper()
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS=migrate seed "+s.config(1))
		cmd.Stdin = bytes.NewReader(in)
		out, err := cmd.CombinedOutput()
		if cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), says) {
			t.Errorf("%s: %v, %s; want %q", what, err, out, says)
		}
		if left, err := os.ReadDir(s.place(1)); err != nil || len(left) != 1 {
			t.Errorf("%s: it leaves %v, %v", what, left, err)
		}
	}
	seed := func(voters ...uint64) []byte {
		t.Helper()
		var b bytes.Buffer
		_, err := apache.Import(apache.ImportOptions{
			Apache: files.Options{Dir: apacheDir(t, 7)}, Dir: filepath.Join(imported, fmt.Sprint(voters)), Voters: voters,
			Copy: func(snapshot string, _ uint64, _ bool) error {
				return apache.SeedOrder{Do: apache.SeedPlant, Try: thisTry}.Send(&b, snapshot)
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		return b.Bytes()
	}
	whole := seed(1, 2, 3)
	try("nothing", nil, "read a seed")
	try("text", []byte("no such\nthing"), "read a seed: the input doesn't come from")
	try("half", whole[:len(whole)/2], "is damaged at offset")
	try("other servers", seed(1, 2, 3, 4), "all servers need the same server lines")
	try("others alone", seed(1, 3), "all servers need the same server lines")
	try("a server alone", seed(), "all servers need the same server lines")
}

// TestSeedReleased: no server starts on a seed that isn't released, whatever has become of the switch; an order of
// another try does nothing to it, and the next try replaces it. What was released stays.
func TestSeedReleased(t *testing.T) {
	t.Parallel()
	s, snapshot := newSeedlings(t, ""), filepath.Join(t.TempDir(), "snapshot")
	_, err := apache.Import(apache.ImportOptions{
		Apache: files.Options{Dir: apacheDir(t, 7)}, Dir: filepath.Join(t.TempDir(), "imported"),
		Voters: []uint64{1, 2, 3},
		Copy:   func(from string, _ uint64, _ bool) error { return os.Link(from, snapshot) },
	})
	if err != nil {
		t.Fatal(err)
	}
	const other = "fedcba9876543210"
	obey := func(what, do, try, says string, ok bool) {
		t.Helper()
		said, err := s.order(1, do, try, snapshot)
		if (err == nil) != ok || !strings.Contains(said, says) {
			t.Errorf("%s: %v, %s; want %q", what, err, said, says)
		}
	}
	starts := func(what string, want bool) {
		t.Helper()
		s.start(1)
		defer s.kill(1)
		for end := time.Now().Add(time.Minute); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
			refused, begun := s.said(1, "ZD-1126"), s.said(1, "the data directory is read")
			if refused || begun {
				if begun != want {
					t.Errorf("%s: it starts: %v; want %v", what, begun, want)
				}
				return
			}
		}
		t.Errorf("%s: it neither starts nor refuses", what)
	}
	obey("a release of nothing", apache.SeedRelease, thisTry, "it has no data of the try", false)
	obey("a seed", apache.SeedPlant, other, "zooid seed planted: "+other, true)
	starts("not released", false)
	obey("the next try", apache.SeedPlant, thisTry, "zooid seed planted: "+thisTry, true)
	obey("a release by the earlier try", apache.SeedRelease, other, "it has no data of the try", false)
	obey("a drop by the earlier try", apache.SeedDrop, other, "dropped", true)
	starts("after orders of another try", false)
	obey("a drop", apache.SeedDrop, thisTry, "dropped", true)
	if left, err := os.ReadDir(s.place(1)); err != nil || len(left) != 1 {
		t.Errorf("a drop leaves %v, %v", left, err)
	}
	obey("a seed again", apache.SeedPlant, thisTry, "planted", true)
	obey("a release", apache.SeedRelease, thisTry, "zooid seed released: "+thisTry, true)
	obey("a release again", apache.SeedRelease, thisTry, "released", true)
	obey("a drop of what was released", apache.SeedDrop, thisTry, "may have served", false)
	obey("another seed", apache.SeedPlant, other, "is in use as a Zooid data directory", false)
	starts("released", true)
	s.start(1)
	for end := time.Now().Add(time.Minute); strings.Count(s.log(1), "the data directory is read") == 0; {
		if time.Now().After(end) {
			t.Fatal("it doesn't start")
		}
		time.Sleep(10 * time.Millisecond)
	}
	obey("a release while its server runs", apache.SeedRelease, thisTry, "released", true)
	obey("a seed while its server runs", apache.SeedPlant, other, "another process holds this data directory", false)
}

// TestImportCutShort: no server starts where zooid import was killed while it wrote its files, or while it moved them
// to their places; the same import starts over, and the server then has Apache's znodes.
func TestImportCutShort(t *testing.T) {
	t.Parallel()
	from, place := apacheDir(t, 7), filepath.Join(t.TempDir(), "killed")
	const unfinished = "import-unfinished"
	kept, stop := t.TempDir(), errors.New("what kill -9 leaves is kept")
	_, err := apache.Import(apache.ImportOptions{
		Apache: files.Options{Dir: from}, Dir: filepath.Join(t.TempDir(), "data"),
		Copy: func(snapshot string, _ uint64, _ bool) error {
			return errors.Join(os.CopyFS(kept, os.DirFS(filepath.Dir(snapshot))), stop)
		},
	})
	if !errors.Is(err, stop) {
		t.Fatal(err)
	}
	config := filepath.Join(t.TempDir(), "zoo.cfg")
	address := "127.0.0.1:" + strconv.Itoa(freeport.Take(t, 1)[0])
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\n", place, strings.Split(address, ":")[1])
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // a server that starts is ended then
	defer cancel()
	zooid := func(args string) *exec.Cmd {
		cmd := exec.CommandContext(ctx, os.Args[0])
		cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS="+args)
		return cmd
	}
	for _, moving := range []bool{false, true} {
		folder := filepath.Join(place, unfinished)
		if err := errors.Join(os.RemoveAll(place), os.CopyFS(folder, os.DirFS(kept))); err != nil {
			t.Fatal(err)
		}
		if moving {
			list, snapshot := []byte{}, ""
			for _, e := range listed(t, folder) {
				list = append(list, e+"\n"...)
				if strings.HasSuffix(e, ".snap") {
					snapshot = e
				}
			}
			err := errors.Join(os.WriteFile(filepath.Join(folder, "moving"), list, 0o600),
				os.Rename(filepath.Join(folder, snapshot), filepath.Join(place, snapshot)))
			if err != nil {
				t.Fatal(err)
			}
		}
		out, err := zooid("server " + config).CombinedOutput()
		if err == nil || !bytes.Contains(out, []byte("ZD-1126")) || !bytes.Contains(out, []byte("starts over")) {
			t.Errorf("moving %v: the server ends with %v: %s", moving, err, out)
		}
		if out, err := zooid("import -without-log " + from + " " + place).CombinedOutput(); err != nil {
			t.Errorf("moving %v: the same import: %v, %s", moving, err, out)
		}
		server := zooid("server " + config)
		if err := server.Start(); err != nil {
			t.Fatal(err)
		}
		c, err := zk.Open(ctx, address, zk.Options{})
		if err == nil {
			var data []byte
			if data, _, err = c.Get(ctx, "/a"); string(data) != "/a" {
				t.Errorf("moving %v: /a has %q, %v", moving, data, err)
			}
			c.Close()
		} else {
			t.Errorf("moving %v: %v", moving, err)
		}
		server.Process.Kill()
		server.Wait()
	}
}

// listed returns the names in a directory.
func listed(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}
