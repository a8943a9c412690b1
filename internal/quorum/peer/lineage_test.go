package peer

import (
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestLineagesInHellos: a server refuses a hello of another lineage than its own, for each kind of connection that
// carries what belongs to an ensemble. It accepts one that tells none, and tells none to a server that has none.
func TestLineagesInHellos(t *testing.T) {
	t.Parallel()
	for _, kind := range []byte{connMessages, connSnapshot, connMeet, connGuest, connPing, connJoin} {
		for _, test := range []struct{ own, theirs uint64 }{{0, 0}, {0, 5}, {5, 0}, {5, 5}, {5, 6}} {
			a, addr := running(t, 1, 7)
			a.setPeer(2, []string{"127.0.0.1:1"})
			a.lineage.Store(test.own)
			b := newTransport(2, 7, sharing("a secret"), slog.New(slog.DiscardHandler))
			b.lineage.Store(test.theirs)
			c, err := b.greet(t.Context(), addr, hello{kind, 7, 2, 1}, false)
			if err == nil {
				c.Close()
			}
			var refused *refusedError
			told := errors.As(err, &refused) &&
				strings.Contains(refused.reason, "has the lineage 0000000000000005, yours 0000000000000006")
			if want := test.own == 5 && test.theirs == 6 && byLineage(kind); told != want || !told && err != nil {
				t.Errorf("kind %d, lineage %d to one of %d: %v; want it refused: %t", kind, test.theirs, test.own, err, want)
			}
		}
	}
}

// TestLineagesOfConnectedServers: two servers that are connected, in both directions, before either knows its lineage
// go on if it turns out to be the same, and leave each other if not, whichever learns it first.
func TestLineagesOfConnectedServers(t *testing.T) {
	t.Parallel()
	for _, lineages := range [][2]uint64{{5, 5}, {5, 6}} {
		a, addrA := running(t, 1, 7)
		b, addrB := running(t, 2, 7)
		a.setPeer(2, []string{addrB})
		b.setPeer(1, []string{addrA})
		drained(t, a)
		drained(t, b)
		up := func() bool { return a.connected(2) && b.connected(1) }
		if !within(func() bool { return up() && hears(a, 2) && hears(b, 1) }) {
			t.Fatal("they don't connect")
		}
		before, from := dialled(a, 2), dialled(b, 1)
		a.learn(lineages[0])
		b.learn(lineages[1])
		if lineages[0] != lineages[1] {
			if !within(func() bool { return !a.connected(2) && !b.connected(1) }) {
				t.Errorf("lineages %v: they stay connected", lineages)
			}
			continue
		}
		// The notes that each has sent have arrived when the other has noted the lineage.
		if !within(func() bool { return toldBy(a, 2) == lineages[1] && toldBy(b, 1) == lineages[0] }) {
			t.Errorf("lineages %v: they tell each other nothing", lineages)
		}
		if !up() || dialled(a, 2) != before || dialled(b, 1) != from {
			t.Errorf("lineages %v: they leave each other", lineages)
		}
	}
}

// drained takes the events of a transport until it is closed.
func drained(t *testing.T, tr *transport) {
	t.Helper()
	go func() {
		for {
			select {
			case <-tr.events:
			case <-tr.ctx.Done():
				return
			}
		}
	}()
}

// hears reports whether a peer is connected to a transport.
func hears(tr *transport, from uint64) bool {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	return tr.reading[from].conn != nil
}

// dialled returns the connection to a peer.
func dialled(tr *transport, to uint64) any {
	r := tr.remote(to)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.conn
}

// toldBy returns the lineage that a peer has told on the connection to it.
func toldBy(tr *transport, from uint64) uint64 {
	r := tr.remote(from)
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.lineage
}

// TestKeptLineage: a Peer keeps the lineage that its state learns, knows it at the next start before the state does,
// and stops if the state turns out to be of another one. A file of another cluster counts for nothing.
func TestKeptLineage(t *testing.T) {
	t.Parallel()
	fs := storage.NewMemFS()
	open := func(lineage uint64) (p *Peer, failed chan error) {
		dir, err := storage.Open(storage.Options{
			FS: fs, Dir: "/data", ClusterID: 7, Space: storage.SpaceLimits{ReserveBytes: -1},
		})
		if err != nil {
			t.Fatal(err)
		}
		state := &list{}
		state.lineage.Store(lineage)
		p, failed = alone(t, dir, state, 5*time.Millisecond)
		p.Start()
		return p, failed
	}
	closed := func(p *Peer) {
		p.Close()
		if err := p.o.Dir.Close(); err != nil {
			t.Fatal(err)
		}
	}
	p, _ := open(0)
	if got := p.transport.lineage.Load(); got != 0 {
		t.Errorf("a new directory has the lineage %d", got)
	}
	p.o.State.(*list).lineage.Store(5)
	if !within(func() bool { return p.transport.lineage.Load() == 5 }) {
		t.Fatal("what the state has learned isn't known")
	}
	closed(p)
	p, _ = open(0)
	if got := p.transport.lineage.Load(); got != 5 {
		t.Errorf("at the next start the lineage is %d", got)
	}
	closed(p)
	p, failed := open(6)
	var other *storage.ClusterError
	if err := <-failed; !errors.As(err, &other) || other.Found != 5 || other.Wanted != 6 {
		t.Errorf("a log of another lineage than the file: %v", err)
	}
	if l, err := keptLineage.read(p.o.Dir, 8); l != 0 || err != nil {
		t.Errorf("by the file of another cluster the lineage is %d (%v)", l, err)
	}
	if err := p.o.Dir.Keep(keptLineage.name, []byte("cluster")); err != nil {
		t.Fatal(err)
	}
	var damage *storage.DamageError
	if _, err := keptLineage.read(p.o.Dir, 7); !errors.As(err, &damage) {
		t.Errorf("a damaged file: %v", err)
	}
	closed(p)
}
