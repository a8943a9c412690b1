package replica

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
	o := proposals{now: func() int64 { return 0 }, largeFrom: LargeRequestMin}
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
		o.addRecords(block)
	}
	for range 20 {
		add(1000, 200_000, 0, 900_000, 1, 3<<20, 5)
	}
	add(bytesEach(40_000, 100)...)
	for range 3 {
		seq++
		q := record(seq, 2<<20)
		o.addRecords(tree.AppendRecord(nil, &q))
	}
	next, batches := int64(1), 0
	for b, _ := o.take(); b != nil; b, _ = o.take() {
		batches++
		if len(b) >= batchBytesAim+largest {
			t.Fatalf("a batch of %d bytes; the largest request has %d", len(b), largest)
		}
		records := tree.RecordsOf(b[headSize:])
		for q := (tree.Request{}); records.Next(&q); next++ {
			o.applied(&q, 0)
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
