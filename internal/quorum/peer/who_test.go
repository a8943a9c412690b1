package peer

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
	"github.com/zooid-project/zooid/internal/socket"
)

// A passer ends a TLS connection to it, makes one of its own to another server, and passes on what is said in both.
func passer(t *testing.T, secure Secure, to string) (addr string) {
	t.Helper()
	l := listenLocal(t)
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				near := tls.Server(c, secure.Server)
				far, err := tls.Dial("tcp", to, secure.Client("127.0.0.1"))
				if err != nil {
					return
				}
				defer far.Close()
				go func() {
					io.Copy(far, near)
					far.Close()
				}()
				io.Copy(near, far)
			}()
		}
	}()
	return l.Addr().String()
}

// TestProofIsOfOneTLSConnection: who has a certificate for a server's host, but not the secret, can't pass on the proof
// of a server that knows it.
func TestProofIsOfOneTLSConnection(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	secure := ca.mutual(ca.issue(t, "127.0.0.1"))
	secure.Keys = sharing("a secret").Keys
	a, addr, _ := runningSecure(t, 1, secure)
	a.setPeer(2, []string{"127.0.0.1:1"})
	theirs := ca.mutual(ca.issue(t, "127.0.0.1"))
	theirs.Keys = sharing("a secret").Keys
	d := newTransport(2, 7, theirs, slog.New(slog.DiscardHandler))
	defer d.close()
	for _, level := range []uint32{1, levelProof} {
		d.inForce.Store(level)
		a.inForce.Store(level)
		if c, err := d.greet(t.Context(), passer(t, ca.mutual(ca.issue(t, "127.0.0.1")), addr), hello{connMessages, 7, 2, 1},
			true); err == nil {
			c.Close()
			t.Errorf("level %d: a proof is passed on", level)
		}
		c, err := d.greet(t.Context(), addr, hello{connMessages, 7, 2, 1}, true)
		if err != nil {
			t.Fatalf("level %d: without anybody in between: %v", level, err)
		}
		c.Close()
	}
}

// greetAs says hello in the way of a version; 0 stands for none.
func greetAs(ctx context.Context, d *transport, addr string, h hello, version byte, mode handshake.Mode,
	psk []byte) error {
	var c net.Conn
	var err error
	if version == 0 {
		if c, err = d.connect(ctx, addr); err == nil {
			err = d.sayHello(c, h)
		}
	} else {
		var g greeted
		g, err = d.attemptAs(ctx, addr, h, version, mode, psk, true)
		c = g.Conn
	}
	if err == nil {
		c.Close()
	}
	return err
}

// TestOlderProofs: what older versions say is accepted as long as a member may be of one, and no longer.
func TestOlderProofs(t *testing.T) {
	t.Parallel()
	secret := SecretOf("a secret")
	ca := newIssuer(t)
	for _, c := range []struct {
		over    bool
		version byte
		secured bool
		level   uint32
		founded bool
		want    bool
	}{
		{false, handshake.Version2, true, 2, true, true},
		{false, handshake.Version2, true, levelProof, true, false},
		{false, handshake.Version2, true, 0, false, true},
		{false, handshake.Version, true, levelProof, true, true},
		{false, 0, true, 1, false, false},
		{false, 0, false, 1, false, true},
		{false, 0, false, 1, true, false},
		{false, 0, false, 2, false, false},
		{true, 0, true, 2, true, true},
		{true, 0, true, 0, false, false},
		{true, 0, false, 0, false, true},
		{true, 0, true, levelProof, true, false},
		{true, 0, false, levelProof, true, false},
		{true, handshake.Version2, true, 2, true, false},
		{true, handshake.Version, true, levelProof, true, true},
	} {
		t.Run(fmt.Sprintf("%+v", c), func(t *testing.T) {
			t.Parallel()
			ours, theirs := Secure{}, Secure{}
			if c.over {
				ours, theirs = ca.mutual(ca.issue(t, "127.0.0.1")), ca.mutual(ca.issue(t, "127.0.0.1"))
			}
			ours.Keys, theirs.Keys = keyring(t, ""), keyring(t, "")
			if c.secured {
				ours.Keys, theirs.Keys = sharing("a secret").Keys, sharing("a secret").Keys
			}
			l := listenLocal(t)
			a := newTransport(1, 7, ours, slog.New(slog.DiscardHandler))
			a.snapshot = func(c net.Conn, _ uint64) { c.Close() }
			a.inForce.Store(c.level)
			a.noneIsFirst = c.founded
			a.setPeer(2, []string{"127.0.0.1:1"})
			a.listen(l)
			defer a.close()
			d := newTransport(2, 7, theirs, slog.New(slog.DiscardHandler))
			defer d.close()
			err := greetAs(t.Context(), d, l.Addr().String(), hello{connMessages, 7, 2, 1}, c.version,
				handshake.ModeSecret, secret[:])
			if (err == nil) != c.want {
				t.Errorf("it gets %v", err)
			}
			var refused *refusedError
			if errors.As(err, &refused) && strings.Contains(refused.reason, "cluster") {
				t.Errorf("it is told %q", refused.reason)
			}
		})
	}
}

// TestGateOfManyAddresses: connections that say nothing, one from each of many addresses, don't keep a server out that
// comes from an address of its own, and still less one that has been there, or was reached there.
func TestGateOfManyAddresses(t *testing.T) {
	t.Parallel()
	at := func(host string) net.Conn { return placed{&net.TCPAddr{IP: net.ParseIP(host), Port: 1}} }
	silent := func(i int) net.Conn { return at(fmt.Sprintf("10.1.%d.%d", i/200, i%200)) }
	const trials, later = 200, handshakesMax / 4
	stayed, endured := 0, 0
	for range trials {
		g := newGate()
		for i := range handshakesMax {
			g.enter(silent(i))
		}
		server := at("10.2.0.1")
		if c := g.enter(server); c == nil || c == server {
			t.Fatalf("for a server that comes %v is closed", c)
		}
		out := false
		for i := range later {
			out = out || g.enter(silent(handshakesMax+i)) == server
		}
		if !out {
			stayed++
		}
		for i := range handshakesMax {
			out = out || g.enter(silent(2*handshakesMax+i)) == server
		}
		if !out {
			endured++
		}
	}
	if endured < trials/10 { // about 57 of 200 are expected, and none if the oldest is closed each time
		t.Errorf("in %d of %d trials a slow server stays as long as it takes to replace all connections", endured, trials)
	}
	if stayed < trials/2 { // about 3 of 4 are expected
		t.Errorf("in %d of %d trials a server stays beside %d silent connections that come after it", stayed, trials, later)
	}
	g := newGate()
	server, reached := at("10.2.0.1"), at("10.3.0.1")
	g.enter(server)
	g.prove(server, 2, false)
	g.leave(server)
	g.know(reached.RemoteAddr())
	g.enter(server)
	g.enter(reached)
	for i := range 10 * handshakesMax {
		if c := g.enter(silent(i)); c == server || c == reached {
			t.Fatalf("a server whose address is known is closed for the %d. silent connection after it", i+1)
		}
	}
	bare := at("10.4.0.1")
	g.enter(bare)
	g.prove(bare, 3, true)
	if g.hosts[socket.NetworkOf(bare.RemoteAddr())] {
		t.Error("the address of one that has proven nothing counts as known")
	}
	for i := range 2 * provenHostsMax {
		c := silent(i)
		g.enter(c)
		g.prove(c, uint64(i), false)
		g.leave(c)
	}
	if len(g.hosts) > provenHostsMax {
		t.Errorf("%d addresses are remembered", len(g.hosts))
	}
}

// TestLevelEndsBareConnections: connections that began without a proof, in either direction, end with the level at
// which all servers make one.
func TestLevelEndsBareConnections(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	secure := ca.mutual(ca.issue(t, "127.0.0.1"))
	secure.Keys = sharing("a secret").Keys
	a, addr, _ := runningSecure(t, 1, secure)
	a.setLevel(levelProof - 1)
	a.setPeer(2, []string{"127.0.0.1:1"})
	theirs := ca.mutual(ca.issue(t, "127.0.0.1"))
	theirs.Keys = sharing("a secret").Keys
	d := newTransport(2, 7, theirs, slog.New(slog.DiscardHandler))
	defer d.close()
	c, err := d.connect(t.Context(), addr)
	if err != nil {
		t.Fatal(err)
	}
	h := hello{connMessages, 7, 2, 1}
	if err := d.sayHello(c, h); err != nil {
		t.Fatal(err)
	}
	c.Write(append(appendFrameHead(nil, quorum.FrameForward, 1), 'x'))
	if e := next(t, a); e.Kind != quorum.EventForward {
		t.Fatalf("event %+v", e)
	}
	near, far := net.Pipe()
	r := &remote{t: a, id: 3, conn: near, legacy: true}
	r.ready.L = &r.mu
	a.mu.Lock()
	a.remotes[3] = r
	a.mu.Unlock()
	a.setLevel(levelProof)
	if e := next(t, a); e.Kind != quorum.EventLost {
		t.Errorf("event %+v", e)
	}
	if _, err := far.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("a connection made without a proof goes on: %v", err)
	}
	if err := greetAs(t.Context(), d, addr, h, 0, 0, nil); err == nil {
		t.Error("another one is accepted")
	}
}

// TestNoOlderPeers: what a server knows of its ensemble before its state does counts, since that is empty, or of an
// older time, when it starts.
func TestNoOlderPeers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		lineage       uint64
		o             Options
		last          uint64
		bare, overTLS bool
	}{
		{0, Options{}, 5, true, true},
		{0, Options{}, 0, false, true},
		{9, Options{}, 5, false, false},
		{0, Options{Founding: &quorum.Founding{}}, 5, false, true},
		{0, Options{Founding: &quorum.Founding{Level: levelProof}}, 1, false, false},
		{0, Options{Joined: quorum.Admission{Level: levelProof}}, 0, false, false},
		{0, Options{Joined: quorum.Admission{Level: levelProof - 1}}, 0, false, true},
		{0, Options{Joined: quorum.Admission{Unproven: true}}, 0, true, true},
	} {
		tr := newTransport(1, 7, Secure{Keys: keyring(t, "")}, slog.New(slog.DiscardHandler))
		tr.inForce.Store(quorum.LevelFirst)
		tr.lineage.Store(c.lineage)
		tr.decideOlder(&c.o, c.last)
		if bare, overTLS := tr.mayBeBare(false), tr.mayBeBare(true); bare != c.bare || overTLS != c.overTLS {
			t.Errorf("%+v: without TLS %t, over TLS %t", c, bare, overTLS)
		}
		tr.close()
	}
}

// TestJoinedLevel: a server that is let in keeps the level that it was told of, and tells it to no earlier version.
func TestJoinedLevel(t *testing.T) {
	t.Parallel()
	for level, want := range map[uint32]string{levelProof: "5 2 3\n", levelProof - 1: "5 2\n"} {
		dir := t.TempDir()
		b := quorum.Beginning{JoinedAfter: 5, JoinedTerm: 2, Joined: quorum.Admission{Level: level}}
		if err := WriteNote(b, dir); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(filepath.Join(dir, NoteName))
		if got := strings.ReplaceAll(string(text), " \n", "\n"); err != nil || got != want {
			t.Errorf("level %d: the note is %q, %v", level, got, err)
		}
		if got, err := ReadNote(dir); err != nil || got.JoinedAfter != 5 ||
			(got.Joined.Level == level) != (level >= levelProof) {
			t.Errorf("level %d: it reads %+v, %v", level, got, err)
		}
	}
	r := joinReplied{state: joinGo, cluster: 7, index: 5, term: 2, level: 3}
	for n, level := range map[int]uint32{29: 3, 25: 0} {
		got, err := readJoinReplied(bytes.NewReader(r.append(nil)[:n]))
		if err != nil || got.level != level || got.term != 2 {
			t.Errorf("of %d bytes it reads %+v, %v", n, got, err)
		}
	}
}

// TestLetInByCertificate: where servers have agreed on a secret over TLS, a member that has lost its disk is given it
// by its certificate. One who has another server's certificate, or a client's, isn't, nor anybody where the secret was
// configured.
func TestLetInByCertificate(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	for _, c := range []struct {
		what       string
		names      string
		named      bool
		configured bool
		want       bool
	}{
		{"the member's", "127.0.0.1", true, false, true},
		{"another's", "two.example", true, false, false},
		{"any, where names aren't checked", "127.0.0.1", false, false, false},
		{"the member's, beside a configured secret", "127.0.0.1", true, true, false},
	} {
		t.Run(c.what, func(t *testing.T) {
			t.Parallel()
			listeners := []net.Listener{listenLocal(t), listenLocal(t)}
			members := []quorum.Member{
				{ID: 1, Addrs: []string{listeners[0].Addr().String()}}, {ID: 2, Addrs: []string{listeners[1].Addr().String()}},
			}
			var trs []*transport
			for i, l := range listeners {
				names := "127.0.0.1"
				if i == 1 {
					names = c.names
				}
				secure := ca.mutual(ca.issue(t, names))
				secure.Named = c.named
				secure.Verify = func(_ context.Context, state tls.ConnectionState, hosts []string) error {
					if len(hosts) == 0 || !c.named {
						return nil
					}
					return state.PeerCertificates[0].VerifyHostname(hosts[0])
				}
				secure.Client = func(string) *tls.Config {
					cfg := ca.mutual(ca.issue(t, names)).Client("127.0.0.1")
					cfg.InsecureSkipVerify = true // the listener's check is what counts here
					return cfg
				}
				if secure.Keys = keyring(t, ""); i == 0 && c.configured {
					secure.Keys = sharing("a secret").Keys
				} else if i == 0 {
					if err := secure.Keys.Adopt(SecretOf("agreed")); err != nil {
						t.Fatal(err)
					}
				}
				tr := newTransport(uint64(i+1), 7, secure, slog.New(slog.DiscardHandler))
				tr.inForce.Store(levelProof)
				tr.snapshot = func(c net.Conn, _ uint64) { c.Close() }
				tr.members = members
				tr.listen(l)
				tr.setPeer(uint64(2-i), members[1-i].Addrs)
				go func() {
					for {
						select {
						case <-tr.events:
						case <-tr.ctx.Done():
							return
						}
					}
				}()
				t.Cleanup(tr.close)
				trs = append(trs, tr)
			}
			if c.want {
				if !within(trs[1].keys.Secured) {
					t.Error("it never gets the secret")
				}
				return
			}
			for range 20 {
				if c, err := trs[1].greet(t.Context(), members[0].Addrs[0], hello{connMessages, 7, 2, 1}, true); err == nil {
					c.Close()
					t.Fatal("it is accepted")
				}
			}
			if trs[1].keys.Secured() {
				t.Error("it was given the secret")
			}
		})
	}
}

// TestFrameSizes: a frame of a kind that is always small is refused before it is read if it is large.
func TestFrameSizes(t *testing.T) {
	t.Parallel()
	for kind, want := range map[quorum.FrameKind]bool{
		quorum.FrameMembers: false, quorum.FrameClock: false, quorum.FrameDigest: false, quorum.FrameForward: true,
		quorum.FrameRaft: true, quorum.FrameReport: true,
	} {
		for _, n := range []int{kind.SizeMax() - 1, kind.SizeMax(), 4 << 20} {
			_, _, err := readFrame(io.MultiReader(bytes.NewReader(appendFrameHead(nil, kind, n)), zeros{}), nil)
			if ok := n < kind.SizeMax(); (err == nil) != ok || !ok && n == 4<<20 && want {
				t.Errorf("a frame of kind %d with %d bytes: %v", kind, n, err)
			}
		}
	}
}

// zeros is endless.
type zeros struct{}

func (zeros) Read(b []byte) (int, error) {
	clear(b)
	return len(b), nil
}
