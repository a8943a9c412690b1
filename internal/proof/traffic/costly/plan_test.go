package costly

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestPlans: every plan that a search makes can be written and read, and encodes the same requests each time, each of
// which fits into the default jute.maxbuffer.
func TestPlans(t *testing.T) {
	dice := rand.New(rand.NewPCG(1, 0))
	p := Plan{randomStep(dice)}
	for range 300 {
		p = p.changed(dice)
		if len(p) == 0 || len(p) > stepsMax {
			t.Fatalf("a plan of %d steps", len(p))
		}
		again, err := ParsePlan(p.String())
		if err != nil || !reflect.DeepEqual(p, again) {
			t.Fatalf("%s is read as %s: %v", p, again, err)
		}
		var a, b Encoder
		s := p[dice.IntN(len(p))]
		out := a.Append(nil, &s)
		if !bytes.Equal(out, b.Append(nil, &s)) {
			t.Fatalf("%v differs from time to time", s)
		}
		for r := bytes.NewReader(out); r.Len() > 0; {
			if _, err := jute.ReadFrame(r, nil, 1<<20-1); err != nil {
				t.Fatalf("%v: %v", s, err)
			}
		}
	}
	if len(kinds) != limitsOfStep.Kind {
		t.Errorf("%d kinds of steps, of which %d are made", len(kinds), limitsOfStep.Kind)
	}
	for _, line := range []string{"", "0 0 0", "0 99 0 0 0 0 0", "-1 0 0 0 0 0 0", "2 0 0 0 0 0 0"} {
		if p, err := ParsePlan(line); err == nil {
			t.Errorf("%q is read as %v", line, p)
		}
	}
}

// TestSearchLearns: a search finds the plans that cost most far sooner than chance would.
func TestSearchLearns(t *testing.T) {
	cost := func(p Plan) float64 { // many operations, far down, of one kind
		most := 0
		for _, s := range p {
			if s.Kind == 3 {
				most = max(most, s.Count*s.Depth)
			}
		}
		return float64(most)
	}
	s, dice := NewSearch(7, 1), rand.New(rand.NewPCG(7, 1))
	chance := 0.0
	for range 2000 {
		p := s.Next()
		s.Learn(Found{p, []float64{cost(p)}})
		chance = max(chance, cost(Plan{randomStep(dice), randomStep(dice), randomStep(dice)}))
	}
	f, ok := s.Worst(0)
	most := float64((limitsOfStep.Count - 1) * (limitsOfStep.Depth - 1))
	if !ok || f.Costs[0] < most*9/10 || f.Costs[0] <= chance {
		t.Errorf("the worst plan costs %v, by chance %v; %v are possible", f.Costs, chance, most)
	}
	if !s.Wants(0, f.Costs[0]+1) || s.Wants(0, 0) {
		t.Error("a search wants what costs nothing, or doesn't want more")
	}
}
