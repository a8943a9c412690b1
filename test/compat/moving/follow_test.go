package moving

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/wordclient"
	"github.com/zooid-project/zooid/test/compat/kdc"
	"github.com/zooid-project/zooid/test/verdict"
	"github.com/zooid-project/zooid/zk"
)

// An ensemble is some running Apache servers.
type ensemble struct {
	t       *testing.T
	version string
	options []string
	within  []string // the command that runs another on the servers' machine; nil for this machine
	host    string   // that machine's address
	first   int      // id of the first server
	configs []string
	servers []*server
	quorum  []string // addresses
	// election has the addresses of the election ports.
	election []string
}

// startEnsemble starts three servers, and waits until they serve.
func startEnsemble(t *testing.T, version string, options ...string) *ensemble {
	t.Helper()
	return startServers(t, version, 3, "", options...)
}

// startServers is startEnsemble of n servers that have more lines in their configuration. The last line of a key
// counts.
func startServers(t *testing.T, version string, n int, lines string, options ...string) *ensemble {
	t.Helper()
	return startNumbered(t, version, 1, n, lines, options...)
}

// startNumbered is startServers of servers whose ids begin with first.
func startNumbered(t *testing.T, version string, first, n int, lines string, options ...string) *ensemble {
	t.Helper()
	e := &ensemble{t: t, version: version, options: options, host: "127.0.0.1", first: first}
	e.begin(n, lines)
	return e
}

// begin makes an ensemble's configuration, starts its servers, and waits until all of them serve.
func (e *ensemble) begin(n int, lines string) {
	t, first := e.t, e.first
	t.Helper()
	address := func() string { return strings.Replace(freeport.Address(t), "127.0.0.1", e.host, 1) }
	for i := range n {
		id := first + i
		quorum := address()
		_, election, _ := strings.Cut(freeport.Address(t), ":")
		lines += fmt.Sprintf("server.%d=%s:%s:participant\n", id, quorum, election)
		e.quorum = append(e.quorum, quorum)
		host, _, _ := strings.Cut(quorum, ":")
		e.election = append(e.election, host+":"+election)
	}
	if n == 1 {
		lines += "standaloneEnabled=false\n" // so that it has a quorum port
	}
	for i := range n {
		id := first + i
		dir := t.TempDir()
		addr := address()
		_, port, _ := strings.Cut(addr, ":")
		text := fmt.Sprintf("dataDir=%s\nclientPort=%s\nclientPortAddress=%s\ntickTime=500\ninitLimit=40\nsyncLimit=40\nmaxSessionTimeout=120000\nmaxClientCnxns=0\nadmin.enableServer=false\n4lw.commands.whitelist=*\n%s",
			dir, port, e.host, lines)
		config := filepath.Join(dir, "zoo.cfg")
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte(strconv.Itoa(id)), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		e.configs = append(e.configs, config)
		e.servers = append(e.servers, &server{addr: addr, dir: dir})
	}
	for i := range e.servers {
		e.start(i)
	}
	e.await()
	for _, s := range e.servers { // one that joins later has no log yet, and isn't proved to have stopped
		e.awaitServing(s)
	}
}

// start starts a server, again if need be.
func (e *ensemble) start(i int) {
	e.t.Helper()
	args := append(append(slices.Clone(e.within), "java"), jvm...)
	args = append(args, "-cp", classPath(e.t, e.version),
		"-Dzookeeper.forceSync=no", "-Dzookeeper.preAllocSize=256",
		"-Dzookeeper.extendedTypesEnabled=true", "-Dznode.container.checkIntervalMs=300",
		"-Dzookeeper.admin.enableServer=false",
		"-Dzookeeper.DigestAuthenticationProvider.superDigest="+superDigest)
	args = append(append(args, e.options...), "org.apache.zookeeper.server.quorum.QuorumPeerMain", e.configs[i])
	s := e.servers[i]
	s.cmd, s.exited = exec.Command(args[0], args[1:]...), make(chan struct{})
	if s.output == nil { // or what it said before is kept
		s.output = &bytes.Buffer{}
	}
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		e.t.Fatal(err)
	}
	exited := s.exited
	go func() {
		s.cmd.Wait()
		close(exited)
	}()
	e.t.Cleanup(s.kill)
}

// await waits until a client can begin a session.
func (e *ensemble) await() {
	e.t.Helper()
	if !awaitAnswer(e.connect()) {
		e.t.Fatalf("the ensemble doesn't serve:\n%.4000s", e.servers[0].output)
	}
}

func (e *ensemble) connect() string {
	var addrs []string
	for _, s := range e.servers {
		addrs = append(addrs, s.addr)
	}
	return strings.Join(addrs, ",")
}

// leader waits until one of the servers leads, and returns which: an ensemble that has begun a session may elect again,
// and a busy server may not answer in time.
func (e *ensemble) leader() (leads int) {
	e.t.Helper()
	if !awaited(func() bool {
		leads = slices.IndexFunc(e.servers,
			func(s *server) bool { return strings.Contains(word(s.addr, "srvr"), "Mode: leader") })
		return leads >= 0
	}) {
		e.t.Fatalf("none of Apache's servers leads:\n%.4000s", e.servers[0].output)
	}
	return leads
}

// awaitConfig waits until a client can read the ensemble's znode of itself.
func (e *ensemble) awaitConfig() (text string) {
	e.t.Helper()
	var err error
	if !awaited(func() bool {
		text, err = e.config(e.t.Context())
		return err == nil
	}) {
		e.t.Fatal(err)
	}
	return text
}

// awaitServing waits until a server leads or follows.
func (e *ensemble) awaitServing(s *server) {
	e.t.Helper()
	if !awaited(func() bool { return serves(s.addr) }) {
		e.t.Fatalf("a server doesn't serve:\n%.6000s", s.output)
	}
}

// config is what the ensemble's znode says of it.
func (e *ensemble) config(ctx context.Context) (string, error) {
	c, err := zk.Open(ctx, e.connect(), zk.Options{SessionTimeout: 10 * time.Second})
	if err != nil {
		return "", err
	}
	defer c.Close()
	text, _, err := c.GetConfig(ctx)
	return string(text), err
}

// startFollower follows an ensemble until the returned function is called.
func startFollower(t *testing.T, e *ensemble, dir string) (*follow.Follower, func()) {
	t.Helper()
	f, err := follow.Open(follow.Options{
		Dir: dir, ID: 200, Config: e.config, Say: func(text string) { t.Log("follower: " + text) },
		Dial: func(ctx context.Context, addr string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, "tcp", addr)
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error)
	go func() { done <- f.Run(ctx) }()
	return f, func() {
		t.Helper()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
}

// caughtUp waits until a follower has everything that the ensemble has acknowledged.
func caughtUp(t *testing.T, e *ensemble, f *follow.Follower) follow.Status {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	stat, err := marked(ctx, e.connect())
	for err != nil && ctx.Err() == nil { // the ensemble may still elect
		t.Logf("the mark: %v", err)
		stat, err = marked(ctx, e.connect())
	}
	if err != nil {
		t.Fatal(err)
	}
	var s follow.Status
	if !awaited(func() bool {
		s = f.Status()
		return s.Live && s.Zxid > stat.Czxid && s.Behind == 0 // the session's end is behind it
	}) {
		t.Fatalf("the follower has %+v; want zxid %#x", s, stat.Czxid)
	}
	return s
}

// marked makes a znode that goes with its session.
func marked(ctx context.Context, connect string) (stat zk.Stat, err error) {
	c, err := zk.Open(ctx, connect, zk.Options{SessionTimeout: 10 * time.Second})
	if err != nil {
		return stat, err
	}
	defer c.Close()
	_, stat, err = c.CreateStat(ctx, "/mark-", nil, zk.ModeEphemeralSequential, zk.OpenACL())
	return stat, err
}

// compared waits until a follower has compared more digests than n: the load goes on meanwhile. None may differ.
func compared(t *testing.T, f *follow.Follower, n int64) follow.Status {
	t.Helper()
	enough := awaited(func() bool { s := f.Status(); return s.Compared > n || s.Mismatch != nil })
	s := f.Status()
	if s.Mismatch != nil {
		verdict.Final(t, verdict.Digest)
		t.Errorf("a digest differs: %+v", s)
	} else if !enough {
		t.Errorf("too few digests were compared: %+v", s)
	}
	return s
}

// TestFollow follows an ensemble whose leader is killed under load, is stopped and started, and ends with
// the tree that the ensemble has: what clients read is the same, and import takes it.
func TestFollow(t *testing.T) {
	need(t)
	program := zooid(t)
	for i, version := range tried([]string{"3.8.4", "3.9.5"}, "3.9.5") {
		t.Run(version, func(t *testing.T) {
			// With Apache's 500 a leader sends a snapshot to a follower that is half a second late on a fast machine.
			e := startEnsemble(t, version, oneSnapshot, "-Dzookeeper.commitLogCount=100000")
			l := startLoad(e.connect(), *firstSeed+uint64(i), true)
			defer l.end()
			dir := filepath.Join(t.TempDir(), "copy")
			l.goOn(t, 300)
			f, stop := startFollower(t, e, dir)
			s := caughtUp(t, e, f)
			t.Logf("%+v", s)
			killed := e.leader()
			e.servers[killed].kill()
			e.await()
			if s = caughtUp(t, e, f); s.Elections < 2 {
				t.Errorf("after the leader's death: %+v", s)
			}
			t.Logf("%+v", compared(t, f, 10))
			stop()
			l.goOn(t, 100)
			e.start(killed)
			l.end()
			runFollower(t, program, e, dir)
		})
	}
}

// TestFollowAfterFailedMulti: a copy whose last transaction is a multi that failed is continued. The leader sends that
// transaction with the types of its operations set to error, since it has applied it; the copy has them as proposed.
func TestFollowAfterFailedMulti(t *testing.T) {
	need(t)
	program := zooid(t)
	e := startServers(t, "3.9.5", 1, "")
	c := open(t, e.servers[0], zk.Options{})
	defer c.Close()
	if _, err := c.Create(t.Context(), "/there", nil, zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "copy")
	for _, live := range []bool{true, false} {
		s := followBy(t, program, e.connect(), dir)
		if told, even := evenZxids(e.servers[0], s); !even {
			t.Fatalf("it doesn't follow: %s\n%s", told, s.output)
		}
		if live {
			_, err := c.Multi(t.Context(), zk.CreateOp("/no", []byte("x"), zk.ModePersistent, zk.OpenACL()),
				zk.CheckOp("/there", 99))
			if err == nil {
				t.Fatal("the multi didn't fail")
			}
			if told, even := evenZxids(e.servers[0], s); !even {
				t.Fatalf("it doesn't follow on: %s\n%s", told, s.output)
			}
		}
		s.cmd.Process.Signal(os.Interrupt)
		<-s.exited
		if code := s.cmd.ProcessState.ExitCode(); code != 0 {
			t.Fatalf("exit %d: %s", code, s.output)
		}
	}
}

// TestFollowWithLogins follows servers that log in at each other by SASL, and take no others.
func TestFollowWithLogins(t *testing.T) {
	need(t)
	program, dir := zooid(t), t.TempDir()
	write := func(name, text string) string {
		t.Helper()
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	jaas := write("jaas", `QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_peer="se cret"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="peer" password="se cret"; };`)
	e := startServers(t, "3.9.5", 3, "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n",
		// with netty, which logins need
		"-cp", javaClient(t), "-Djava.security.auth.login.config="+jaas, "-Dzookeeper.fips-mode=false")
	for _, c := range []struct {
		password, says string
		follows        bool
	}{
		{"se cret\n", "in epoch", true},
		{"another", "log in at a quorum port by SASL", false},
		{"", "EOF", false},
	} {
		var flags []string
		if c.password != "" {
			flags = []string{"-peer-sasl-user", "peer", "-peer-sasl-password-file", write("password", c.password)}
		}
		followAs(t, program, e, nil, c.says, c.follows, flags...)
	}
}

// TestFollowWithTickets follows servers that log in at each other by Kerberos, and take no others.
func TestFollowWithTickets(t *testing.T) {
	need(t)
	const host = "127.0.0.1"
	program, k := zooid(t), kdc.Start(t, "zkquorum/"+host, "zooid/"+host, "zooid/elsewhere")
	options := fmt.Sprintf(`{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false keyTab="%s" principal="zkquorum/%s@%s"; };`,
		k.Keytab("zkquorum/"+host), host, kdc.Realm)
	jaas := k.Write(t, "jaas", "QuorumServer "+options+"\nQuorumLearner "+options)
	e := startServers(t, "3.9.5", 3, "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\nquorum.auth.kerberos.servicePrincipal=zkquorum/_HOST\n",
		"-cp", javaClient(t), "-Djava.security.auth.login.config="+jaas, "-Djava.security.krb5.conf="+k.File("krb5.conf"))
	for _, c := range []struct {
		principal, keytab, says string
		follows                 bool
	}{
		{"zooid/" + host, "zooid/" + host, "in epoch", true},
		{"zooid/elsewhere", "zooid/elsewhere", "log in at a quorum port by SASL", false},  // none of the servers' hosts
		{"zooid/" + host, "zooid/elsewhere", "log in at the KDC as zooid/" + host, false}, // another's key
	} {
		followAs(t, program, e, k.Env, c.says, c.follows, "-peer-sasl-keytab", k.Keytab(c.keytab),
			"-peer-sasl-principal", c.principal)
	}
}

// followAs follows with flags until the command has said something.
func followAs(t *testing.T, program string, e *ensemble, env []string, says string, follows bool, flags ...string) {
	t.Helper()
	out := newOutput(t)
	cmd := exec.Command(program,
		slices.Concat([]string{"migrate", "follow"}, flags, []string{e.connect(), t.TempDir()})...)
	cmd.Env = append(os.Environ(), env...)
	cmd.Stdout, cmd.Stderr = out.file, out.file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if !awaited(func() bool { return strings.Contains(out.text(), says) }) {
		t.Errorf("with %q it doesn't say %q", flags, says)
	}
	cmd.Process.Signal(os.Interrupt)
	cmd.Wait()
	if text := out.text(); strings.Contains(text, "in epoch") != follows || strings.Contains(text, "se cret") {
		t.Errorf("with %q: %s", flags, text)
	}
}

// runFollower goes on with a copy by the command, compares what clients read there with what they
// read from Apache, and imports it. Flags say how the quorum ports are reached.
func runFollower(t *testing.T, program string, e *ensemble, dir string, flags ...string) {
	t.Helper()
	config := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(config, []byte(e.awaitConfig()), 0o600); err != nil {
		t.Fatal(err)
	}
	s := followBy(t, program, config, dir, flags...)
	open(t, s, zk.Options{ReadOnly: true}).Close()
	apache := e.servers[e.leader()]
	var want, have map[string]string
	awaited(func() bool { // a session of the load may end between the two
		told, even := evenZxids(apache, s)
		t.Log(told)
		if !even {
			t.Fatal("the follower isn't where its leader is")
		}
		if !strings.Contains(told, "Digests differing: 0") {
			verdict.Final(t, verdict.Digest)
			t.Fatal("digests differ")
		}
		want, have = without(readOut(t, apache)), without(readOut(t, s))
		return maps.Equal(want, have)
	})
	compareReadOuts(t, want, have)
	out, err := exec.Command(program, "migrate", "compare", "-patience", "1m", "-auth", "digest:super:"+superPassword,
		apache.addr, s.addr).CombinedOutput()
	if err != nil {
		t.Errorf("%v: %s", err, out)
	}
	s.cmd.Process.Signal(os.Interrupt)
	<-s.exited
	if code := s.cmd.ProcessState.ExitCode(); code != 0 || strings.Contains(s.output.String(), "sends a snapshot") ||
		!strings.Contains(s.output.String(), "zooid import") {
		t.Errorf("exit %d: %s", code, s.output)
	}
	t.Log(command(t, program, "import", dir, filepath.Join(t.TempDir(), "imported")))
}

// followBy follows an ensemble by the command, which answers clients.
func followBy(t *testing.T, program, ensemble, dir string, flags ...string) *server {
	t.Helper()
	s := &server{addr: freeport.Address(t), exited: make(chan struct{}), output: &bytes.Buffer{}}
	s.cmd = exec.Command(program,
		slices.Concat([]string{"migrate", "follow", "-listen", s.addr, "-super", superDigest}, flags,
			[]string{ensemble, dir})...)
	s.cmd.Stdout, s.cmd.Stderr = s.output, s.output
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		s.cmd.Wait()
		close(s.exited)
	}()
	t.Cleanup(s.kill)
	return s
}

// evenZxids waits until two servers are at the same zxid, and the second has a leader, and returns what the second says
// of itself then.
func evenZxids(a, b *server) (told string, even bool) {
	zxid := regexp.MustCompile("Zxid: (0x[0-9a-f]+)")
	even = awaited(func() bool {
		told = word(b.addr, "srvr")
		z := zxid.FindString(told)
		return z != "" && z == zxid.FindString(word(a.addr, "srvr")) && !strings.Contains(told, "Leader: none")
	})
	return told, even
}

// serves reports whether a server of an ensemble leads or follows.
func serves(addr string) bool {
	told := word(addr, "srvr")
	return strings.Contains(told, "Mode: leader") || strings.Contains(told, "Mode: follower")
}

// word asks a server a four-letter word.
func word(addr, what string) string {
	dial := func(ctx context.Context, addr string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", addr)
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	reply, _ := wordclient.Word(ctx, dial, addr, what, 1<<20)
	return reply
}
