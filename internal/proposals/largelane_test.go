package proposals

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// laneLeast is the size of a large request here.
const laneLeast = 1000

func newLaneQueue(now *int64) *Queue {
	return New(Options{
		Now: func() int64 { return *now }, Dropped: func(int) {}, Settled: func(int64, int64) {}, LargeFrom: laneLeast,
	})
}

// takeRequests returns the requests of the next entry, as applied; nil if there is none.
func (p *Queue) takeRequests(t *testing.T) (requests []tree.Request) {
	t.Helper()
	b, _ := p.Take()
	if b == nil {
		return nil
	}
	records := tree.RecordsOf(b[HeadSize:])
	for q := (tree.Request{}); records.Next(&q); {
		p.Applied(&q, 0)
		q.Identities = slices.Clone(q.Identities)
		requests = append(requests, q)
	}
	if err := records.Err(); err != nil {
		t.Fatal(err)
	}
	return requests
}

// TestLargeRequestsTakeTurns: however many large requests wait, another connection's small request is in the next entry
// but one, and the large ones go on meanwhile.
func TestLargeRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	p := newLaneQueue(new(int64))
	for seq := range int64(10) {
		p.AddRecords(tree.AppendRecord(nil, &tree.Request{Cnx: 1, Seq: seq, Body: make([]byte, batchBytesAim)}))
	}
	var got []int64
	for seq := int64(1); len(got) < 20; seq++ {
		p.AddRecords(tree.AppendRecord(nil, &tree.Request{Cnx: 2, Seq: seq}))
		for range 2 {
			for _, q := range p.takeRequests(t) {
				got = append(got, q.Cnx)
			}
		}
	}
	for i := 2; i < len(got); i++ {
		if got[i] == got[i-1] {
			t.Fatalf("the connections' turns: %v", got)
		}
	}
}

// TestLargeLaneKeepsOrder adds requests of all sizes, several at once, and takes entries in between: each connection's
// come in its order, with its identities, and none is lost, unless its client is gone: then none comes.
func TestLargeLaneKeepsOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		p := newLaneQueue(new(int64))
		if seed%2 == 1 {
			p.largeFrom = 4 * batchBytesAim // only requests that come while much waits are large
		}
		const cnxs = 4
		var added, taken, waiting [cnxs]int64 // waiting: bytes
		gone := [cnxs]bool{}
		take := func() bool {
			all := p.takeRequests(t)
			for _, q := range all {
				if taken[q.Cnx]++; q.Seq != taken[q.Cnx] || gone[q.Cnx] || q.Identities[0].ID != fmt.Sprint(q.Cnx) {
					t.Fatalf("seed %d: request %d of connection %d with %v, gone: %t; want %d", seed, q.Seq, q.Cnx,
						q.Identities, gone[q.Cnx], taken[q.Cnx])
				}
				waiting[q.Cnx] -= SizeOf(&q)
			}
			return all != nil
		}
		for range 200 {
			switch n := r.IntN(20); {
			case n < 12:
				var records []byte
				last := int64(-1)
				for range 1 + r.IntN(4) {
					cnx := r.Int64N(cnxs)
					if gone[cnx] {
						continue
					}
					added[cnx]++
					size := []int{0, 100, laneLeast - 100, laneLeast, 3000, batchBytesAim / 4, batchBytesAim}[r.IntN(r.IntN(7)+1)]
					q := tree.Request{
						Op: jute.OpSetData, Cnx: cnx, Seq: added[cnx], Body: make([]byte, size),
						Identities: []jute.ID{{Scheme: "digest", ID: fmt.Sprint(cnx)}},
					}
					waiting[cnx] += SizeOf(&q)
					if last == cnx {
						records = tree.AppendNextRecord(records, &q)
					} else {
						records = tree.AppendRecord(records, &q)
					}
					last = cnx
				}
				p.AddRecords(records)
			case n == 12 && r.IntN(10) == 0:
				cnx := r.Int64N(cnxs)
				if gone[cnx] {
					continue
				}
				gone[cnx] = true
				p.Gone(cnx, added[cnx]-taken[cnx], waiting[cnx], true)
			default:
				take()
			}
		}
		for take() {
		}
		for cnx := range added {
			if !gone[cnx] && taken[cnx] != added[cnx] {
				t.Fatalf("seed %d: %d of %d requests of connection %d came", seed, taken[cnx], added[cnx], cnx)
			}
		}
		if p.waiting.Load() || len(p.large.behind) > 0 || p.stale != nil {
			t.Fatalf("seed %d: something is left: %v, stale %v", seed, p.large.behind, p.stale)
		}
		if len(p.left.of) > 0 || p.left.total != (load{}) {
			t.Fatalf("seed %d: requests of gone connections count: %+v", seed, p.left)
		}
	}
}

// TestCrowdedRequestsTakeTurns: another client's small request comes soon, however many requests wait that are just not
// large.
func TestCrowdedRequestsTakeTurns(t *testing.T) {
	t.Parallel()
	p := New(Options{Now: func() int64 { return 0 }})
	crowd := tree.Request{Cnx: 1, Body: make([]byte, LargeRequestMin-1000)}
	for range 32 * batchBytesAim / LargeRequestMin {
		crowd.Seq++
		p.AddRecords(tree.AppendRecord(nil, &crowd))
	}
	p.AddRecords(tree.AppendRecord(nil, &tree.Request{Cnx: 2, Seq: 1}))
	for range 2 * (crowdedEntries + 1) {
		if all := p.takeRequests(t); slices.ContainsFunc(all, func(q tree.Request) bool { return q.Cnx == 2 }) {
			return
		}
	}
	t.Errorf("%d entries are taken before it", 2*(crowdedEntries+1))
}

// TestLargeInFlightAreBounded: large requests are taken up to a bound, and small ones still; more once some are
// applied, or if nothing was applied for long, or if the leader changes.
func TestLargeInFlightAreBounded(t *testing.T) {
	t.Parallel()
	now := int64(0)
	p := newLaneQueue(&now)
	large := tree.Request{Cnx: 1, Body: make([]byte, batchBytesAim*3/4)} // two don't fit in an entry
	const bound = largeInFlightMax/(batchBytesAim*3/4) + 1
	for range 5 * bound {
		large.Seq++
		p.AddRecords(tree.AppendRecord(nil, &large))
	}
	take := func(want int, when string) {
		t.Helper()
		n := 0
		for b, _ := p.Take(); b != nil; b, _ = p.Take() {
			n++
		}
		if n != want {
			t.Errorf("%d entries are taken %s, want %d", n, when, want)
		}
	}
	take(bound, "at once")
	p.AddRecords(tree.AppendRecord(nil, &tree.Request{Cnx: 1, Seq: large.Seq + 1}))
	p.AddRecords(tree.AppendRecord(nil, &tree.Request{Cnx: 2}))
	take(1, "of small requests")
	for range 2 {
		p.Applied(&large, now)
		p.Applied(&tree.Request{Cnx: 3, Body: large.Body}, now)
	}
	take(2, "when two are applied")
	now += largeInFlightPatience - 1
	take(0, "while the leader may yet come to it")
	now++
	take(bound, "when nothing was applied for long")
	p.Clear()
	large.Seq++
	p.AddRecords(tree.AppendRecord(nil, &large))
	take(1, "under another leader")
	if p.Applied(&large, now); p.counts.Load() || len(p.inFlight.of) > 0 {
		t.Errorf("%v is left", p.inFlight)
	}
}

// TestForwardedAreBounded: a follower forwards requests up to a bound, and those of AddFirst still; more once some are
// applied, or came with a snapshot, or if nothing was applied for very long, or if the leader changes.
func TestForwardedAreBounded(t *testing.T) {
	t.Parallel()
	now := int64(0)
	small := tree.Request{Cnx: 1, Body: make([]byte, 100), Identities: []jute.ID{{Scheme: "digest", ID: "me:x"}}}
	size := int(SizeOf(&small))
	const bound = 5
	p := New(Options{Now: func() int64 { return now }, Dropped: func(int) {}, Forwarded: bound*size - 1})
	forward := func(want int, when string) {
		t.Helper()
		n := 0
		for {
			if n < 4*bound {
				p.AddRecords(tree.AppendRecord(nil, &small))
			}
			if b, _ := p.Forward(); b == nil {
				break
			}
			n++
		}
		if n != want || p.Forwarded() != int64(bound*size) {
			t.Errorf("%d entries are forwarded %s, and %d bytes count; want %d and %d", n, when, p.Forwarded(), want, bound*size)
		}
		for b, _ := p.Take(); b != nil; b, _ = p.Take() { // so that each entry has one request
		}
	}
	forward(bound, "at once")
	p.AddRecords(tree.AppendRecord(nil, &small))
	p.AddFirst(tree.AppendRecord(nil, &tree.Request{Cnx: 2}))
	if b, _ := p.Forward(); len(b) != HeadSize+tree.RecordSize(&tree.Request{}) {
		t.Errorf("%d bytes are forwarded before all others, want one small request", len(b))
	}
	p.Applied(&tree.Request{Cnx: 2}, now)
	p.AddFirst(tree.AppendRecord(nil, &tree.Request{Cnx: 4}))
	p.Gone(4, 0, 0, true)
	if b, _ := p.Forward(); b != nil {
		t.Errorf("%d bytes are forwarded in place of a request whose client is gone", len(b))
	}
	p.Applied(&tree.Request{Cnx: 3, Body: small.Body}, now)
	forward(0, "when another server's requests are applied")
	p.Applied(&small, now)
	p.Applied(&small, now)
	forward(2, "when two are applied")
	now += forwardedPatience - 1
	forward(0, "while the leader may yet come to them")
	now++
	forward(bound, "when nothing was applied for very long")
	p.ForgetTaken()
	forward(bound, "after a snapshot")
	p.Clear()
	forward(bound, "under another leader")
	for range bound {
		p.Applied(&small, now)
	}
	if p.Forwarded() != 0 || len(p.forwarded.of) > 0 {
		t.Errorf("%v is left", p.forwarded)
	}
}
