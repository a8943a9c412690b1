package replica

import "testing"

// TestFrameTime: how long an unfinished request may take, and how many of its bytes have moved.
func TestFrameTime(t *testing.T) {
	t.Parallel()
	var f frame
	for _, of := range []struct {
		rest  []byte
		fresh bool
		now   int64
		moved uint64
		by    int64
	}{
		{[]byte{0, 0, 0}, true, 5, 3, 5 + frameTimeMin},
		{[]byte{0, 1, 0, 0, 9}, false, 7, 5, 5 + frameTimeMin},
		{[]byte{0, 4, 0, 0, 9, 9}, true, 8, 11, 8 + 16e9},
		{[]byte{0, 4, 0, 0, 9, 9, 9}, false, 9, 12, 8 + 16e9},
		{nil, false, 10, 12, 0}, {nil, true, 10, 12, 0},
		{[]byte{0, 0}, false, 11, 14, 11 + frameTimeMin},
	} {
		f.NoteFrame(of.rest, of.fresh, of.now)
		if f.moved.Load() != of.moved || f.by.Load() != of.by {
			t.Errorf("%+v: %d bytes have moved, it has time until %d", of, f.moved.Load(), f.by.Load())
		}
		if late := f.isLate(of.by); late || of.by != 0 && !f.isLate(of.by+1) {
			t.Errorf("%+v: it is late at its time, or isn't after it", of)
		}
	}
	for _, of := range []struct {
		in      []byte
		arrived bool
	}{
		{[]byte{0, 0, 0}, false}, {[]byte{0, 0, 0, 2, 1}, false}, {[]byte{0, 0, 0, 2, 1, 1}, true},
		{[]byte{0, 0, 0, 0}, true},
	} {
		f.by.Store(5)
		if f.FrameArrived(of.in); (f.by.Load() == 0) != of.arrived {
			t.Errorf("% x is whole: %t", of.in, f.by.Load() == 0)
		}
	}
}
