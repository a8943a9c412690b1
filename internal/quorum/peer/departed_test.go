package peer

import (
	"log/slog"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// TestDepartureIsTold: a server that connects is told which entry has taken a life of it out, and nobody else's.
func TestDepartureIsTold(t *testing.T) {
	t.Parallel()
	quiet := slog.New(slog.DiscardHandler)
	l := listenLocal(t)
	at := quorum.Departure{Index: 21, Term: 2}
	teller := newTransport(1, 7, sharing("a secret"), quiet)
	defer teller.close()
	teller.standing = func() quorum.Status { return quorum.Status{Departed: map[uint64]quorum.Departure{3: at}} }
	teller.setPeer(2, []string{"127.0.0.1:1"})
	teller.setPeer(3, []string{"127.0.0.1:1"})
	teller.level = 2
	teller.listen(l)
	for _, id := range []uint64{2, 3} {
		tr := newTransport(id, 7, sharing("a secret"), quiet)
		defer tr.close()
		tr.setPeer(1, []string{l.Addr().String()})
		level, told := false, false
		for end := time.After(patience); !level || id == 3 && !told; {
			select {
			case e := <-tr.events:
				level = level || e.Kind == quorum.EventLevel
				if e.Kind != quorum.EventDeparted {
					continue
				}
				if told = true; id != 3 || e.From != 1 || string(e.Data) != string(at.Append(nil)) {
					t.Fatalf("server %d is told %x by server %d", id, e.Data, e.From)
				}
			case <-end:
				t.Fatalf("server %d hears the level: %t, its departure: %t", id, level, told)
			}
		}
	}
}
