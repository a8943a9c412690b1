package main

import (
	"bytes"
	"context"
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
	"github.com/zooid-project/zooid/zk"
)

// homeward is a Zooid server with two observers, as which zooid migrate follow stands for Apache's.
type homeward struct {
	t        *testing.T
	dir      string
	client   string
	quorum   string
	election string
	file     string // the zoo.cfg that zooid migrate return is given
}

func newHomeward(t *testing.T) *homeward {
	t.Helper()
	ports := freeport.Take(t, 3)
	at := func(i int) string { return "127.0.0.1:" + strconv.Itoa(ports[i]) }
	h := &homeward{t: t, dir: t.TempDir(), client: at(0), quorum: at(1), election: at(2), file: "zoo.cfg"}
	h.write("zoo.cfg",
		fmt.Sprintf("dataDir=%s/zooid\nclientPort=%d\nclientPortAddress=127.0.0.1\ntickTime=500\nmaxSessionTimeout=120000\nsession.apachePasswords=true\n",
			h.dir, ports[0]))
	h.write("apache.cfg",
		fmt.Sprintf("dataDir=%s/none\nclientPort=1\ninitLimit=5\nsyncLimit=5\nstandaloneEnabled=false\nserver.0=%s:%d:participant\n",
			h.dir, h.quorum, ports[2]))
	return h
}

func (h *homeward) write(name, text string) {
	h.t.Helper()
	if err := os.WriteFile(filepath.Join(h.dir, name), []byte(text), 0o600); err != nil {
		h.t.Fatal(err)
	}
}

// start runs a command of zooid whose process id goes to a file.
func (h *homeward) start(name, args string) {
	h.t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "ZOOID_TEST_ARGS="+args)
	log, err := os.Create(filepath.Join(h.dir, name+".log"))
	if err != nil {
		h.t.Fatal(err)
	}
	defer log.Close()
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		h.t.Fatal(err)
	}
	h.write(name+".pid", strconv.Itoa(cmd.Process.Pid))
	ended := make(chan struct{})
	go func() {
		cmd.Wait()
		close(ended)
	}()
	h.t.Cleanup(func() {
		cmd.Process.Kill()
		<-ended
	})
}

func (h *homeward) startZooid() { h.start("zooid", "server "+h.dir+"/zoo.cfg") }

func (h *homeward) startObservers() {
	for id := 1; id <= 2; id++ {
		h.start(fmt.Sprint("apache", id),
			fmt.Sprintf("migrate follow -id %d %s/apache.cfg %s/apache%d", id, h.dir, h.dir, id))
	}
}

// stop is a command that ends what start has begun.
func (h *homeward) stop(name string) string {
	return fmt.Sprintf("pid=$(cat %s/%s.pid); kill $pid; while kill -0 $pid 2>/dev/null; do sleep 0.02; done", h.dir, name)
}

// back runs zooid migrate return.
func (h *homeward) back(more ...string) (int, string) {
	args := []string{
		"return", "-quorum", h.quorum, "-election", h.election, "-from", "127.0.0.1", "-observers", "1,2", "-yes",
	}
	var out bytes.Buffer
	code := mover.Migrate(append(append(args, more...), filepath.Join(h.dir, h.file)), &out, &out)
	return code, out.String()
}

// create makes a znode, and returns when the server has.
func (h *homeward) create(path string) {
	h.t.Helper()
	ctx, cancel := context.WithTimeout(h.t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, h.client, zk.Options{SessionTimeout: time.Minute})
	if err != nil {
		h.t.Fatal(err)
	}
	defer c.Detach()
	if _, err := c.Create(ctx, path, []byte(path), zk.ModeEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		h.t.Fatal(err)
	}
}

// TestReturn: zooid migrate return ends before anything has stopped, after Zooid has, and after the observers have, and
// each time Zooid starts again with everything; then it goes back, and the observers' files are those that an export
// makes.
func TestReturn(t *testing.T) {
	t.Parallel()
	h := newHomeward(t)
	h.startZooid()
	h.create("/one")
	h.startObservers()
	digest := fmt.Sprintf(`; ZOOID_TEST_ARGS="migrate digest %s/apache$ZK_ID" exec %s`, h.dir, os.Args[0])
	stopObserver := h.stop("apache$ZK_ID") + digest
	start := "echo $ZK_HOST >" + h.dir + "/started$ZK_ID"
	began := func() bool {
		_, err := os.Stat(h.dir + "/started1")
		return err == nil
	}
	for _, c := range []struct {
		what string
		args []string
		code int
		says []string
		none string
	}{
		{"-check", []string{"-check"}, 0,
			[]string{"the observers [1 2] have all data", "the way back: Apache can represent everything"}, "Next:"},
		{"a -stop that fails", []string{"-stop", "echo no >&2; exit 3", "-stop-observer", stopObserver, "-start", start}, 1,
			[]string{"Next: Zooid's servers [1] are stopped", "stop the Zooid server 1: the command failed: exit status 3: no", "To undo: start Zooid's servers [1] again"}, "last step"},
		{"a -stop that stops nothing", []string{"-stop", "true", "-stop-observer", stopObserver, "-start", start}, 1,
			[]string{"a process uses its directory", "To undo: start Zooid's servers [1] again"}, "last step"},
		{"an observer with other files",
			[]string{"-stop", h.stop("zooid"), "-stop-observer", stopObserver + " | sed s/znodes/nodes/", "-start", start}, 1,
			[]string{
				"the observers [1 2] have all data: ", "the files of observer 1 don't match Zooid's data",
				"To undo: start Zooid's servers [1] again",
			}, "last step"},
	} {
		code, said := h.back(c.args...)
		if code != c.code || strings.Contains(said, c.none) || began() {
			t.Fatalf("%s: exit %d; Apache was started: %v\n%s", c.what, code, began(), said)
		}
		for _, want := range c.says {
			if !strings.Contains(said, want) {
				t.Errorf("%s: no %q in\n%s", c.what, want, said)
			}
		}
	}
	h.startZooid() // which undoes it
	h.create("/two")
	h.startObservers()
	code, said := h.back("-stop", h.stop("zooid"), "-stop-observer", stopObserver, "-start", start)
	if code != 0 || !strings.Contains(said, "last step, which starting") ||
		!strings.Contains(said, "Apache's servers [1 2] were started") {
		t.Fatalf("exit %d\n%s", code, said)
	}
	exported, err := apache.Export(apache.ExportOptions{Dirs: []string{h.dir + "/zooid"}, To: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	for id := 1; id <= 2; id++ {
		state, _, err := files.Load(files.Options{Dir: fmt.Sprintf("%s/apache%d", h.dir, id)})
		if err != nil || state.Digest() != exported.Digest || state.Find("/one") == nil || state.Find("/two") == nil ||
			len(state.Sessions) != 2 {
			t.Errorf("observer %d: %v", id, err)
		}
		if host, err := os.ReadFile(fmt.Sprintf("%s/started%d", h.dir, id)); err != nil || string(host) != "127.0.0.1\n" {
			t.Errorf("observer %d was started at %q, %v", id, host, err)
		}
	}
}

// TestReturnOfMembers: a server that was added by reconfig is stopped, though the zoo.cfg that zooid migrate return
// gets is from before. It is one without a vote, so that the other leads, however busy the machine is.
func TestReturnOfMembers(t *testing.T) {
	t.Parallel()
	h := newHomeward(t)
	ports := freeport.Take(t, 5)
	lines := []string{
		fmt.Sprintf("server.1=127.0.0.1:%d:%d;%s", ports[0], ports[1], h.client),
		fmt.Sprintf("server.2=127.0.0.1:%d:%d:observer;127.0.0.1:%d", ports[2], ports[3], ports[4]),
	}
	h.write("secret", "a secret that is long enough for an ensemble")
	common := "tickTime=500\ninitLimit=10\nsyncLimit=5\nstandaloneEnabled=false\nreconfigEnabled=true\n" +
		"admin.enableServer=false\nquorum.secretFile=" + h.dir + "/secret\n" +
		"DigestAuthenticationProvider.superDigest=super:CiymZRNkXx0HJFQhdpGmqJqKuHM=\n"
	for id := 1; id <= 2; id++ {
		data := fmt.Sprintf("%s/server%d", h.dir, id)
		if err := os.Mkdir(data, 0o700); err != nil {
			t.Fatal(err)
		}
		h.write(fmt.Sprintf("server%d/myid", id), strconv.Itoa(id))
		h.write(fmt.Sprintf("server%d.cfg", id), "dataDir="+data+"\n"+common+strings.Join(lines[:id], "\n")+"\n")
		if id == 1 {
			h.write("before.cfg", "dataDir="+data+"\n"+common+lines[0]+"\n")
		}
		h.start(fmt.Sprint("server", id), fmt.Sprintf("server %s/server%d.cfg", h.dir, id))
		if id == 1 {
			h.create("/one")
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, h.client, zk.Options{SessionTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Detach()
	if err := c.AddAuth(ctx, "digest", []byte("super:pass")); err != nil {
		t.Fatal(err)
	}
	for { // the second server has to follow first
		_, _, err := c.Reconfig(ctx, zk.Reconfig{Joining: lines[1:]})
		if err == nil {
			break
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		time.Sleep(100 * time.Millisecond)
	}
	h.startObservers()
	h.file = "before.cfg"
	// On a busy machine, whether the server's port answers in time isn't certain, but its command is run all the same.
	code, said := h.back("-stopped", "2", "-stop", "exit 3", "-stop-observer", "exit 3", "-start", "exit 3")
	if code != 1 || !strings.Contains(said, "Next: Zooid's servers [1 2] are stopped") ||
		!strings.Contains(said, "stop the Zooid server 2: the command failed") {
		t.Errorf("exit %d\n%s", code, said)
	}
}
