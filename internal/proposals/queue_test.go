package proposals

import (
	"bytes"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestBatchesAreBounded queues far more than a batch holds, in all the ways there
// are, and finds every request again, in order, in batches below their bound.
func TestBatchesAreBounded(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short: there is one goroutine")
	}
	ids := []jute.ID{{Scheme: "digest", ID: "ann:hash"}}
	record := func(seq int64, size int) tree.Request {
		return tree.Request{Op: jute.OpSetData, Session: 1, Cnx: 1, Seq: seq, Identities: ids, Body: make([]byte, size)}
	}
	p := New(Options{Now: func() int64 { return 0 }})
	seq, largest := int64(0), 0
	add := func(sizes ...int) {
		var block []byte
		for _, size := range sizes {
			seq++
			q := record(seq, size)
			if len(block) > 0 && seq%3 > 0 {
				block = tree.AppendNextRecord(block, &q)
			} else {
				block = tree.AppendRecord(block, &q)
			}
			largest = max(largest, tree.RecordSize(&q))
		}
		p.AddRecords(block)
	}
	for range 20 {
		add(1000, 200_000, 0, 900_000, 1, 3<<20, 5)
	}
	add(bytesEach(40_000, 100)...)
	for range 3 {
		seq++
		q := record(seq, 2<<20)
		p.AddRecords(tree.AppendRecord(nil, &q))
	}
	next, batches := int64(1), 0
	for b, _ := p.Take(); b != nil; b, _ = p.Take() {
		batches++
		if len(b) >= batchBytesAim+largest {
			t.Fatalf("a batch of %d bytes; the largest request has %d", len(b), largest)
		}
		records := tree.RecordsOf(b[HeadSize:])
		for q := (tree.Request{}); records.Next(&q); next++ {
			p.Applied(&q, 0)
			if q.Seq != next || !slices.Equal(q.Identities, ids) || !bytes.Equal(q.Body, make([]byte, len(q.Body))) {
				t.Fatalf("request %d where %d belongs", q.Seq, next)
			}
		}
		if err := records.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if next != seq+1 || batches < 40 {
		t.Fatalf("%d of %d requests in %d batches", next-1, seq, batches)
	}
}

func bytesEach(n, size int) []int {
	sizes := make([]int, n)
	for i := range sizes {
		sizes[i] = size
	}
	return sizes
}

// TestGoneAreForgotten: with entries waiting all the time, clients that are gone are remembered no
// longer than one of their requests can be among them; records that counted on a dropped one for
// their identities have them.
func TestGoneAreForgotten(t *testing.T) {
	t.Parallel()
	goneAreForgotten(t, 2*batchBytesAim)
	goneAreForgotten(t, LargeRequestMin)
}

// goneAreForgotten adds an entry for a client that goes and one for a client that stays, and takes one.
func goneAreForgotten(t *testing.T, least int) {
	dropped := 0
	p := New(Options{Now: func() int64 { return 0 }, Dropped: func(n int) { dropped += n }, LargeFrom: least})
	ids := []jute.ID{{Scheme: "digest", ID: "ann:hash"}}
	add := func(cnx int64) {
		q := tree.Request{
			Op: jute.OpSetData, Session: 1, Cnx: cnx, Seq: 1, Identities: ids, Body: make([]byte, batchBytesAim/2),
		}
		block := tree.AppendRecord(nil, &q)
		q.Seq = 2
		p.AddRecords(tree.AppendNextRecord(block, &q))
	}
	taken := 0
	for cnx := int64(1); cnx <= 100; cnx++ {
		add(cnx)
		add(1000)
		if p.Gone(cnx, 0, 0, true); len(p.stale) > 3 || len(p.staleQ) > 3 {
			t.Fatalf("%d clients that are gone are remembered", len(p.stale))
		}
		if cnx == 1 {
			continue // so that something waits at all times
		}
		b, _ := p.Take()
		records := tree.RecordsOf(b[HeadSize:])
		for q := (tree.Request{}); records.Next(&q); taken++ {
			p.Applied(&q, 0)
			if q.Cnx != 1000 || len(q.Identities) != 1 {
				t.Fatalf("a request of connection %d with identities %v is taken", q.Cnx, q.Identities)
			}
		}
		if err := records.Err(); err != nil {
			t.Fatal(err)
		}
	}
	if taken == 0 || dropped == 0 {
		t.Errorf("%d requests taken, %d dropped", taken, dropped)
	}
}

// TestGoneCount: requests of gone clients count until they are applied, dropped or cleared, until a snapshot comes that
// may contain them, or until all are taken and none was applied for long.
func TestGoneCount(t *testing.T) {
	t.Parallel()
	now := int64(0)
	const small, large = 10, 2 * LargeRequestMin
	var requests, bytes int64 // that count
	p := New(Options{
		Now: func() int64 { return now }, Dropped: func(int) {},
		Settled: func(n, b int64) { requests, bytes = requests-n, bytes-b },
	})
	request := func(cnx int64, size int) *tree.Request {
		return &tree.Request{Op: jute.OpSetData, Cnx: cnx, Body: make([]byte, size)}
	}
	gone := func(cnx int64, drop bool, sizes ...int) {
		sum := int64(0)
		for _, size := range sizes {
			p.AddRecords(tree.AppendRecord(nil, request(cnx, size)))
			sum += SizeOf(request(1, size))
		}
		requests, bytes = requests+int64(len(sizes)), bytes+sum
		p.Gone(cnx, int64(len(sizes)), sum, drop)
	}
	counts := func(when string, sizes ...int) {
		t.Helper()
		want := int64(0)
		for _, size := range sizes {
			want += SizeOf(request(1, size))
		}
		if n, left := p.Left(); bytes != want || left != want || int(n) != len(sizes) || n != requests {
			t.Errorf("%s: %d requests of %d bytes count, of %d and %d, want %d of %d", when, requests, bytes, n, left,
				len(sizes), want)
		}
	}
	applied := func(cnx int64, size int) { p.Applied(request(cnx, size), now) }
	take := func() {
		for b, _ := p.Take(); b != nil; b, _ = p.Take() {
		}
	}
	gone(1, false, small, small, large)
	gone(2, true, small, large, large)
	gone(3, true)
	counts("at first", small, small, large, small, large, large)
	applied(4, small)
	now += leftPatience
	p.Forget(now)
	p.ForgetTaken()
	counts("while they wait", small, small, large, small, large, large)
	take()
	counts("once those of 2 are dropped", small, small, large)
	p.Applied(&tree.Request{Op: tree.OpEnter, Cnx: 1}, now)
	applied(1, small)
	counts("once a small one is applied", small, large)
	now += leftPatience - 1
	p.Forget(now)
	applied(1, small)
	counts("once two are", large)
	gone(5, false, small)
	now += leftPatience - 1
	p.Forget(now)
	counts("within the patience", large, small)
	now++
	p.Forget(now)
	counts("after it", small) // that of 5 isn't taken
	applied(1, large)
	take()
	applied(5, small)
	counts("once all are applied")
	if p.counts.Load() {
		t.Error("Applied still looks at each request")
	}
	gone(6, false, small)
	take()
	gone(7, false, small)
	p.ForgetTaken()
	counts("after a snapshot", small) // that of 7 isn't taken
	p.Clear()
	counts("under another leader")
}

// TestWaits: the wait of an entry is that of its oldest request.
func TestWaits(t *testing.T) {
	t.Parallel()
	now := int64(100)
	p := New(Options{Now: func() int64 { return now }})
	for _, gap := range []int64{0, 7} {
		p.AddRecords(make([]byte, 40))
		now += gap
		p.AddRecords(make([]byte, 40))
		now += 50
		if b, waited := p.Take(); b == nil || waited != gap+50 {
			t.Errorf("%d bytes waited %d ns, want %d", len(b), waited, gap+50)
		}
		now += 1000 // nothing waits
	}
	if b, waited := p.Take(); b != nil || waited != 0 {
		t.Errorf("%d bytes waited %d ns", len(b), waited)
	}
}

// TestMemory: the memory of all entries counts.
func TestMemory(t *testing.T) {
	t.Parallel()
	q := New(Options{})
	q.full = [][]byte{make([]byte, 0, 10), make([]byte, 0, 200)}
	q.cur, q.first = make([]byte, 0, 3000), make([]byte, 0, 40_000)
	q.large.entries = []largeEntry{{b: make([]byte, 0, 500_000)}}
	if n := q.Memory(); n != 543_210 {
		t.Errorf("proposals of 543,210 bytes are %d", n)
	}
}
