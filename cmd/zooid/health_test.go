package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tool/setup"
	"github.com/zooid-project/zooid/internal/wordclient"
	"github.com/zooid-project/zooid/zk"
)

// port is one of its own for a server of a test.
func port(t *testing.T) string { return strconv.Itoa(freeport.Take(t, 1)[0]) }

// runZooid runs a command of zooid and returns its exit code and all that it printed.
func runZooid(args ...string) (int, string) {
	var out bytes.Buffer
	code := run(args, &out, &out)
	return code, out.String()
}

// TestHealth: the exit codes of zooid health, by the admin server and by a word: of a server
// that serves, of one that waits for its peers, and of none.
func TestHealth(t *testing.T) {
	t.Parallel()
	for _, lines := range [][]string{{"admin.enableServer=true"}, {"admin.enableServer=false"}} {
		lines = append(lines, "clientPort="+port(t), "admin.serverPort="+port(t))
		p := startServer(t, lines...)
		if code, text := runZooid("health", "-timeout", "1m", p.file); code != 0 || text != "ready\n" {
			t.Errorf("%s: of a server that serves: %d, %s", lines[0], code, text)
		}
		p.cmd.Process.Signal(syscall.SIGTERM)
		for p.lines.Scan() { // until it has ended
		}
		if code, text := runZooid("health", "-timeout", "1m", p.file); code != exitUnreachable ||
			!strings.Contains(text, "not reachable") {
			t.Errorf("%s: of none: %d, %s", lines[0], code, text)
		}
		if code, text := runZooid("health", "-alive", p.file); code != exitUnreachable {
			t.Errorf("%s: -alive of none: %d, %s", lines[0], code, text)
		}
		peers := freeport.Take(t, 4)
		lines = append(lines, "initLimit=5", "syncLimit=5", "clientPort="+port(t), "admin.serverPort="+port(t))
		for i := range 2 {
			lines = append(lines,
				"server."+strconv.Itoa(i+1)+"=127.0.0.1:"+strconv.Itoa(peers[2*i])+":"+strconv.Itoa(peers[2*i+1]))
		}
		lines = append(lines[:1], lines[3:]...) // without the first two ports
		waiting := launchServer(t, lines...)
		waiting.await("starting zooid")
		var code int
		var text string
		for range 3000 { // until its port is open
			if code, text = runZooid("health", "-timeout", "1m", waiting.file); code != exitUnreachable {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
		if code != exitNotReady || !strings.Contains(text, "not ready: ") {
			t.Errorf("%s: of one without a quorum: %d, %s", lines[0], code, text)
		}
		if code, text := runZooid("health", "-alive", "-timeout", "1m", waiting.file); code != 0 || text != "alive\n" {
			t.Errorf("%s: -alive of one without a quorum: %d, %s", lines[0], code, text)
		}
	}
	if code, _ := runZooid("health"); code != exitUnreachable {
		t.Errorf("without a file: %d", code)
	}
}

// TestAliveWithoutAQuorum: a server that waits for its peers is alive, and not ready.
func TestAliveWithoutAQuorum(t *testing.T) {
	t.Parallel()
	peers := freeport.Take(t, 4)
	p := launchServer(t, "clientPort="+port(t),
		"admin.enableServer=true", "admin.serverPort=0", "initLimit=5", "syncLimit=5",
		"server.1=127.0.0.1:"+strconv.Itoa(peers[0])+":"+strconv.Itoa(peers[1]),
		"server.2=127.0.0.1:"+strconv.Itoa(peers[2])+":"+strconv.Itoa(peers[3]))
	p.await("the admin server listens")
	if status, body := p.get("/livez"); status != http.StatusOK {
		t.Errorf("alive: %d, %s", status, body)
	}
	if status, body := p.get("/readyz"); status != http.StatusServiceUnavailable || !strings.Contains(body, `"starting"`) {
		t.Errorf("ready: %d, %s", status, body)
	}
	if status, body := p.get("/commands/ruok"); status != http.StatusOK ||
		!strings.Contains(body, "not currently serving") {
		t.Errorf("ruok: %d, %s", status, body)
	}
}

// TestReload changes zoo.cfg under a server: by SIGHUP and by zooid reload the limits and
// the whitelist are put in force, what needs a restart is named, and a file that can't be
// read changes nothing.
func TestReload(t *testing.T) {
	t.Parallel()
	clients := port(t)
	p := startServer(t, "clientPort="+clients, "admin.enableServer=true", "admin.serverPort="+port(t),
		"4lw.commands.whitelist=ruok",
		"DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=")
	before, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	rewrite := func(old, with string) {
		t.Helper()
		if err := os.WriteFile(p.file, []byte(strings.Replace(string(before), old, with, 1)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	word := func(name string) string {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		text, err := wordclient.Word(ctx, nil, "127.0.0.1:"+clients, name, 1<<16)
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if text := word("conf"); !strings.Contains(text, "not in the whitelist") {
		t.Errorf("conf before: %s", text)
	}
	rewrite("4lw.commands.whitelist=ruok", "4lw.commands.whitelist=conf\nmaxClientCnxns=7\nlimits.path=depth=2\nsnapCount=1234")
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.await("was reloaded")
	log := p.log.String()
	if !strings.Contains(log, `inForce="[4lw.commands.whitelist limits.path maxClientCnxns]" needRestart=[snapCount]`) {
		t.Errorf("the log says\n%s", log)
	}
	if text := word("conf"); !strings.Contains(text, "maxClientCnxns=7\n") {
		t.Errorf("conf after SIGHUP: %s", text)
	}
	if text := word("ruok"); !strings.Contains(text, "not in the whitelist") {
		t.Errorf("ruok after SIGHUP: %s", text)
	}
	if code, text := runZooid("cli", "-server", "127.0.0.1:"+clients, "create", "-p", "/a/b/c"); code == 0 ||
		!strings.Contains(text, "uota") {
		t.Errorf("a path of three parts, where two are allowed: %d, %s", code, text)
	}
	limits := func(line string) (int, string) {
		return runZooid(append([]string{"limits", "-server", "127.0.0.1:" + clients, "-auth", "digest:super:test"},
			strings.Fields(line)...)...)
	}
	if code, text := limits("set / depth=3"); code != 0 {
		t.Errorf("zooid limits set: %d, %s", code, text)
	}
	if code, text := runZooid("cli", "-server", "127.0.0.1:"+clients, "create", "-p", "/a/b/c"); code != 0 {
		t.Errorf("a path of three parts, where zooid limits allows three: %d, %s", code, text)
	}
	if code, text := limits("list"); code != 0 || !strings.Contains(text, "/ depth=3\n") {
		t.Errorf("zooid limits list: %d, %s", code, text)
	}
	if code, text := limits("set connection depth=3"); code == 0 || !strings.Contains(text, "isn't a limit of the scope") {
		t.Errorf("a limit that connections don't have: %d, %s", code, text)
	}
	if code, text := limits("delete /"); code != 0 {
		t.Errorf("zooid limits delete: %d, %s", code, text)
	}
	text := filepath.Join(t.TempDir(), "policy")
	if err := os.WriteFile(text, []byte("deny read below /zookeeper/config\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	at := []string{"-server", "127.0.0.1:" + clients, "-auth", "digest:super:test"}
	if code, out := runZooid(append(append([]string{"policy"}, at...), "set", text)...); code != 0 ||
		!strings.Contains(out, "1 deny rules") {
		t.Errorf("zooid policy set: %d, %s", code, out)
	}
	if code, out := runZooid("cli", "-server", "127.0.0.1:"+clients, "get", "/zookeeper/config"); code == 0 ||
		!strings.Contains(out, "permission") {
		t.Errorf("a read that the policy denies: %d, %s", code, out)
	}
	if code, out := runZooid("policy"); code != 2 || !strings.Contains(out, "usage: zooid policy") {
		t.Errorf("zooid policy: %d, %s", code, out)
	}
	rewrite("4lw.commands.whitelist=ruok", "4lw.commands.whitelist=conf\nmaxClientCnxns=8\ntickTime=0")
	if code, text := runZooid("reload", p.file); code != exitUnreachable || !strings.Contains(text, "tickTime") {
		t.Errorf("zooid reload with a wrong file: %d, %s", code, text)
	}
	p.cmd.Process.Signal(syscall.SIGHUP)
	p.await("reload failed")
	if text := word("conf"); !strings.Contains(text, "maxClientCnxns=7\n") {
		t.Errorf("conf after a wrong file: %s", text)
	}
	rewrite("4lw.commands.whitelist=ruok", "4lw.commands.whitelist=conf\nmaxClientCnxns=9")
	if code, text := runZooid("reload", p.file); code != 0 || text != "in force: limits.path, maxClientCnxns\nneeds a restart: nothing\n" {
		t.Errorf("zooid reload: %d, %s", code, text)
	}
	if text := word("conf"); !strings.Contains(text, "maxClientCnxns=9\n") {
		t.Errorf("conf after zooid reload: %s", text)
	}
	rewrite("4lw.commands.whitelist=ruok", "4lw.commands.whitelist=conf\nmaxClientCnxns=9\nlog.level=debug")
	if code, text := runZooid("reload", p.file); code != 0 || text != "in force: log.level\nneeds a restart: nothing\n" {
		t.Errorf("zooid reload of the log's level: %d, %s", code, text)
	}
	conn, err := net.Dial("tcp", "127.0.0.1:"+clients)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close() // which is told at this level alone
	p.await("level=DEBUG")
	if code, text := runZooid("drain", p.file); code != exitNotReady || !strings.Contains(text, "it is alone") {
		t.Errorf("zooid drain of a server alone: %d, %s", code, text)
	}
	for _, flags := range [][]string{{"-force"}, {"-why", "x"}, {"-undo", "-force", "-why", "x"}} {
		if code, text := runZooid(append(append([]string{"drain"}, flags...), p.file)...); code != exitUnreachable {
			t.Errorf("zooid drain %v: %d, %s", flags, code, text)
		}
	}
	if code, text := runZooid("drain", "-undo", p.file); code != 0 || !strings.Contains(text, "accepts clients") {
		t.Errorf("zooid drain -undo: %d, %s", code, text)
	}
	if code, text := runZooid("drain", "-auth", "nosuch:x", p.file); code != exitNotReady ||
		!strings.Contains(text, "Not authenticated") {
		t.Errorf("zooid drain by a stranger: %d, %s", code, text)
	}
	// By a local account that can't read the token, while the ACL of the root admits everybody.
	for _, who := range []string{"ip", "digest:who:ever"} {
		code, text := runZooid("drain", "-auth", who, p.file)
		if code != exitNotReady || !strings.Contains(text, "admin.token") {
			t.Errorf("zooid drain by %s: %d, %s", who, code, text)
		}
	}
}

// reloads are the ways to make a server read its configuration again.
var reloads = map[string]func(p *process) error{
	"SIGHUP": func(p *process) error { return p.cmd.Process.Signal(syscall.SIGHUP) },
	"zooid reload": func(p *process) error {
		if code, text := runZooid("reload", p.file); code != 0 {
			return fmt.Errorf("exit code %d: %s", code, text)
		}
		return nil
	},
}

// TestCommandsByCertificate: where the admin server takes TLS alone and the superuser is a certificate, as zooid init
// -tls has it, reload and drain show that one; the server's own isn't enough.
func TestCommandsByCertificate(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	if code, text := runZooid("init", "-tls", "-dir", dir, "127.0.0.1"); code != 0 {
		t.Fatal(text)
	}
	p := startServer(t, "secureClientPortAddress=127.0.0.1", "secureClientPort="+port(t),
		"security.profile=strict", "X509AuthenticationProvider.superUser=CN=client",
		"ssl.keyStore.location="+dir+"/1/server.pem", "ssl.trustStore.location="+dir+"/1/ca.pem",
		"ssl.quorum.keyStore.location="+dir+"/1/server.pem", "ssl.quorum.trustStore.location="+dir+"/1/ca.pem",
		"admin.enableServer=true", "admin.serverPort="+port(t), "admin.forceHttps=true", "admin.needClientAuth=true")
	client := dir + "/client/client.pem"
	p.await("znodes that anybody could change are the superusers' now")
	for _, c := range []struct {
		args []string
		code int
		want string
	}{
		{[]string{"reload"}, 0, "needs a restart: nothing"}, // by the token
		{[]string{"reload", "-auth", "ip"}, exitNotReady, "Not authorized"},
		{[]string{"reload", "-tls-cert", dir + "/1/server.pem"}, exitNotReady, "Not authorized"},
		{[]string{"reload", "-tls-cert", client, "-auth", "ip"}, exitUnreachable, "without -auth"},
		{[]string{"reload", "-tls-cert", dir + "/none.pem"}, exitUnreachable, "no such file"},
		{[]string{"reload", "-tls-cert", client}, 0, "needs a restart: nothing"},
		{[]string{"drain", "-tls-cert", client}, exitNotReady, "it is alone"},
	} {
		if code, text := runZooid(append(c.args, p.file)...); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%q: %d, %s; want %d and %q", c.args, code, text, c.code, c.want)
		}
	}
}

// TestReloadLimits: limits of connections and the whitelist are enforced once they are reloaded, and given up again.
func TestReloadLimits(t *testing.T) {
	t.Parallel()
	clients := port(t)
	p := startServer(t, "clientPort="+clients, "admin.enableServer=true", "admin.serverPort="+port(t))
	before, err := os.ReadFile(p.file)
	if err != nil {
		t.Fatal(err)
	}
	c, err := zk.Open(t.Context(), "127.0.0.1:"+clients, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close() // it is the one connection
	answers := func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		text, err := wordclient.Word(ctx, nil, "127.0.0.1:"+clients, "isro", 1<<16)
		return err == nil && strings.HasPrefix(text, "rw")
	}
	for way, reload := range reloads {
		for _, line := range []string{"maxClientCnxns=1", "maxCnxns=1", "4lw.commands.whitelist=ruok"} {
			for _, limited := range []bool{true, false} {
				text := string(before) + "4lw.commands.whitelist=isro\n"
				if limited {
					text += line + "\n" // the last line of a key counts
				}
				if err := errors.Join(os.WriteFile(p.file, []byte(text), 0o600), reload(p)); err != nil {
					t.Fatalf("%s, %s: %v", way, line, err)
				}
				p.await("was reloaded")
				if answers() == limited {
					t.Errorf("%s, %s: in the file: %t; another connection is answered: %t", way, line, limited, limited)
				}
			}
		}
	}
}

// TestReloadStores: new connections are shown the certificate that was put in place of another, and stores that can't
// be read leave the old ones in force.
func TestReloadStores(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file, secure := filepath.Join(dir, "server.pem"), port(t)
	issue := func() (certificate []byte) {
		t.Helper()
		to := t.TempDir()
		if _, err := setup.Write(setup.Options{Dir: to, TLS: true, At: to, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		b, err := os.ReadFile(filepath.Join(to, "1", "server.pem"))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, b, 0o600); err != nil {
			t.Fatal(err)
		}
		pair, err := tls.X509KeyPair(b, b)
		if err != nil {
			t.Fatal(err)
		}
		return pair.Certificate[0]
	}
	shown := func() []byte {
		t.Helper()
		conn, err := tls.Dial("tcp", "127.0.0.1:"+secure, &tls.Config{InsecureSkipVerify: true})
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.ConnectionState().PeerCertificates[0].Raw
	}
	now := issue()
	p := startServer(t, "clientPort=0", "admin.enableServer=true", "admin.serverPort="+port(t), "secureClientPort="+secure,
		"ssl.clientAuth=none", "ssl.keyStore.location="+file)
	if !bytes.Equal(shown(), now) {
		t.Error("the server shows another certificate than its own")
	}
	for way, reload := range reloads {
		now = issue()
		if err := reload(p); err != nil {
			t.Errorf("%s: %v", way, err)
		}
		p.await("was reloaded")
		if !bytes.Equal(shown(), now) {
			t.Errorf("after %s the former certificate is shown", way)
		}
	}
	if code, text := runZooid("reload", p.file); code != 0 || text != "in force: key and trust stores of the client port\nneeds a restart: nothing\n" {
		t.Errorf("reload: %d, %s", code, text)
	}
	if err := os.WriteFile(file, []byte("garbage"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, text := runZooid("reload", p.file); code != exitNotReady ||
		!strings.Contains(text, "client port: read the key and trust stores again") {
		t.Errorf("reload of garbage: %d, %s", code, text)
	}
	if !bytes.Equal(shown(), now) {
		t.Error("after a reload of garbage another certificate is shown")
	}
}
