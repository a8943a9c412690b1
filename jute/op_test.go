package jute

import "testing"

// TestOpTraits holds what is known of operations against their records.
func TestOpTraits(t *testing.T) {
	t.Parallel()
	for op := Op(-200); op < 200; op++ {
		row, known := ops[op]
		traits := row.traits
		for i, c := range []struct{ got, want bool }{
			{op.IsWrite(), traits&logged != 0}, {op.IsCreate(), traits&creates != 0},
			{op.HasPath(), traits&hasPath != 0}, {op.MayWatch(), traits&mayWatch != 0},
		} {
			if c.got != c.want || c.got && !known {
				t.Errorf("trait %d of %s: %t, want %t", i, op, c.got, c.want)
			}
		}
		if op.IsCreate() && !op.IsWrite() || (op.IsCreate() || op.MayWatch()) && !op.HasPath() {
			t.Errorf("%s has traits %b, which contradict each other", op, traits)
		}
	}
}
