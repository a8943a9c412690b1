package costly

import (
	"cmp"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
)

// keep is how many plans of each measure a Search changes further.
const keep = 8

// A Found is a plan and its cost.
type Found struct {
	Plan
	Costs []float64 // one for each measure
}

// A Search learns which plans cost most by some measures.
type Search struct {
	dice *rand.Rand
	best [][]Found // by measure, costliest first
}

// NewSearch returns a search by so many measures.
func NewSearch(seed uint64, measures int) *Search {
	return &Search{dice: rand.New(rand.NewPCG(seed, 0)), best: make([][]Found, measures)}
}

// Next returns a plan to try.
func (s *Search) Next() Plan {
	from := s.best[s.dice.IntN(len(s.best))]
	if len(from) == 0 || s.dice.IntN(20) == 0 {
		return Plan{randomStep(s.dice), randomStep(s.dice), randomStep(s.dice)}
	}
	return from[s.dice.IntN(len(from))].changed(s.dice)
}

// Wants reports whether a plan with such a cost would be kept for a measure.
func (s *Search) Wants(measure int, costs float64) bool {
	best := s.best[measure]
	return len(best) < keep || costs > best[keep-1].Costs[measure]
}

// Learn keeps a plan for each measure of which it costs enough.
func (s *Search) Learn(f Found) {
	for m, costs := range f.Costs {
		if !s.Wants(m, costs) {
			continue
		}
		best := append(s.best[m], f)
		slices.SortStableFunc(best, func(a, b Found) int { return cmp.Compare(b.Costs[m], a.Costs[m]) })
		s.best[m] = best[:min(len(best), keep)]
	}
}

// Worst returns the costliest plan by a measure; ok is false if there is none.
func (s *Search) Worst(measure int) (f Found, ok bool) {
	if len(s.best[measure]) == 0 {
		return Found{}, false
	}
	return s.best[measure][0], true
}

// ReadCorpus reads a file of plans, one a line. Empty lines and those that begin with # don't count.
func ReadCorpus(file string) (plans []Plan, err error) {
	corpus, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(corpus)) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		p, err := ParsePlan(line)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		plans = append(plans, p)
	}
	return plans, nil
}
