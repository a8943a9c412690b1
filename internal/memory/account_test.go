package memory

import "testing"

// TestOrder: the steps are taken one after the other as memory fills up, and left a little below.
func TestOrder(t *testing.T) {
	t.Parallel()
	step := RefuseNone
	for _, at := range []struct {
		percent int64
		want    Step
	}{
		{84, RefuseNone}, {85, RefuseCostliest}, {84, RefuseCostliest}, {82, RefuseNone}, {95, RefuseGrowth},
		{94, RefuseGrowth},
		{100, RefuseSessions}, {99, RefuseSessions}, {97, RefuseGrowth}, {92, RefuseCostliest}, {10, RefuseNone},
		{130, RefuseSessions},
	} {
		if step = Next(step, &Use{Tree: at.percent * 10}, 1000); step != at.want {
			t.Fatalf("at %d %%: step %d, want %d", at.percent, step, at.want)
		}
	}
	if Next(RefuseNone, &Use{Tree: 1 << 40}, 0) != RefuseNone {
		t.Error("no ceiling, yet refused")
	}
	for _, ceiling := range []int64{0, 1000} {
		if Next(RefuseNone, &Use{Full: true}, ceiling) != RefuseGrowth {
			t.Errorf("a full tree may grow under a ceiling of %d", ceiling)
		}
	}
}
