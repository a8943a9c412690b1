package proposals

import "github.com/zooid-project/zooid/internal/tree"

// A largeLane holds proposals with large requests. Its entries take turns with the others: however many large requests
// wait, other clients' small ones wait for one entry of them, and for what is in flight (largeInFlight). The requests
// of a connection stay in order: a small one that follows a large one of its connection waits here as well, and an
// entry isn't taken before the small requests that were there when it came.
type largeLane struct {
	entries []largeEntry
	behind  map[int64]int // by connection: entries with requests of it
	took    int64         // number of entries taken
	lastN   int           // size of the entry taken last
	turn    bool          // small requests were taken last
}

// A largeEntry is a log entry, with room for its head.
type largeEntry struct {
	b     []byte
	after int64   // the number of the entry of small requests (Queue.took) that is taken before it
	cnxs  []int64 // the connections of its requests, maybe several times
}

// concerns reports whether some of the records may belong to the lane.
func (l *largeLane) concerns(records []byte, least int) bool {
	return len(records) >= least || len(l.entries) > 0
}

// split returns separately the records that belong to the lane: those of at least least bytes, and those that follow
// one on its connection.
func (l *largeLane) split(records []byte, least int) (small, large []byte) {
	is := map[int64]bool{} // by connection
	var belongs []bool     // by record
	var q tree.Request
	n := 0
	for batch := tree.RecordsOf(records); batch.Next(&q); {
		if l.behind[q.Cnx] > 0 || tree.RecordSize(&q) >= least {
			is[q.Cnx] = true
		}
		if belongs = append(belongs, is[q.Cnx]); is[q.Cnx] {
			n++
		}
	}
	switch n {
	case 0:
		return records, nil
	case len(belongs):
		return nil, records
	}
	return recordsWhere(records, belongs, false), recordsWhere(records, belongs, true)
}

// recordsWhere returns the records for which belongs has the value want.
func recordsWhere(records []byte, belongs []bool, want bool) []byte {
	i := -1
	some, _ := tree.WithoutRecords(records, func(*tree.Request) bool {
		i++
		return belongs[i] != want
	})
	return some
}

// add adds records to the newest entry, or to new ones. after is the number of the newest entry of small requests.
func (l *largeLane) add(records []byte, after int64) {
	for len(records) > 0 {
		var head []byte
		head, records = tree.CutRecords(records, batchBytesAim)
		l.append(head, after)
	}
}

func (l *largeLane) append(records []byte, after int64) {
	n := len(l.entries)
	if n == 0 || len(l.entries[n-1].b)+len(records) > batchBytesAim {
		b := make([]byte, 0, max(HeadSize+len(records), min(l.lastN, batchBytesAim)))
		l.entries = append(l.entries, largeEntry{b: AppendHead(b, 0, 0, 0)})
		n++
	}
	if l.behind == nil {
		l.behind = map[int64]int{}
	}
	e := &l.entries[n-1]
	e.b, e.after = append(e.b, records...), after
	var q tree.Request
	for batch := tree.RecordsOf(records); batch.Next(&q); {
		e.cnxs = append(e.cnxs, q.Cnx)
		l.behind[q.Cnx]++
	}
}

// comesNext reports whether an entry of the lane is to be taken next. took is the number of the entry of small requests
// that was taken last, and small says whether there are others.
func (l *largeLane) comesNext(took int64, small bool) bool {
	return len(l.entries) > 0 && l.entries[0].after <= took && (l.turn || !small)
}

// take removes the oldest entry.
func (l *largeLane) take() []byte {
	e := l.entries[0]
	l.entries[0] = largeEntry{}
	l.entries = l.entries[1:]
	for _, cnx := range e.cnxs {
		if l.behind[cnx]--; l.behind[cnx] == 0 {
			delete(l.behind, cnx)
		}
	}
	l.took++
	l.turn, l.lastN = false, len(e.b)
	return e.b
}
