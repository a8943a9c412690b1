package peer

import (
	"context"
	"encoding/binary"
	"io"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestEmptyServerSaysItsLife asks servers at their own address whether they are empty.
func TestEmptyServerSaysItsLife(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	listen := func() net.Listener {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	empty, full := listen(), listen()
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		Discover(ctx, Discovery{
			Self: 1, Level: 1, Members: []quorum.Member{{ID: 1, Addrs: []string{empty.Addr().String()}}, {ID: 2}, {ID: 3}},
			Listener: empty, Secure: sharing("a secret"), Log: quiet,
		})
	}()
	defer func() { cancel(); <-done }()
	running := newTransport(3, 7, sharing("a secret"), quiet)
	running.listen(full)
	defer running.close()
	leader := newTransport(2, 7, sharing("a secret"), quiet)
	defer leader.close()
	leader.setPeer(1, []string{empty.Addr().String()})
	leader.setPeer(3, []string{full.Addr().String()})
	var life uint32
	for deadline := time.Now().Add(patience); life == 0; time.Sleep(10 * time.Millisecond) {
		if c, err := leader.greet(t.Context(), empty.Addr().String(), hello{connLife, 7, 2, 1}, true); err == nil {
			var b [4]byte
			if _, err := io.ReadFull(c, b[:]); err == nil {
				life = binary.BigEndian.Uint32(b[:])
			}
			c.Close()
		}
		if time.Now().After(deadline) {
			t.Fatal("an empty server doesn't say its life")
		}
	}
	if !leader.isEmpty(1, life) {
		t.Error("an empty server in that life is not believed to be it")
	}
	if leader.isEmpty(1, life+2) {
		t.Error("an empty server in another life is taken for that of the question")
	}
	if leader.isEmpty(3, life) {
		t.Error("a server that runs is taken for an empty one")
	}
	if leader.isEmpty(4, life) {
		t.Error("a server without a known address is taken for an empty one")
	}
}
