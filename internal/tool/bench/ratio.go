package bench

import (
	"fmt"
	"slices"
)

// spread summarizes one figure over several rounds.
type spread struct {
	median, min, max float64
	rounds           int
}

// newSpread summarizes values. The median of an even number of them is the mean of the middle two. No values give the
// zero spread.
func newSpread(values []float64) spread {
	if len(values) == 0 {
		return spread{}
	}
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{(v[(n-1)/2] + v[n/2]) / 2, v[0], v[n-1], n}
}

// text returns the median, with the minimum and maximum if there are several rounds.
func (s spread) text(format func(float64) string, unit string) string {
	switch {
	case s.rounds == 0:
		return "–"
	case s.rounds == 1:
		return format(s.median) + unit
	}
	return fmt.Sprintf("%s%s (%s–%s)", format(s.median), unit, format(s.min), format(s.max))
}

// outcome has all results of one profile: by server, then by round.
type outcome struct {
	profile profile
	results [][]result // [server][round]; a failed or left out trial has Failed set
}

// values returns a server's figure in every round that has it.
func (o *outcome) values(server int, figure string) (v []float64) {
	for i := range o.results[server] {
		r := &o.results[server][i]
		if f, ok := r.figure(figure); ok && r.Failed == "" {
			v = append(v, f)
		}
	}
	return v
}

// ratios divides server a's figure by server b's in each round: disturbances of the machine in a round affect both.
func (o *outcome) ratios(a, b int, figure string) (v []float64) {
	for i := range min(len(o.results[a]), len(o.results[b])) {
		ra, rb := &o.results[a][i], &o.results[b][i]
		fa, okA := ra.figure(figure)
		fb, okB := rb.figure(figure)
		if okA && okB && fb != 0 && ra.Failed == "" && rb.Failed == "" {
			v = append(v, fa/fb)
		}
	}
	return v
}

// comparisonTable returns a table with a row per profile and figure: each
// server's median, and the ratio of every two servers.
func comparisonTable(names []string, outcomes []outcome) *table {
	t := &table{header: []string{"profile", "figure"}, left: map[int]bool{1: true}}
	t.header = append(t.header, names...)
	for a := range names {
		for b := a + 1; b < len(names); b++ {
			t.header = append(t.header, names[a]+" / "+names[b])
		}
	}
	for _, o := range outcomes {
		for i, figure := range o.profile.figures {
			title := ""
			if i == 0 {
				title = o.profile.name
			}
			row := plain(title, figure)
			for s := range names {
				row = append(row, cell{text: newSpread(o.values(s, figure)).text(number, "")})
			}
			for a := range names {
				for b := a + 1; b < len(names); b++ {
					row = append(row, cell{newSpread(o.ratios(a, b, figure)).text(ratioNumber, "x"), colorBold})
				}
			}
			t.add(row...)
		}
	}
	return t
}

// ratioNumber formats a ratio with about three digits.
func ratioNumber(v float64) string {
	switch {
	case v >= 100:
		return fmt.Sprintf("%.0f", v)
	case v >= 10:
		return fmt.Sprintf("%.1f", v)
	case v >= 0.1:
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.3f", v)
}

// troubles lists the trials that failed or had errors, one line each.
func troubles(outcomes []outcome) (lines []string) {
	for _, o := range outcomes {
		for _, rounds := range o.results {
			for i := range rounds {
				r := &rounds[i]
				if r.Failed != "" {
					lines = append(lines, fmt.Sprintf("%s on %s, round %d: %s", o.profile.name, r.Server, r.Round, r.Failed))
				} else if n := r.errorCount(); n > 0 {
					lines = append(lines,
						fmt.Sprintf("%s on %s, round %d: %d errors of %d operations: %v", o.profile.name, r.Server, r.Round, n, r.Ops,
							r.Errors))
				}
			}
		}
	}
	return lines
}
