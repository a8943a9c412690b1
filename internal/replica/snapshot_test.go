package replica

import "testing"

// TestSnapshotDue: after snapCount changes, if the log has half as many bytes as the last snapshot; after some bytes of
// log alone; once if asked for.
func TestSnapshotDue(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		since, log, last, room int64
		due                    bool
	}{
		{2, 1000, 1000, 0, false}, {3, 500, 1000, 0, true}, {3, 499, 1000, 0, false}, {4, 0, 0, 0, true},
		{0, 1 << 40, 0, 0, true}, {0, 1<<40 - 1, 0, 0, false},
		{0, 1 << 20, 0, 10 << 20, true}, {0, 1<<20 - 1, 0, 10 << 20, false},
		{0, 10 << 20, 40 << 20, 10 << 20, true}, {0, 10<<20 - 1, 40 << 20, 10 << 20, false},
		{0, snapshotBytesMin, 0, 1, true}, {0, snapshotBytesMin - 1, 0, 1, false},
	} {
		rule := &snapshots{count: 3, bytes: 1 << 40, since: of.since, last: of.last}
		rule.room.Store(of.room)
		if got := rule.SnapshotDue(of.log); got != of.due {
			t.Errorf("%+v: it is due: %t", of, got)
		}
		rule.RequestSnapshot()
		if asked, again := rule.SnapshotDue(0), rule.SnapshotDue(0); !asked || again && (of.log > 0 || of.since < 3) {
			t.Errorf("%+v: it was asked for, and is due: %t, and once more: %t", of, asked, again)
		}
	}
}
