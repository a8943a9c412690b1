package main

import (
	"fmt"
	"slices"
)

// figures counts what became of the mutants of a package.
type figures struct {
	killed, late, survived, equivalent, notRun int
}

func (r *report) figures() (f figures, survivors []*mutant, wrong []string) {
	for _, m := range r.chosen {
		e, ran := r.ended[m]
		marked := r.marks[m.mark()] != "" || r.marks[m.whole()] != "" && !e.died()
		switch {
		case !ran:
			f.notRun++
		case marked && e.died():
			wrong = append(wrong, "a test kills what equivalent.txt says is equivalent: "+line(m))
		case marked:
			f.equivalent++
		case e.late:
			f.late++
			f.killed++
		case e.failed:
			f.killed++
		default:
			f.survived++
			survivors = append(survivors, m)
		}
	}
	slices.SortFunc(survivors, func(a, b *mutant) int { return a.id - b.id })
	return f, survivors, wrong
}

// percent is how many of the mutants that a test reaches and that aren't equivalent were killed.
func (f figures) percent() float64 {
	if f.killed+f.survived == 0 {
		return 100
	}
	return 100 * float64(f.killed) / float64(f.killed+f.survived)
}

// rowTitles are those of the table with a row for each package.
const rowTitles = `| package | mutants | reached by no test | run | killed | by the clock | survived | equivalent | killed, percent |
|---|---|---|---|---|---|---|---|---|`

func (r *report) row() string {
	f, _, _ := r.figures()
	return fmt.Sprintf("| %s | %d | %d | %d | %d | %d | %d | %d | %.1f |", r.pkg.name(), r.all, len(r.unreached),
		len(r.ended), f.killed, f.late, f.survived, f.equivalent, f.percent())
}

// print lists the survivors, and returns what is wrong.
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
	for _, m := range survivors {
		fmt.Printf("survived\t%s\n", line(m))
	}
	fmt.Printf("%s: %d mutants (%d more don't compile), of which %d are reached by no test; %d ran in %.0f s, %d didn't\n",
		r.pkg.name(), r.all, r.refused, len(r.unreached), len(r.ended), r.took.Seconds(), f.notRun)
	if f.percent() < *least {
		wrong = append(wrong, fmt.Sprintf("%s: %.1f %% were killed; -least says %.1f %%", r.pkg.name(), f.percent(), *least))
	}
	return wrong
}
