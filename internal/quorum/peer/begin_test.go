package peer

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestBeginsWithOneThatBegan is the first start of two servers of three: one has
// begun the ensemble by the time the other asks. It knew the other to be empty,
// so nothing can have been acknowledged without it; a server that began without
// knowing that tells the same, and must not be believed.
func TestBeginsWithOneThatBegan(t *testing.T) {
	t.Parallel()
	for _, known := range []bool{true, false} {
		t.Run(fmt.Sprintf("known=%v", known), func(t *testing.T) {
			t.Parallel()
			self, other := listenLocal(t), listenLocal(t)
			ours := sharing("a secret")
			members := []quorum.Member{
				{ID: 1, Addrs: []string{self.Addr().String()}}, {ID: 2, Addrs: []string{other.Addr().String()}}, {ID: 3},
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			decided := make(chan error, 1)
			go func() {
				_, err := Discover(ctx, 1, 1, members, self, sharing("a secret"), slog.New(slog.DiscardHandler))
				decided <- err
			}()
			answered := answerJoins(ctx, other, ours, joinReplied{state: joinEmpty, cluster: 7})
			if known {
				asker := newTransport(2, 0, sharing("a secret"), slog.New(slog.DiscardHandler))
				defer asker.cancel()
				for state := joinWait; state != joinEmpty; { // it has to ask its peers first
					r, err := asker.askOne(ctx, members[0])
					if err != nil {
						t.Fatal(err)
					}
					state = r.state
				}
				for len(answered) > 0 {
					<-answered
				}
			}
			for range 5 { // each is a question of the empty server
				select {
				case <-answered:
				case err := <-decided:
					if !known {
						t.Fatalf("it began beside a server that may have lost sight of it: %v", err)
					}
					return
				case <-time.After(patience):
					t.Fatal("the empty server asks no more")
				}
			}
			if known {
				t.Fatal("it doesn't begin with a server that knew it to be empty")
			}
		})
	}
}

// answerJoins answers who asks on l how to begin, and tells of each.
func answerJoins(ctx context.Context, l net.Listener, ours Secure, reply joinReplied) chan struct{} {
	answered := make(chan struct{}, 1000)
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			readVersion(c)
			over, _, err := ours.Keys.acceptProof(c)
			if err != nil {
				c.Close() // it asks itself who it is
				continue
			}
			readHello(over)
			writeAnswer(over, "")
			over.Write(reply.append(nil))
			c.Close()
			select {
			case answered <- struct{}{}:
			case <-ctx.Done():
			}
		}
	}()
	return answered
}

// TestEmptyServerTellsOfEnsemble asks an empty server how to begin that knows, or may
// come to know, of an ensemble: it must not be taken for one to begin with, even when
// the peer that it knows it from is down. Its configuration can name servers that the
// asker's doesn't.
func TestEmptyServerTellsOfEnsemble(t *testing.T) {
	t.Parallel()
	self, other := listenLocal(t), listenLocal(t)
	members := []quorum.Member{
		{ID: 1, Addrs: []string{self.Addr().String()}}, {ID: 2, Addrs: []string{other.Addr().String()}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	over := make(chan struct{})
	go func() {
		Discover(ctx, 1, 1, members, self, sharing("a secret"), slog.New(slog.DiscardHandler))
		close(over)
	}()
	asker := newTransport(3, 0, sharing("a secret"), slog.New(slog.DiscardHandler))
	defer asker.cancel()
	var answered chan struct{}
	for i := range 24 {
		switch {
		case i == 10:
			answered = answerJoins(ctx, other, sharing("a secret"), joinReplied{state: joinWait, cluster: 7})
		case i > 10 && i < 20:
			<-answered
		case i == 20:
			other.Close()
		case i > 20:
			time.Sleep(2 * joinPause) // a round without the peer goes by
		}
		if r, err := asker.askOne(ctx, members[0]); err != nil || r.state != joinWait || r.cluster != 0 {
			t.Fatalf("question %d: the empty server answers state %d of cluster %d, %v", i, r.state, r.cluster, err)
		}
	}
	cancel()
	<-over
}

func listenLocal(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}
