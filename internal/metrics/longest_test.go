package metrics

import "testing"

// TestLongest: the longest time counts until the end of the window after its own.
func TestLongest(t *testing.T) {
	var h Longest
	at := 5 * LongestWindow
	for _, c := range []struct{ end, took, want int64 }{
		{at + 10, 10, 10}, {at + 20, 30, 30}, {at + 30, 20, 30},
		{at + LongestWindow, 5, 30}, {at + LongestWindow + 1, 7, 30},
		{at + 2*LongestWindow, 1, 7}, {at + 9*LongestWindow, 2, 2},
	} {
		h.Note(c.end-c.took, c.end)
		if got := h.At(c.end); got != c.want {
			t.Errorf("after a hold of %d until %d the longest is %d, want %d", c.took, c.end, got, c.want)
		}
	}
	h = Longest{}
	h.Note(30, 60)
	h.Note(LongestWindow-5, LongestWindow)
	if got := h.At(2 * LongestWindow); got != 5 {
		t.Errorf("of holds of 30 and 5, the second is in the window before: %d is the longest", got)
	}
	if got := h.At(at + 20*LongestWindow); got != 0 {
		t.Errorf("much later the longest is %d", got)
	}
}
