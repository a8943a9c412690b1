package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// What a listener says to an opening, and what follows the challenge (handshake/proof.go).
const (
	challengeSize = 64
	proofSize     = 32
)

// answers dials a peer port, says what it is given and returns all that comes back
// until the connection ends.
func answers(t *testing.T, addr string, say []byte) []byte {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	c.Write(say)
	b, err := io.ReadAll(c)
	if handshake.Timeout(err) {
		t.Fatalf("the connection is kept; so far it said %q", b)
	}
	return b
}

// TestStrangersLearnNothing: without the ensemble's secret nothing comes back but a
// challenge, which is random, and the connection ends.
func TestStrangersLearnNothing(t *testing.T) {
	t.Parallel()
	a, addr := running(t, 1, 0x0123456789abcdef)
	a.setPeer(2, []string{"127.0.0.1:1"})
	h := hello{connMessages, 0x0123456789abcdef, 2, 1}
	opening := append([]byte(handshake.Magic), handshake.Version, byte(handshake.ModeSecret))
	opening = binary.BigEndian.AppendUint64(opening, 2)
	opening = append(opening, bytes.Repeat([]byte{9}, 32+32)...) // a nonce and a public key
	for what, say := range map[string][]byte{
		"nothing":                      nil,
		"an older version's hello":     h.append(nil),
		"an older version's question":  (&hello{connJoin, 0, 2, 1}).append(nil),
		"an opening":                   opening,
		"an opening and a wrong proof": append(slices.Clone(opening), make([]byte, proofSize+1000)...),
		"a version of the future":      append([]byte(handshake.Magic), make([]byte, 100)...),
		"garbage":                      bytes.Repeat([]byte("x"), 4096),
	} {
		b := answers(t, addr, say)
		if len(b) != 0 && len(b) != challengeSize {
			t.Errorf("%s: %d bytes come back: %q", what, len(b), b)
		}
		var cluster [8]byte
		binary.BigEndian.PutUint64(cluster[:], a.cluster)
		if bytes.Contains(b, cluster[:]) {
			t.Errorf("%s: the cluster's id comes back", what)
		}
	}
	if c, err := Dial(t.Context(), addr, sharing("another secret"), a.cluster, 2, 1); err == nil {
		c.Close()
		t.Error("another secret is accepted")
	}
	other := newTransport(2, a.cluster, sharing("another secret"), slog.New(slog.DiscardHandler))
	t.Cleanup(other.close)
	const advice = "if no peer takes this server's, correct quorum.secretFile here"
	if _, err := other.greet(t.Context(), addr, h, false); err == nil || !strings.Contains(err.Error(), advice) {
		t.Errorf("with another secret: %v, want %s", err, advice)
	}
	c, err := Dial(t.Context(), addr, sharing("a secret"), a.cluster, 2, 1)
	if err != nil {
		t.Fatalf("with the secret: %v", err)
	}
	c.Close()
	if e := next(t, a); e.Kind != quorum.EventLost { // what a server does cause
		t.Errorf("event %+v", e)
	}
	for name, keys := range map[string]*Keyring{
		"another secret": sharing("another secret").Keys, "no secret": keyring(t, ""),
	} {
		d := newTransport(2, 7, Secure{Keys: keys}, slog.New(slog.DiscardHandler))
		for _, kind := range []byte{connMessages, connSnapshot, connJoin, connMeet} {
			if c, err := d.greet(t.Context(), addr, hello{kind, a.cluster, 2, 1}, true); err == nil {
				c.Close()
				t.Errorf("%s: a connection of kind %d is accepted", name, kind)
			}
		}
	}
	select {
	case e := <-a.events:
		t.Errorf("a stranger made the event %+v", e)
	default:
	}
}

// TestProofIsOfOneConnection replays one side of a good handshake, byte for byte, and
// reflects another: neither is accepted.
func TestProofIsOfOneConnection(t *testing.T) {
	t.Parallel()
	a, addr := running(t, 1, 7)
	a.setPeer(2, []string{"127.0.0.1:1"})
	d := newTransport(2, 7, sharing("a secret"), slog.New(slog.DiscardHandler))
	tap := &tapped{}
	dial := d.dial
	d.dial = func(ctx ctx, addr string) (net.Conn, error) {
		c, err := dial(ctx, addr)
		tap.Conn = c
		return tap, err
	}
	c, err := d.greet(t.Context(), addr, hello{connMessages, 7, 2, 1}, true)
	if err != nil {
		t.Fatal(err)
	}
	c.Write(append(appendFrameHead(nil, quorum.FrameForward, 1), 'x'))
	if e := next(t, a); e.Kind != quorum.EventForward {
		t.Fatalf("event %+v", e)
	}
	c.Close()
	for e := next(t, a); e.Kind != quorum.EventLost; e = next(t, a) {
	}
	if b := answers(t, addr, tap.wrote); len(b) > challengeSize {
		t.Errorf("a replayed connection gets %d bytes", len(b))
	}
	select {
	case e := <-a.events:
		t.Errorf("a replayed connection made the event %+v", e)
	default:
	}
	// A listener that only sends back what it gets proves nothing.
	mirror := listenLocal(t)
	go func() {
		for {
			c, err := mirror.Accept()
			if err != nil {
				return
			}
			io.Copy(c, c)
			c.Close()
		}
	}()
	d.dial = dial
	if c, err := d.greet(t.Context(), mirror.Addr().String(), hello{connMessages, 7, 2, 1}, true); err == nil {
		c.Close()
		t.Error("a mirror passes for a server")
	}
}

// tapped keeps what is written, and what is read.
type tapped struct {
	net.Conn
	wrote, read []byte
}

func (c *tapped) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.read = append(c.read, b[:n]...)
	return n, err
}

func (c *tapped) Write(b []byte) (int, error) {
	c.wrote = append(c.wrote, b...)
	return c.Conn.Write(b)
}

// TestFirstVersionUntilThereIsASecret: a server that knows no secret hears one of the
// first version, and no more once it has adopted one.
func TestFirstVersionUntilThereIsASecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	a, addr, _ := runningSecure(t, 1, Secure{Keys: keyring(t, dir)})
	a.setPeer(2, []string{"127.0.0.1:1"})
	first := hello{connMessages, 7, 2, 1}
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(patience))
	c.Write(first.append(nil))
	if err := readAnswer(c); err != nil {
		t.Fatalf("a server of the first version: %v", err)
	}
	if err := a.keys.Adopt(SecretOf("agreed")); err != nil {
		t.Fatal(err)
	}
	a.dropLegacy()
	if _, err := io.Copy(io.Discard, c); handshake.Timeout(err) {
		t.Error("its connection is kept beside the secret")
	}
	for what, keys := range map[string]*Keyring{"the same process": a.keys, "the next one": keyring(t, dir)} {
		_, addr, _ := runningSecure(t, 1, Secure{Keys: keys})
		if b := answers(t, addr, first.append(nil)); len(b) != 0 {
			t.Errorf("%s still answers the first version: %q", what, b)
		}
	}
	st, err := os.Stat(filepath.Join(dir, "PEERSECRET"))
	if err != nil || st.Mode().Perm() != 0o600 {
		t.Errorf("the secret is kept as %v, %v", st, err)
	}
}

// TestFirstVersionAsASecretIsAdopted: a secret is adopted, and the connections on which
// nothing was proven are ended, between the hello of a server of the first version and its
// answer. That connection ends too, whoever dialled.
func TestFirstVersionAsASecretIsAdopted(t *testing.T) {
	t.Parallel()
	open := func() *transport {
		tr := newTransport(1, 7, Secure{Keys: keyring(t, "")}, slog.New(slog.DiscardHandler))
		t.Cleanup(tr.close)
		return tr
	}
	adopt := func(tr *transport) {
		if err := tr.keys.Adopt(SecretOf("agreed")); err != nil {
			t.Error(err)
		}
		tr.gate.dropLegacy()
	}
	t.Run("accepted", func(t *testing.T) {
		t.Parallel()
		tr := open()
		tr.setPeer(2, []string{"127.0.0.1:1"})
		near, far := net.Pipe()
		far.SetDeadline(time.Now().Add(patience))
		tr.gate.enter(near)
		tr.mu.Lock() // serve looks its peer up after it has read the hello
		go func() {
			defer near.Close()
			tr.serve(near)
		}()
		_, err := far.Write((&hello{connMessages, 7, 2, 1}).append(nil))
		adopt(tr)
		tr.mu.Unlock()
		if b, readErr := io.ReadAll(far); err != nil || readErr != nil || len(b) > 0 {
			t.Errorf("the hello (%v) is answered with %q, %v", err, b, readErr)
		}
	})
	t.Run("dialled", func(t *testing.T) {
		t.Parallel()
		tr := open()
		dials := 0
		tr.dial = func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			if dials++; dials <= 2 {
				far.Close() // as a server of the first version does that hears a proof, of either kind
				return near, nil
			}
			go func() {
				if _, err := readHello(far); err != nil {
					t.Error(err)
				}
				adopt(tr)
				writeAnswer(far, "")
			}()
			return near, nil
		}
		r := &remote{t: tr, id: 2, addrs: []string{"server2"}}
		r.ready.L = &r.mu
		c, err := r.connect()
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		if _, err := c.Write([]byte{0}); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("the connection goes on: %v", err)
		}
	})
}

// TestGateLimits fills the peer port with connections that say nothing: they are
// bounded, and a peer still gets through.
func TestGateLimits(t *testing.T) {
	t.Parallel()
	a, addr := running(t, 1, 7)
	a.setPeer(2, []string{"127.0.0.1:1"})
	a.snapshot = func(net.Conn, uint64) { <-t.Context().Done() }
	for range 4 * handshakesPerHostMax {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
	}
	count := func() (waiting int) {
		a.gate.mu.Lock()
		defer a.gate.mu.Unlock()
		for _, v := range a.gate.conns {
			if !v.proven {
				waiting++
			}
		}
		if n := a.gate.strangers.Len() + a.gate.familiar.Len(); n != waiting {
			t.Errorf("%d connections may be closed, while %d have proven nothing", n, waiting)
		}
		return waiting
	}
	if n := count(); n > handshakesPerHostMax {
		t.Errorf("%d connections of one address have proven nothing, at most %d", n, handshakesPerHostMax)
	}
	var open []net.Conn
	for i := range connectionsPerPeerMax + 2 {
		d := newTransport(2, 7, sharing("a secret"), slog.New(slog.DiscardHandler))
		c, err := d.greet(t.Context(), addr, hello{connSnapshot, 7, 2, 1}, false)
		if i < connectionsPerPeerMax != (err == nil) && !errors.Is(err, handshake.ErrUnproven) {
			t.Errorf("proven connection %d: %v", i+1, err)
		}
		if err == nil {
			open = append(open, c.Conn)
		}
	}
	_ = open
	for deadline := time.Now().Add(patience); count() > 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("connections that say nothing are kept")
		}
	}
}

// TestGateEvicts: when there are too many the oldest goes, of the address, or IPv6 network, that has
// the most.
func TestGateEvicts(t *testing.T) {
	t.Parallel()
	g := newGate()
	at := func(host string, port int) net.Conn {
		return placed{&net.TCPAddr{IP: net.ParseIP(host), Port: port}}
	}
	for i := range handshakesPerHostMax {
		g.enter(at("10.0.0.1", i))
	}
	if c := g.enter(at("10.0.0.1", 99)); c == nil || c.RemoteAddr().String() != "10.0.0.1:0" {
		t.Errorf("one too many of an address closes %v", c)
	}
	six := newGate()
	for i := range handshakesPerHostMax + 1 {
		c := six.enter(at(fmt.Sprintf("2001:db8::%x", i+1), i))
		if first := c != nil && c.RemoteAddr().String() == "[2001:db8::1]:0"; first != (i == handshakesPerHostMax) {
			t.Errorf("connection %d of an IPv6 network closes %v", i+1, c)
		}
	}
	n := handshakesPerHostMax
	for i := 0; n < handshakesMax; i, n = i+1, n+1 {
		if c := g.enter(at("10.0.1."+string('1'+rune(i%5)), i)); c != nil {
			t.Fatalf("connection %d closes %v", n, c.RemoteAddr())
		}
	}
	if c := g.enter(at("10.0.2.1", 1)); c == nil || c.RemoteAddr().String() != "10.0.0.1:1" {
		t.Errorf("one too many closes %v", c)
	}
	for i := range connectionsMax + 1 {
		c := at("10.0.3.1", i)
		g.enter(c)
		if ok := g.prove(c, uint64(100+i), false); ok != (i < connectionsMax) {
			t.Errorf("proven connection %d: %v", i+1, ok)
		}
	}
}

// placed is a connection from somewhere.
type placed struct{ addr net.Addr }

func (p placed) RemoteAddr() net.Addr             { return p.addr }
func (p placed) LocalAddr() net.Addr              { return p.addr }
func (p placed) Read([]byte) (int, error)         { return 0, io.EOF }
func (p placed) Write([]byte) (int, error)        { return 0, io.EOF }
func (p placed) Close() error                     { return nil }
func (p placed) SetDeadline(time.Time) error      { return nil }
func (p placed) SetReadDeadline(time.Time) error  { return nil }
func (p placed) SetWriteDeadline(time.Time) error { return nil }

// BenchmarkSealed is the path of frames over a socket, sealed and not.
func BenchmarkSealed(b *testing.B) {
	for _, size := range []int{100, 4 << 10, 64 << 10, 1 << 20} {
		for _, seal := range []bool{false, true} {
			name := map[bool]string{false: "plain", true: "sealed"}[seal]
			b.Run(name+"/"+slog.IntValue(size).String(), func(b *testing.B) {
				l, err := net.Listen("tcp", "127.0.0.1:0")
				if err != nil {
					b.Fatal(err)
				}
				defer l.Close()
				wrap := func(c net.Conn, dialled bool) net.Conn {
					if !seal {
						return c
					}
					var s *handshake.Sealed
					keys, secret := sharing("a secret").Keys, SecretOf("a secret")
					if dialled {
						s, _, err = keys.Dial(c, handshake.Version, handshake.ModeSecret, secret[:], 2)
					} else if _, err = handshake.ReadVersion(c); err == nil {
						s, _, err = keys.Accept(c, handshake.Version)
					}
					if err != nil {
						b.Error(err)
						return c
					}
					s.Unveil()
					return s
				}
				done := make(chan struct{})
				go func() {
					defer close(done)
					c, err := l.Accept()
					if err != nil {
						return
					}
					tr := newTransport(1, 7, Secure{}, slog.New(slog.DiscardHandler))
					go func() {
						for e := range tr.events {
							tr.frames.give(e.Data)
						}
					}()
					tr.read(wrap(c, false), 2, 1)
				}()
				c, err := net.Dial("tcp", l.Addr().String())
				if err != nil {
					b.Fatal(err)
				}
				out := wrap(c, true)
				frame := append(appendFrameHead(nil, quorum.FrameRaft, size), make([]byte, size)...)
				b.SetBytes(int64(len(frame)))
				for b.Loop() {
					if _, err := out.Write(frame); err != nil {
						b.Fatal(err)
					}
				}
				c.Close()
				<-done
			})
		}
	}
}
