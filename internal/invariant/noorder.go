//go:build invariants && !race

package invariant

func taking(Rank) {}

func released(Rank) {}
