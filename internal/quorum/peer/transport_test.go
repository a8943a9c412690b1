package peer

import (
	"bytes"
	"errors"
	"io"
	"log/slog"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// sharing is how servers prove who they are that share a secret.
func sharing(secret string) Secure {
	k, err := OpenKeyring("", []Secret{SecretOf(secret)})
	if err != nil {
		panic(err)
	}
	return Secure{Keys: k}
}

// keyring returns what a server without a configured secret has in a data directory,
// "" for none.
func keyring(t *testing.T, dir string) *Keyring {
	t.Helper()
	k, err := OpenKeyring(dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// running starts a transport that listens on loopback.
func running(t *testing.T, id, cluster uint64) (*transport, string) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	tr := newTransport(id, cluster, sharing("a secret"), slog.New(slog.DiscardHandler))
	tr.snapshot = func(c net.Conn, _ uint64) { c.Close() }
	tr.listen(l)
	t.Cleanup(tr.close)
	return tr, l.Addr().String()
}

// patience bounds a wait for what must come. Nothing is judged by it.
const patience = 2 * time.Minute

// within reports whether a condition comes to hold within patience.
func within(holds func() bool) bool {
	for end := time.Now().Add(patience); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			return false
		}
	}
	return true
}

func next(t *testing.T, tr *transport) quorum.Event {
	t.Helper()
	select {
	case e := <-tr.events:
		return e
	case <-time.After(patience):
		t.Fatalf("no event in %v", patience)
		return quorum.Event{}
	}
}

func TestFramesArriveInOrder(t *testing.T) {
	t.Parallel()
	a, addrA := running(t, 1, 7)
	b, addrB := running(t, 2, 7)
	a.setPeer(2, []string{addrB})
	b.setPeer(1, []string{addrA})
	if e := next(t, a); e.Kind != quorum.EventConnected || e.From != 2 {
		t.Fatalf("first event %+v, want to be connected to 2", e)
	}
	const n = 5000
	for i := range n {
		if !a.send(2, quorum.FrameForward, bytes.Repeat([]byte{byte(i)}, i%300)) {
			t.Fatalf("frame %d was dropped", i)
		}
	}
	for got := 0; got < n; {
		e := next(t, b)
		if e.Kind == quorum.EventConnected {
			continue
		}
		if e.Kind != quorum.EventForward || e.From != 1 || !bytes.Equal(e.Data, bytes.Repeat([]byte{byte(got)}, got%300)) {
			t.Fatalf("event %+v, want frame %d", e, got)
		}
		got++
	}
	a.close()
	for e := next(t, b); e.Kind != quorum.EventLost; e = next(t, b) {
		if e.Kind != quorum.EventConnected {
			t.Fatalf("event %+v after the peer closed", e)
		}
	}
}

func TestWhoIsRefused(t *testing.T) {
	t.Parallel()
	a, addr := running(t, 1, 7)
	a.setPeer(2, []string{"127.0.0.1:1"})
	for why, h := range map[string]hello{
		"belongs to cluster":  {connMessages, 8, 2, 1},
		"this is server 1":    {connMessages, 7, 2, 3},
		"two servers have":    {connMessages, 7, 1, 1},
		"is not in this":      {connMessages, 7, 9, 1},
		"unknown kind":        {77, 7, 2, 1},
		"so do I: two server": {connJoin, 0, 1, 1},
	} {
		_, err := newTransport(h.from, h.cluster, sharing("a secret"), slog.New(slog.DiscardHandler)).greet(t.Context(), addr,
			h, false)
		var refused *refusedError
		if !errors.As(err, &refused) || !strings.Contains(refused.reason, why) {
			t.Errorf("hello %+v: %v, want a refusal that says %q", h, err, why)
		}
	}
}

func TestStrangersAreCutOff(t *testing.T) {
	t.Parallel()
	_, addr := running(t, 1, 7)
	for _, greeting := range []string{"GET / HTTP/1.1\r\n\r\n" + strings.Repeat("x", 100), strings.Repeat("\x00", 200)} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(patience))
		io.WriteString(c, greeting)
		if n, _ := io.Copy(io.Discard, c); n != 0 {
			t.Errorf("a stranger got %d bytes", n)
		}
		c.Close()
	}
}

// FuzzFrames reads whatever a peer may send: no panic, and no more memory than
// arrived, within a step.
func FuzzFrames(f *testing.F) {
	h := hello{connMessages, 7, 2, 1}
	f.Add(h.append(nil))
	f.Add(append(appendFrameHead(nil, quorum.FrameRaft, 3), 1, 2, 3))
	f.Add([]byte{0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, data []byte) {
		readHello(bytes.NewReader(data))
		readAnswer(bytes.NewReader(data))
		r := bytes.NewReader(data)
		for {
			kind, payload, err := readFrame(r, nil)
			if cap(payload) > 2*len(data)+2<<20 {
				t.Fatalf("%d bytes of input took %d of memory", len(data), cap(payload))
			}
			if err != nil {
				return
			}
			kind.Event(2, 0, payload)
		}
	})
}

// A peer that connects again is heard in order: what came on its old connection
// comes before anything of the new one.
func TestNewConnectionComesBehindTheOld(t *testing.T) {
	t.Parallel()
	a, addr := running(t, 1, 7)
	a.setPeer(2, []string{"127.0.0.1:1"})
	connect := func() net.Conn {
		c, err := newTransport(2, 7, sharing("a secret"), slog.New(slog.DiscardHandler)).greet(t.Context(), addr,
			hello{connMessages, 7, 2, 1}, false)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	frame := func(text string) []byte { return append(appendFrameHead(nil, quorum.FrameForward, len(text)), text...) }
	old := connect()
	if _, err := old.Write(bytes.Repeat(frame("old"), 2*eventsMax)); err != nil { // more than fits
		t.Fatal(err)
	}
	first := next(t, a)
	if string(first.Data) != "old" {
		t.Fatalf("event %+v, want the first frame", first)
	}
	if _, err := connect().Write(frame("new")); err != nil {
		t.Fatal(err)
	}
	lost := false
	for e := next(t, a); string(e.Data) != "new"; e = next(t, a) {
		lost = lost || e.Kind == quorum.EventLost
	}
	if !lost {
		t.Fatal("a frame of the new connection came before the end of the old one")
	}
}
