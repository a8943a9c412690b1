package history

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// everyKind returns a history of n events and entries of every kind, whose fields are
// whatever a seed gives.
func everyKind(n int) *History {
	rng := rand.New(rand.NewPCG(7, 7))
	body := func() []byte { return fmt.Appendf(nil, "body %d", rng.IntN(1000)) }
	h := &History{WallStart: rng.Int64()}
	entries := [2][]Entry{}
	for i := range n {
		e := Event{Time: int64(i) * 1000, Conn: int32(rng.IntN(8)), Kind: Kind(i)%(kindEntry-1) + 1}
		switch e.Kind {
		case KindConnect:
			e.Zxid, e.Session, e.Num = rng.Int64(), -rng.Int64(), rng.Int32()
		case KindConnected:
			e.Session, e.Num = rng.Int64(), rng.Int32()
		case KindRequest:
			e.Xid, e.Num, e.Body = -rng.Int32(), rng.Int32(), body()
		case KindReply:
			e.Xid, e.Zxid, e.Num, e.Body = rng.Int32(), rng.Int64(), -rng.Int32(), body()
		case KindNotification, KindDump:
			e.Zxid, e.Body = rng.Int64(), body()
		case KindIdentity:
			e.Body = body()
		}
		h.Events = append(h.Events, e)
		entries[i%2] = append(entries[i%2], Entry{
			Zxid: rng.Int64(), Session: -rng.Int64(), Cnx: rng.Int64(), Seq: rng.Int64(), Time: rng.Int64(), Term: rng.Int64(),
			Digest: rng.Uint64(), Body: body(), Xid: rng.Int32(), Op: jute.Op(rng.Int32()), Err: jute.Code(-rng.Int32()),
			Applied: i%3 == 0,
		})
	}
	h.Servers = []ServerLog{{Server: 2, Entries: entries[0]}, {Server: 5, Entries: entries[1]}}
	return h
}

func bytesOf(t *testing.T, h *History) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestHistoryFileKeepsEverything(t *testing.T) {
	want := everyKind(100)
	got, err := Parse(bytesOf(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(want, got) {
		t.Errorf("read\n%+v\nwritten was\n%+v", got, want)
	}
}

func TestHistoryCutAnywhere(t *testing.T) {
	whole := bytesOf(t, everyKind(60))
	for n := headerSize; n < len(whole); n++ {
		h, err := Parse(whole[:n])
		if err != nil && !errors.Is(err, ErrCutShort) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if h == nil {
			t.Fatalf("%d bytes: what came before the cut is lost", n)
		}
	}
	if _, err := Parse(whole[:headerSize-1]); err == nil {
		t.Error("half a header passed for a history")
	}
}

func TestJournalTakesManyClients(t *testing.T) {
	var b bytes.Buffer
	j := NewJournal(&b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			conn := j.NewConn()
			for i := range 200 {
				j.Record(Event{Kind: KindRequest, Conn: conn, Xid: int32(i), Body: []byte{byte(i)}})
			}
		}()
	}
	wg.Wait()
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	next := map[int32]int32{}
	last := int64(0)
	for _, e := range h.Events {
		if e.Time < last || e.Xid != next[e.Conn] || e.Body[0] != byte(e.Xid) {
			t.Fatalf("event %+v after time %d, connection's next xid %d", e, last, next[e.Conn])
		}
		last = e.Time
		next[e.Conn]++
	}
	if len(h.Events) != 1600 {
		t.Errorf("%d events of 1600", len(h.Events))
	}
}

func TestMergeRenumbersConnections(t *testing.T) {
	a := &History{
		WallStart: 1000, Events: []Event{{Time: 5, Kind: KindDisconnect}, {Time: 9, Kind: KindDisconnect, Conn: 1}},
	}
	b := &History{WallStart: 1002, Events: []Event{{Time: 4, Kind: KindDisconnect}}}
	m := Merge(a, b)
	var got []Event
	got = append(got, m.Events...)
	want := []Event{
		{Time: 5, Kind: KindDisconnect}, {Time: 6, Kind: KindDisconnect, Conn: 2}, {Time: 9, Kind: KindDisconnect, Conn: 1},
	}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}
