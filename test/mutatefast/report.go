package main

import (
	"fmt"
	"slices"
)

// figures counts the results for the mutants of a package.
type figures struct {
	killed, spun, late, survived, equivalent, notRun int // spun are killed; late are neither killed nor survivors
}

func (r *report) figures() (f figures, survivors []*mutant, wrong []string) {
	for _, m := range r.chosen {
		e, ran := r.ended[m]
		marked := r.marks[m.mark()] != "" || r.marks[m.whole()] != "" && !e.noticed()
		switch {
		case !ran:
			f.notRun++
		case marked && e.noticed():
			wrong = append(wrong, "a test kills what equivalent.txt says is equivalent: "+line(m))
		case marked:
			f.equivalent++
		case e.late:
			f.late++
		case e.noticed():
			f.killed++
			if e.spun {
				f.spun++
			}
		default:
			f.survived++
			survivors = append(survivors, m)
		}
	}
	slices.SortFunc(survivors, func(a, b *mutant) int { return a.id - b.id })
	return f, survivors, wrong
}

// percent is how many of the mutants that a test reaches and that aren't equivalent were killed. One that timed out
// wasn't.
func (f figures) percent() float64 {
	all := f.killed + f.late + f.survived
	if all == 0 {
		return 100
	}
	return 100 * float64(f.killed) / float64(all)
}

// timedOut returns the mutants of which only the clock has ended the tests, in order.
func (r *report) timedOut() []*mutant {
	list := slices.DeleteFunc(slices.Clone(r.chosen), func(m *mutant) bool { return !r.ended[m].late })
	slices.SortFunc(list, func(a, b *mutant) int { return a.id - b.id })
	return list
}

// rowTitles are those of the table with a row for each package.
const rowTitles = `| package | mutants | reached by no test | run | killed | of these in circles | timed out | survived | equivalent | killed, percent |
|---|---|---|---|---|---|---|---|---|---|`

func (r *report) row() string {
	f, _, _ := r.figures()
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %d | %.1f |", r.pkg.name(), r.all, len(r.unreached),
		len(r.ended), f.killed, f.spun, f.late, f.survived, f.equivalent, f.percent())
}

// print lists the survivors, and returns the faults.
func (r *report) print() (wrong []string) {
	f, survivors, wrong := r.figures()
	for _, t := range r.tests {
		if t.failed {
			fmt.Printf("%s: %s fails without a mutant and is left out\n", r.pkg.name(), t.name)
		}
	}
	if *verbose {
		for _, m := range r.unreached {
			fmt.Printf("unreached\t%s\n", line(m))
		}
	}
	for _, m := range r.timedOut() {
		fmt.Printf("timed out\t%s\n", line(m))
	}
	for _, m := range survivors {
		fmt.Printf("survived\t%s\n", line(m))
	}
	fmt.Printf("%s: %d mutants (%d more don't compile), of which %d are reached by no test; %d ran in %.0f s, %d didn't; "+
		"%d killed (%d in circles), %d timed out by the clock, %d survived\n",
		r.pkg.name(), r.all, r.refused, len(r.unreached), len(r.ended), r.took.Seconds(), f.notRun,
		f.killed, f.spun, f.late, f.survived)
	if f.percent() < *least {
		wrong = append(wrong, fmt.Sprintf("%s: %.1f %% were killed; -least says %.1f %%", r.pkg.name(), f.percent(), *least))
	}
	return wrong
}
