package replica

import "testing"

// TestOutboxWaits: the wait of an entry is that of its oldest request.
func TestOutboxWaits(t *testing.T) {
	t.Parallel()
	now := int64(100)
	o := proposals{now: func() int64 { return now }}
	for _, gap := range []int64{0, 7} {
		o.addRecords(make([]byte, 40))
		now += gap
		o.addRecords(make([]byte, 40))
		now += 50
		if b, waited := o.take(); b == nil || waited != gap+50 {
			t.Errorf("%d bytes waited %d ns, want %d", len(b), waited, gap+50)
		}
		now += 1000 // nothing waits
	}
	if b, waited := o.take(); b != nil || waited != 0 {
		t.Errorf("%d bytes waited %d ns", len(b), waited)
	}
}
