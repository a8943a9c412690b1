package peer

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestReasonOfARefusal: a long reason is cut when it is sent, and what claims to be
// longer is no answer.
func TestReasonOfARefusal(t *testing.T) {
	var b bytes.Buffer
	if err := writeAnswer(&b, strings.Repeat("x", 2*reasonMax)); err != nil {
		t.Fatal(err)
	}
	var refused *refusedError
	if err := readAnswer(&b); !errors.As(err, &refused) || len(refused.reason) != reasonMax {
		t.Errorf("a long reason arrives as %v", err)
	}
	b.Write([]byte{0, 0, 4, 1})
	b.WriteString(strings.Repeat("x", reasonMax+1))
	if err := readAnswer(&b); err == nil || errors.As(err, &refused) && len(refused.reason) > reasonMax {
		t.Errorf("a reason of %d bytes is read: %v", reasonMax+1, err)
	}
}

// TestSendQueueIsBounded fills what waits for a peer: the next frame is dropped,
// and the connection closed, so that all of it is made anew.
func TestSendQueueIsBounded(t *testing.T) {
	here, there := net.Pipe()
	defer there.Close()
	r := &remote{up: true, conn: here}
	r.ready.L = &r.mu
	const head = 5 // of a frame
	if !r.send(quorum.FrameRaft, make([]byte, sendQueueBytesMax-head)) {
		t.Fatal("a frame within the limit is dropped")
	}
	if r.send(quorum.FrameRaft, []byte{0}) {
		t.Error("a frame beyond the limit is queued")
	}
	if _, err := here.Write([]byte{0}); err == nil {
		t.Error("the connection goes on")
	}
}

// failing is a listener that gives no connection until it is closed.
type failing struct {
	net.Listener
	calls  []time.Time
	closed bool
}

func (f *failing) Accept() (net.Conn, error) {
	if f.closed {
		return nil, net.ErrClosed
	}
	f.calls = append(f.calls, time.Now())
	if len(f.calls) == 20 {
		f.closed = true
	}
	return nil, errors.New("too many open files")
}

// TestAcceptPauses: the pause after a failed accept grows to its limit and not beyond.
func TestAcceptPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(1, 7, sharing("a secret"), slog.New(slog.DiscardHandler))
		defer tr.cancel()
		f := &failing{}
		tr.acceptAll(t.Context(), f, func(net.Conn) {})
		for i := range f.calls[1:] {
			want := min(5*time.Millisecond<<i, time.Second)
			if got := f.calls[i+1].Sub(f.calls[i]); got != want {
				t.Errorf("after %d failures it waits for %v, want %v", i+1, got, want)
			}
		}
	})
}

// TestEarlyEndPauses: a peer that accepts each connection and ends it at once is dialled
// again after a pause that grows to its limit and not beyond.
func TestEarlyEndPauses(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tr := newTransport(1, 7, Secure{Keys: keyring(t, "")}, slog.New(slog.DiscardHandler))
		var accepted []time.Time
		dials := 0
		tr.dial = func(context.Context, string) (net.Conn, error) {
			near, far := net.Pipe()
			if dials++; dials%3 != 0 {
				far.Close() // a server of the first version, which hears no proof of either kind
				return near, nil
			}
			go func() {
				defer far.Close()
				if _, err := readHello(far); err != nil {
					t.Error(err)
				}
				accepted = append(accepted, time.Now())
				writeAnswer(far, "")
			}()
			return near, nil
		}
		r := &remote{t: tr, id: 2, addrs: []string{"server2"}, back: make(chan struct{}, 1)}
		r.ready.L = &r.mu
		tr.wg.Go(r.run)
		time.Sleep(time.Minute)
		tr.cancel()
		r.close()
		tr.wg.Wait()
		if len(accepted) < 20 {
			t.Fatalf("in a minute it connects %d times", len(accepted))
		}
		for i := range accepted[1:] {
			want := min(redialMin<<i, earlyPauseMax)
			if got := accepted[i+1].Sub(accepted[i]); got != want {
				t.Errorf("after %d connections that ended at once it waits for %v, want %v", i+1, got, want)
			}
		}
	})
}
