package crash

import (
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

const (
	// inLogMax is how many sessions begin in the log of a server whose disk is full (noRoomSessionsMax, docs/limits.md).
	inLogMax = 1000
	// heldSessions is more than that. They all stay.
	heldSessions = inLogMax + 500
	// monitorSessions is how many sessions a monitor opens and closes one after the other: with one every 10 s, as many
	// as in 14 hours.
	monitorSessions = 5 * inLogMax
	// droppedSessions is how many sessions a monitor leaves to expire.
	droppedSessions = inLogMax
	// droppedTimeout is their timeout, after which the server must have forgotten them.
	droppedTimeout = 2 * time.Second
)

// TestFullDiskSessions has thousands of sessions begin on a server whose disk is full. Some clients stay; a monitor
// opens and closes one session after another, or leaves it to expire. Then an operator still gets in, by a digest or a
// certificate, with zooid cli or another client. What the monitor does costs no byte of the log. When there is room
// again, the sessions that began without the log are like others.
func TestFullDiskSessions(t *testing.T) {
	hurtful(t)
	for _, servers := range []int{1, 3} {
		t.Run(fmt.Sprintf("servers=%d", servers), func(t *testing.T) {
			if servers > 1 && !*long {
				t.Skip("runs with -long")
			}
			newCrowd(t, servers).run()
		})
	}
}

// A crowd is many sessions on a server whose disk is full.
type crowd struct {
	*Ensemble
	t       *testing.T
	disk    hog
	journal *history.Journal
	tls     []string // flags of zooid cli for an operator with a certificate
	held    []*traffic.Client
}

func newCrowd(t *testing.T, servers int) *crowd {
	t.Helper()
	dir, disk := smallDisks[0].mount(t)
	stores, ca := t.TempDir(), newIssuer(t)
	ca.stores(t, stores, ca)
	key, trust := filepath.Join(stores, "key.pem"), filepath.Join(stores, "trust.pem")
	port := freeport.Take(t, 1)[0]
	e := Start(t, Options{
		Servers: servers, Disk: filepath.Join(dir, "zooid"),
		Config: map[string]string{"DigestAuthenticationProvider.superDigest": traffic.DigestID(superUser).ID},
		OfFirst: map[string]string{
			"secureClientPort": fmt.Sprint(port), "secureClientPortAddress": "127.0.0.1",
			"ssl.keyStore.location": key, "ssl.trustStore.location": trust,
			"X509AuthenticationProvider.superUser": "CN=server",
		},
	})
	return &crowd{
		Ensemble: e, t: t, disk: disk, journal: history.NewJournal(discard{}),
		tls: []string{"-server", fmt.Sprintf("127.0.0.1:%d", port), "-tls-cert", key, "-tls-ca", trust},
	}
}

func (c *crowd) run() {
	admin := c.connect(superUser, sessionTimeout)
	q := jute.CreateRequest{
		Path: guardedPath, Data: []byte(guardedPath),
		ACL: []jute.ACL{{Perms: jute.PermAll, ID: traffic.DigestID("nobody:0")}},
	}
	if code := c.ask(admin, jute.OpCreate, q.Append(nil)); code != jute.OK {
		c.t.Fatalf("create %s: %v", guardedPath, code)
	}
	c.disk.fill(0)
	c.until("set on a full disk", jute.ErrThrottledOp, admin)
	c.gather()
	c.monitor()
	c.operators()
	c.restart()
	c.gather()
	c.operators()
	c.disk.empty()
	if err := connect(admin); err != nil {
		c.t.Fatal(err)
	}
	c.until("set when there is room again", jute.OK, admin)
	c.heal()
}

// guardedPath is a znode that only a superuser may read and write.
const guardedPath = "/guarded"

// connect opens a session on the server whose disk fills up.
func (c *crowd) connect(digest string, timeout time.Duration) *traffic.Client {
	c.t.Helper()
	client := traffic.NewClient(c.journal, traffic.ClientOptions{Timeout: timeout, Digest: digest}, c.Servers[0].Addr)
	if err := connect(client); err != nil {
		c.t.Fatalf("begin a session with %d others held: %v", len(c.held), err)
	}
	return client
}

// ask sends a request and returns the answer's code; the connection may not end.
func (c *crowd) ask(client *traffic.Client, op jute.Op, body []byte) jute.Code {
	c.t.Helper()
	call, err := client.Do(op, body)
	if err != nil {
		c.t.Fatal(err)
	}
	return call.Err
}

// until sets the guarded znode until the answer is want.
func (c *crowd) until(what string, want jute.Code, client *traffic.Client) {
	c.t.Helper()
	p := &probe{t: c.t, c: client}
	p.until(what, want, func() jute.Code { return p.set(guardedPath) })
}

// gather begins more sessions than the log takes; all stay.
func (c *crowd) gather() {
	c.t.Helper()
	c.held = nil
	for range heldSessions {
		c.held = append(c.held, c.connect("", sessionTimeout))
	}
	if n := c.gauge("local_sessions"); n != heldSessions-inLogMax {
		c.t.Errorf("%d of %d sessions began without the log, want %d", n, heldSessions, heldSessions-inLogMax)
	}
}

// monitor opens one session after another, closes most of them, and leaves some to expire.
func (c *crowd) monitor() {
	c.t.Helper()
	look := jute.PathWatchRequest{Path: "/"}
	exists := look.Append(nil)
	before := c.zxid()
	for i := range monitorSessions {
		m := c.connect("", sessionTimeout)
		if code := c.ask(m, jute.OpExists, exists); code != jute.OK {
			c.t.Fatalf("session %d of a monitor: exists: %v", i, code)
		}
		if err := m.Close(); err != nil {
			c.t.Fatalf("session %d of a monitor: %v", i, err)
		}
	}
	for range droppedSessions {
		c.connect("", droppedTimeout).Drop()
	}
	deadline := time.Now().Add(spacePatience)
	for n := c.gauge("local_sessions"); n != heldSessions-inLogMax; n = c.gauge("local_sessions") {
		if time.Now().After(deadline) {
			c.t.Fatalf("%d sessions outside the log after a monitor's, want %d as before", n, heldSessions-inLogMax)
		}
		time.Sleep(readyPause)
	}
	if after := c.zxid(); after != before {
		c.t.Errorf("%d sessions of a monitor took the log from zxid %#x to %#x", monitorSessions+droppedSessions, before,
			after)
	}
	for i, h := range c.held {
		if code := c.ask(h, jute.OpExists, exists); code != jute.OK {
			c.t.Fatalf("session %d, which stays: exists: %v", i, code)
		}
	}
}

// operators come to help: over a connection of their own, by zooid cli with a digest and with a certificate, and with
// zooid status.
func (c *crowd) operators() {
	c.t.Helper()
	q := jute.PathWatchRequest{Path: guardedPath}
	super := c.connect(superUser, sessionTimeout)
	if code := c.ask(super, jute.OpGetData, q.Append(nil)); code != jute.OK {
		c.t.Errorf("a superuser reads what is guarded: %v", code)
	}
	p := probe{t: c.t, c: super}
	if code := p.set(guardedPath); code != jute.ErrThrottledOp {
		c.t.Errorf("a superuser writes on a full disk: %v", code)
	}
	if err := super.Close(); err != nil {
		c.t.Error(err)
	}
	digest := []string{"-server", c.Servers[0].Addr, "-auth", "digest:" + superUser}
	for who, flags := range map[string][]string{"a digest": digest, "a certificate": c.tls} {
		if code, says := c.cli(flags, "get", guardedPath); code != 0 || !strings.Contains(says, guardedPath) {
			c.t.Errorf("zooid cli get with %s ends with code %d: %s", who, code, says)
		}
		if code, says := c.cli(flags, "set", guardedPath, "x"); code != 1 || !strings.Contains(says, "throttled") {
			c.t.Errorf("zooid cli set with %s on a full disk ends with code %d: %s", who, code, says)
		}
	}
	if code, says := c.cli([]string{"-server", c.Servers[0].Addr}, "get", guardedPath); code != 1 {
		c.t.Errorf("zooid cli get without an identity ends with code %d: %s", code, says)
	}
}

// cli runs a command of zooid cli.
func (c *crowd) cli(flags []string, command ...string) (code int, says string) {
	c.t.Helper()
	cmd := exec.Command(c.Servers[0].program, append(append([]string{"cli"}, flags...), command...)...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil {
		c.t.Fatal(err)
	}
	return cmd.ProcessState.ExitCode(), string(out)
}

// restart kills the server and starts it on the full disk. Sessions in the log are resumed; the others are over.
func (c *crowd) restart() {
	c.t.Helper()
	c.Servers[0].Kill()
	if err := c.Servers[0].Start(); err != nil {
		c.t.Fatal(err)
	}
	if _, err := c.Servers[0].Ready(); err != nil {
		c.t.Fatal(err)
	}
	for i, h := range c.held {
		h.Drop()
		err := h.Connect()
		for deadline := time.Now().Add(spacePatience); err != nil && !errors.Is(err, traffic.ErrExpired); err = h.Connect() {
			if time.Sleep(redialPause); time.Now().After(deadline) {
				c.t.Fatalf("session %d after a restart: %v", i, err)
			}
		}
		if inLog := err == nil; inLog != (i < inLogMax) {
			c.t.Fatalf("session %d after a restart: %v", i, err)
		} else if !inLog {
			continue
		}
		if err := h.Close(); err != nil {
			c.t.Fatalf("close session %d after a restart: %v", i, err)
		}
	}
}

// heal has a session that began without the log do everything, now that there is room, and ends all.
func (c *crowd) heal() {
	c.t.Helper()
	p := probe{t: c.t, c: c.held[heldSessions-1]}
	if code := p.create("/mine", jute.ModeEphemeral); code != jute.OK {
		c.t.Errorf("an ephemeral znode of a session that began without the log: %v", code)
	}
	before := c.zxid()
	c.connect("", sessionTimeout)
	if c.zxid() == before {
		c.t.Error("there is room again, and a session began without the log")
	}
	for i, h := range c.held {
		if err := h.Close(); err != nil {
			c.t.Fatalf("close session %d: %v", i, err)
		}
	}
	if n := c.gauge("local_sessions"); n != 0 {
		c.t.Errorf("%d sessions are outside the log when all are closed", n)
	}
}

// gauge returns a figure of the server whose disk fills up.
func (c *crowd) gauge(name string) int {
	c.t.Helper()
	said, err := c.Servers[0].Ask("mntr")
	if err != nil {
		c.t.Fatal(err)
	}
	n, told := figure(said, name)
	if !told {
		c.t.Fatalf("mntr has no %s: %s", name, said)
	}
	return n
}

// figure returns what an answer to mntr has by a name.
func figure(mntr, name string) (n int, told bool) {
	for line := range strings.Lines(mntr) {
		if value, ok := strings.CutPrefix(line, "zk_"+name+"\t"); ok {
			n, err := strconv.Atoi(strings.TrimSpace(value))
			return n, err == nil
		}
	}
	return 0, false
}

// zxid returns that of the last change which the server has applied.
func (c *crowd) zxid() (zxid int64) {
	c.t.Helper()
	said, err := c.Servers[0].Ask("srvr")
	if err != nil {
		c.t.Fatal(err)
	}
	for line := range strings.Lines(said) {
		if _, err := fmt.Sscanf(line, "Zxid: 0x%x", &zxid); err == nil {
			return zxid
		}
	}
	c.t.Fatalf("srvr has no zxid: %s", said)
	return 0
}
