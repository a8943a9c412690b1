package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// A wayBack is a Zooid server, what leads Apache's observers beside it, and these observers.
type wayBack struct {
	t        *testing.T
	program  string
	config   string // of Zooid
	limits   string
	lines    string // more of the Apache servers' configuration
	quorum   string
	election string
	zooid    *server
	lead     *server // addr is empty
	apache   *ensemble
}

func newWayBack(t *testing.T, version string) *wayBack {
	t.Helper()
	w := &wayBack{t: t, program: zooid(t), limits: quickLimits, quorum: freeport.Address(t), election: freeport.Address(t)}
	addr, dir := freeport.Address(t), t.TempDir()
	_, port, _ := strings.Cut(addr, ":")
	w.config = filepath.Join(t.TempDir(), "zoo.cfg")
	text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\ntickTime=500\nmaxSessionTimeout=120000\nmaxClientCnxns=0\nsnapCount=2000\nsession.apachePasswords=true\n",
		dir, port)
	if err := os.WriteFile(w.config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	w.zooid = &server{addr: addr, dir: dir}
	w.lead = &server{}
	w.apache = &ensemble{t: t, version: version, options: []string{quietly}}
	for id := 1; id <= 2; id++ {
		s := &server{addr: freeport.Address(t), dir: t.TempDir()}
		if err := os.WriteFile(filepath.Join(s.dir, "myid"), fmt.Append(nil, id), 0o600); err != nil {
			t.Fatal(err)
		}
		w.apache.servers = append(w.apache.servers, s)
		w.apache.configs = append(w.apache.configs, filepath.Join(s.dir, "zoo.cfg"))
		w.apache.quorum = append(w.apache.quorum, freeport.Address(t))
	}
	return w
}

// run starts a command of Zooid's.
func (w *wayBack) run(s *server, args ...string) {
	w.t.Helper()
	s.cmd, s.exited, s.output = exec.Command(w.program, args...), make(chan struct{}), &bytes.Buffer{}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		w.t.Fatal(err)
	}
	cmd, exited := s.cmd, s.exited
	go func() {
		cmd.Wait()
		close(exited)
	}()
	w.t.Cleanup(s.kill)
}

func (w *wayBack) startZooid(options ...string) {
	w.t.Helper()
	w.run(w.zooid,
		append([]string{
			"server", w.config,
			"-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.DigestAuthenticationProvider.superDigest=" + superDigest,
		}, options...)...)
	if !awaitAnswer(w.zooid.addr) {
		w.t.Fatalf("Zooid doesn't answer\n%s", w.zooid.output)
	}
}

func (w *wayBack) startLead(flags ...string) {
	args := []string{"migrate", "back", "-quorum", w.quorum, "-election", w.election, "-from", "127.0.0.1"}
	w.run(w.lead, slices.Concat(args, flags, []string{w.config})...)
}

// configure writes the configuration of the Apache servers: as Zooid's observers, or as an ensemble of their own.
func (w *wayBack) configure(observers bool) {
	role, lines := "participant", ""
	if observers {
		_, election, _ := strings.Cut(w.election, ":")
		role, lines = "observer", fmt.Sprintf("peerType=observer\nstandaloneEnabled=false\nserver.0=%s:%s:participant\n",
			w.quorum, election)
	}
	for i, quorum := range w.apache.quorum {
		_, election, _ := strings.Cut(freeport.Address(w.t), ":")
		lines += fmt.Sprintf("server.%d=%s:%s:%s\n", i+1, quorum, election, role)
	}
	for i, s := range w.apache.servers {
		_, port, _ := strings.Cut(s.addr, ":")
		text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=127.0.0.1\nmaxSessionTimeout=120000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\nsnapCount=3000\n%s%s",
			s.dir, port, w.limits+w.lines, lines)
		if err := os.WriteFile(w.apache.configs[i], []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
}

// zxid is the last one that a server has applied; "" if it doesn't serve.
func zxidOf(s *server) string {
	_, after, _ := strings.Cut(word(s.addr, "srvr"), "Zxid: ")
	zxid, _, _ := strings.Cut(after, "\n")
	return zxid
}

// caughtUp waits until both observers are where Zooid is.
func (w *wayBack) caughtUp() {
	w.t.Helper()
	var want, one, two string
	if !awaited(func() bool {
		want, one, two = zxidOf(w.zooid), zxidOf(w.apache.servers[0]), zxidOf(w.apache.servers[1])
		return want != "" && one == want && two == want
	}) {
		w.t.Fatalf("Zooid is at %q, the observers at %q and %q\n%s\n%.3000s", want, one, two, w.lead.output,
			w.apache.servers[0].output)
	}
}

// stopAll stops Zooid, and what leads the observers, which says what they have.
func (w *wayBack) stopAll() {
	t := w.t
	t.Helper()
	w.zooid.kill()
	w.lead.cmd.Process.Signal(syscall.SIGINT)
	<-w.lead.exited
	t.Log(w.lead.output)
	if code := w.lead.cmd.ProcessState.ExitCode(); code != 0 ||
		!strings.Contains(w.lead.output.String(), "the observers [1 2] have all data") {
		t.Fatalf("exit code %d\n%s\n%.3000s", code, w.lead.output, w.apache.servers[0].output)
	}
}

// goBack has zooid migrate return stop everything. What it starts comes later.
func (w *wayBack) goBack() {
	t := w.t
	t.Helper()
	w.lead.stop()
	end := "\nkill -9 $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.01; done\n"
	observers := ""
	for i, s := range w.apache.servers {
		observers += fmt.Sprintf("test $ZK_ID != %d || { pid=%d; dir=%s; }\n", i+1, s.cmd.Process.Pid, s.dir)
	}
	said, err := exec.Command(w.program, "migrate", "return", "-yes", "-quorum", w.quorum, "-election", w.election,
		"-from", "127.0.0.1", "-observers", "1,2",
		"-stop", fmt.Sprintf("pid=%d", w.zooid.cmd.Process.Pid)+end, "-stop-observer", observers+end+"exec "+w.program+
			" migrate digest $dir",
		"-start", "test $ZK_HOST = 127.0.0.1", w.config).CombinedOutput()
	out := string(said)
	t.Log(out)
	if err != nil || !strings.Contains(out, "Apache's servers [1 2] were started") {
		kept, mkErr := os.MkdirTemp("", "wayback-")
		copyErr := errors.Join(mkErr, os.CopyFS(filepath.Join(kept, "zooid"), os.DirFS(w.zooid.dir)))
		for i, s := range w.apache.servers {
			copyErr = errors.Join(copyErr, os.CopyFS(filepath.Join(kept, fmt.Sprint("apache", i+1)), os.DirFS(s.dir)))
		}
		t.Fatalf("%v; the directories are kept in %s (%v)", err, kept, copyErr)
	}
}

// TestBackBesideHungServer: a Zooid server that hangs doesn't answer, and hasn't stopped: what the observers have isn't
// said of it.
func TestBackBesideHungServer(t *testing.T) {
	need(t)
	w := newWayBack(t, "3.9.5")
	w.startZooid()
	w.startLead()
	w.configure(true)
	w.apache.start(0)
	w.apache.start(1)
	w.caughtUp()
	w.zooid.cmd.Process.Signal(syscall.SIGSTOP)
	defer w.zooid.cmd.Process.Signal(syscall.SIGCONT)
	waitStopped(w.zooid.cmd.Process.Pid)
	w.lead.cmd.Process.Signal(syscall.SIGINT)
	<-w.lead.exited
	if code := w.lead.cmd.ProcessState.ExitCode(); code != 1 ||
		!strings.Contains(w.lead.output.String(), "hasn't stopped") {
		t.Errorf("exit code %d\n%s", code, w.lead.output)
	}
}

// TestWayBack: Apache's observers follow a Zooid server live, through kill -9 of each of the three kinds of processes;
// then Zooid stops, and they become an ensemble, which has every znode, and in which a session of Zooid's goes on.
func TestWayBack(t *testing.T) {
	need(t)
	for i, version := range tried([]string{"3.8.4", "3.9.5"}, "3.9.5") {
		t.Run(version, func(t *testing.T) { wayBackOnce(t, version, *firstSeed+uint64(i)) })
	}
}

// backWrites is how many writes there are between two steps of TestWayBack: enough for a snapshot now and then.
const backWrites = 1500

func wayBackOnce(t *testing.T, version string, seed uint64) {
	w := newWayBack(t, version)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	w.startZooid("-Dznode.container.checkIntervalMs=300") // containers and TTL znodes go meanwhile
	l := startLoad(w.zooid.addr, seed, true)
	l.goOn(t, 500)
	w.startLead()
	w.configure(true)
	w.apache.start(0)
	w.apache.start(1)
	if !awaited(func() bool { return zxidOf(w.apache.servers[0]) != "" }) {
		t.Fatalf("an observer doesn't serve:\n%s\n%.3000s", w.lead.output, w.apache.servers[0].output)
	}
	l.goOn(t, backWrites)
	w.apache.servers[0].kill()
	l.goOn(t, 100)
	w.apache.start(0)
	l.end()
	w.caughtUp()
	t.Log(w.lead.output)
	w.lead.kill()
	l = startLoad(w.zooid.addr, seed+100, true)
	w.startLead()
	l.goOn(t, backWrites)
	l.end()
	w.zooid.kill()
	w.startZooid(quietly)
	mine := open(t, w.zooid, zk.Options{SessionTimeout: 2 * time.Minute})
	if _, err := mine.Create(ctx, "/mine", []byte("x"), zk.ModeEphemeral, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	l = startLoad(w.zooid.addr, seed+200, true)
	l.goOn(t, backWrites)
	l.end()
	w.caughtUp()
	session := mine.Detach()
	want := readOut(t, w.zooid)

	if seed%2 == 0 {
		w.goBack()
		w.startZooid(quietly) // sessions have ended while it waited for the observers
		want = readOut(t, w.zooid)
		w.zooid.kill()
	} else {
		w.stopAll()
	}
	for _, s := range w.apache.servers {
		s.kill()
		if out := s.output.String(); strings.Contains(out, "igests are not matching") ||
			strings.Contains(out, "Digest mismatch") {
			verdict.Final(t, verdict.Digest)
			t.Errorf("Apache finds another digest:\n%.3000s", out)
		}
		if out, err := exec.Command(w.program, "migrate", "compare", w.zooid.dir, s.dir).CombinedOutput(); err != nil {
			kept, mkErr := os.MkdirTemp("", "wayback-")
			copyErr := errors.Join(mkErr, os.CopyFS(filepath.Join(kept, "zooid"), os.DirFS(w.zooid.dir)),
				os.CopyFS(filepath.Join(kept, "apache"), os.DirFS(s.dir)),
				os.WriteFile(filepath.Join(kept, "apache.out"), s.output.Bytes(), 0o600))
			verdict.Final(t, verdict.Digest)
			t.Fatalf("%s\nthe directories are kept in %s (%v)", out, kept, copyErr)
		}
	}
	w.configure(false)
	w.apache.start(0)
	w.apache.start(1)
	w.apache.await()
	compareReadOuts(t, without(want), without(readOut(t, w.apache.servers[0])))
	resumed := open(t, w.apache.servers[1], zk.Options{Resume: session})
	stat, err := resumed.Set(ctx, "/mine", []byte("y"), -1)
	if err != nil || stat.EphemeralOwner != session.ID {
		t.Errorf("the session's ephemeral znode has %+v, %v; the session is %#x", stat, err, session.ID)
	}
}
