package replica

import (
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// sent returns what goes to the leader, as text: operations and their connections.
func (s *localStage) sent() (list []string) {
	s.t.Helper()
	var q tree.Request
	for b := s.r.Forward(); len(b) > 0; b = s.r.Forward() {
		records := tree.RecordsOf(b)
		for records.Next(&q) {
			list = append(list, fmt.Sprintf("%v %d", q.Op, q.Cnx))
		}
		if err := records.Err(); err != nil {
			s.t.Fatal(err)
		}
	}
	return list
}

// TestRequestsOfTheGone: what a client has asked for is dropped if its connection ends before it
// is proposed, and counted; others' requests, what was proposed, and the end of a session with
// the writes ahead of it, are not.
func TestRequestsOfTheGone(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	var all [5]*Client
	for i := range all {
		all[i] = s.client(nil)
	}
	s.apply(s.forward()...)
	proposed, gone, stays, left, refused := all[0], all[1], all[2], all[3], all[4]
	s.write(proposed, "/proposed", jute.ModePersistent)
	batch := s.forward()
	if len(batch) != 1 {
		t.Fatalf("%d requests were forwarded, want 1", len(batch))
	}
	raw := pipeline{}
	create := func(b []byte, path string) []byte {
		return raw.request(b, jute.OpCreate, creating(path, nil, jute.ModePersistent))
	}
	take := func(c *Client, b []byte) {
		t.Helper()
		if used, err := s.receive(c, b); err != nil || used != len(b) {
			t.Fatalf("%d of %d bytes, %v", used, len(b), err)
		}
	}
	take(gone, raw.request(create(create(nil, "/a"), "/b"), jute.OpGetData, reading("/", true)))
	take(stays, create(create(nil, "/c"), "/d"))
	take(left, raw.request(create(nil, "/e"), jute.OpCloseSession, nil))
	take(gone, create(nil, "/f"))
	newcomer, mover := s.client(nil), s.client(refused)
	want := []string{
		fmt.Sprintf("create %d", stays.id), fmt.Sprintf("create %d", stays.id), fmt.Sprintf("create %d", left.id),
		fmt.Sprintf("closeSession %d", left.id),
	}
	for _, c := range []*Client{proposed, gone, left, newcomer, mover} {
		s.r.Disconnected(c)
	}
	if got := s.sent(); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("sent %q, want %q", got, want)
	}
	if n := s.r.meters.staleDropped.Value(); n != 6 { // three writes, one read, two connect requests
		t.Errorf("%d requests count as dropped, want 6", n)
	}
	s.apply(batch...)
	if n := s.nodes(); n != 1 {
		t.Errorf("%d znodes, want the one that was proposed", n)
	}
	if s.r.watches.table.Size() != 0 {
		t.Error("a read of a client that is gone was evaluated")
	}
	if n := s.r.unanswered.count(); n != 4 {
		t.Errorf("%d requests are unanswered, want those of the one that stays and of the one that closed its session", n)
	}
}

// TestWithoutRecords drops each subset of some records, of which most have the identities of the
// one before.
func TestWithoutRecords(t *testing.T) {
	t.Parallel()
	var records []byte
	for seq := range int64(6) {
		q := tree.Request{
			Op: jute.OpSetData, Session: 1, Cnx: 1, Seq: seq, Identities: []jute.ID{{Scheme: "digest", ID: fmt.Sprint(seq / 4)}},
			Body: []byte{1, 2, 3},
		}
		if seq%4 == 0 {
			records = tree.AppendRecord(records, &q)
		} else {
			records = tree.AppendNextRecord(records, &q)
		}
	}
	for subset := range 1 << 6 {
		left, dropped := tree.WithoutRecords(records, func(q *tree.Request) bool { return subset>>q.Seq&1 == 1 })
		r := tree.RecordsOf(left)
		n, next := 0, int64(0)
		for q := (tree.Request{}); r.Next(&q); n++ {
			for subset>>next&1 == 1 {
				next++
			}
			if q.Seq != next || len(q.Identities) != 1 || q.Identities[0].ID != fmt.Sprint(q.Seq/4) || len(q.Body) != 3 {
				t.Fatalf("without %06b: request %d with %v where %d belongs", subset, q.Seq, q.Identities, next)
			}
			next++
		}
		if r.Err() != nil || n+dropped != 6 {
			t.Fatalf("without %06b: %d left, %d dropped, %v", subset, n, dropped, r.Err())
		}
	}
}
