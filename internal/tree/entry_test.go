package tree

import (
	"bytes"
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestRecordsAsBefore reads records that share the identities of the one before,
// whole and cut in two at each place.
func TestRecordsAsBefore(t *testing.T) {
	t.Parallel()
	var want []Request
	var records []byte
	for i, ids := range [][]jute.ID{
		identities[1], identities[1], identities[1], {}, {}, identities[2], identities[0], identities[0],
	} {
		q := Request{
			Op: jute.OpSetData, Session: 5, Cnx: 6, Seq: int64(i), Identities: ids, Body: bytes.Repeat([]byte{byte(i)}, i),
		}
		want = append(want, q)
		if i > 0 && fmt.Sprint(ids) == fmt.Sprint(want[i-1].Identities) {
			records = AppendNextRecord(records, &q)
		} else {
			records = AppendRecord(records, &q)
		}
	}
	read := func(what string, records []byte) []Request {
		t.Helper()
		var got []Request
		r := RecordsOf(records)
		for q := (Request{}); r.Next(&q); {
			got = append(got, q)
		}
		if r.Err() != nil {
			t.Fatalf("%s: %v", what, r.Err())
		}
		return got
	}
	if got := read("whole", records); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Fatalf("records are\n%v instead of\n%v", got, want)
	}
	cuts := map[int]bool{}
	for aim := range len(records) + 2 {
		what := fmt.Sprintf("cut at %d of %d", aim, len(records))
		head, rest := CutRecords(records, aim)
		if got := append(read(what, head), read(what, rest)...); fmt.Sprint(got) != fmt.Sprint(want) ||
			len(head) < min(aim, len(records)) {
			t.Fatalf("%s: records are\n%v instead of\n%v", what, got, want)
		}
		cuts[len(head)] = true
	}
	if len(cuts) != len(want) {
		t.Errorf("cut in %d places; there are %d records", len(cuts), len(want))
	}
	first := AppendNextRecord(AppendBatchHeader(nil, 1), &want[0])
	if err := New(Options{}).Apply(1, 1, first, nil); err == nil {
		t.Error("a batch is applied whose first record has no identities of its own")
	}
}
