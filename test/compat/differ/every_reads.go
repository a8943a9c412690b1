package differ

import "fmt"

// fill returns multis that create n children of ~/many with flags, and that znode.
func (b *book) fill(conn, n, flags int) []step {
	steps := []step{b.step(conn, "create", "~/many", "", everybody, 0)}
	var subs []step
	for i := range n {
		subs = append(subs, b.step(conn, "create", fmt.Sprintf("~/many/%d", i), "", everybody, flags))
	}
	return append(steps, b.multi(conn, "multi", subs...))
}

// children asks about znodes with each number of children, with and without watches, and then changes the list.
func children(b *book) {
	for _, n := range sizeClasses {
		for _, watch := range []bool{false, true} {
			for _, word := range []string{"getChildren", "getChildren2"} {
				steps := append(b.fill(1, n, 0), b.step(0, word, "~/many", watch),
					b.step(0, "getAllChildrenNumber", "~/many"), b.step(0, "exists", "~/many", false),
					b.step(0, "delete", "~/many", -1), b.step(1, "create", "~/many/x", "", everybody, 0),
					b.step(1, "delete", "~/many/x", -1), b.step(0, word, "~/many", watch), b.step(1, "delete", "~/many/0", -1),
					b.step(0, "getAllChildrenNumber", "~"))
				b.script(fmt.Sprintf("%s of %d, watch %v", word, n, watch), steps...)
			}
		}
	}
}

// ephemerals asks for each number of ephemeral znodes, and ends their session under watches.
func ephemerals(b *book) {
	for _, n := range sizeClasses {
		steps := append(b.fill(0, n, 1), b.step(0, "getEphemerals", "~"), b.step(0, "getEphemerals", "~/many/1"),
			b.step(0, "getEphemerals", "~/old"), b.step(1, "getEphemerals", "~"), b.step(1, "exists", "~/many/0", true),
			b.step(1, "getChildren", "~/many", true), b.step(1, "addWatch", "~/many", 1), b.step(0, "closeSession"))
		b.script(fmt.Sprintf("%d, session closed", n), append(steps, b.step(1, "getChildren2", "~/many", false))...)
	}
}

// multiReads reads each number of times in one request, with and without failures.
func multiReads(b *book) {
	for _, n := range sizeClasses {
		var good, mixed []step
		for i := range n {
			good = append(good, b.step(0, "getData", "~/old", false))
			sub := b.step(0, "getChildren", []string{"~", "~/parent", "~/missing"}[i%3], false)
			mixed = append(mixed, sub)
		}
		b.script(fmt.Sprintf("%d reads", n), b.multi(0, "multiRead", good...), b.multi(0, "multiRead", mixed...))
	}
	for _, word := range words() {
		if word == "multi" || word == "multiRead" {
			continue
		}
		s := b.multi(0, "multiRead", b.step(0, "getData", "~/old", false), b.step(0, word, ordinary(word)...))
		s.kind.risky = true
		b.script("with "+word, append([]step{s}, b.looks()...)...)
	}
}
