package storage

import "testing"

// TestIncoming: a transfer that broke off goes on with the same snapshot, and begins anew with any other. A part stays
// while its rest doesn't fit.
func TestIncoming(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	d := mustOpen(t, smallOptions(fs, 1))
	var in Incoming
	defer func() { in.Keep(nil) }()
	for _, step := range []struct {
		index, term uint64
		size        int64
		want        int64 // offset to go on from; -1 if there is no room
	}{
		{5, 1, 100, 0}, {5, 1, 100, 10}, {6, 1, 100, 0}, {6, 2, 100, 0}, {6, 2, 101, 0}, {6, 2, 101, 10}, {6, 2, 1 << 40, -1},
		{6, 2, 101, 0}, // the part was of a snapshot of another size
	} {
		fs.Budget = 64 << 20
		p, err := in.Resume(d, step.index, step.term, step.size)
		if step.want < 0 {
			if !NoRoom(err) {
				t.Fatalf("%+v: %v", step, err)
			}
			continue
		}
		if err != nil || p.Offset() != step.want {
			t.Fatalf("%+v: %+v, %v", step, p, err)
		}
		if err := p.WriteRaw(make([]byte, 10)); err != nil {
			t.Fatal(err)
		}
		in.Keep(p)
	}
	fs.Budget = 1
	if _, err := in.Resume(d, 6, 2, 101); !NoRoom(err) {
		t.Errorf("on a full disk: %v", err)
	}
	fs.Budget = 64 << 20
	if p, err := in.Resume(d, 6, 2, 101); err != nil || p.Offset() != 10 {
		t.Errorf("after that: %+v, %v", p, err)
	} else {
		in.Keep(p)
	}
}
