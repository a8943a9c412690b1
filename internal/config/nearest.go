package config

import (
	"cmp"
	"slices"
	"strings"
)

// nearestMax is how many edits away a known name is still offered: a slip or two, not another word.
const nearestMax = 3

// offeredMax is how many names Nearest offers.
const offeredMax = 3

// nearestLength bounds the names compared; no known key is longer, and the comparison is quadratic.
const nearestLength = 80

// nearest returns the known name closest to an unknown one, ignoring case, or "" when none is near. Among equally
// close names the first in table order wins.
func nearest(unknown string, known []string) string {
	if len(unknown) > nearestLength {
		return ""
	}
	best, bestDistance := "", min(nearestMax, len(unknown)/3)+1
	for _, name := range known {
		if apart := len(unknown) - len(name); apart >= bestDistance || -apart >= bestDistance {
			continue
		}
		if d := editDistance(strings.ToLower(unknown), strings.ToLower(name)); d < bestDistance {
			best, bestDistance = name, d
		}
	}
	return best
}

// Nearest returns those of names that a mistyped one may have meant, the nearest first: three at most, each once.
func Nearest(name string, names []string) []string {
	if len(name) > nearestLength {
		return nil
	}
	limit := max(1, len(name)/3)
	distance := func(other string) int { return editDistance(strings.ToLower(name), strings.ToLower(other)) }
	near := slices.DeleteFunc(slices.Clone(names), func(other string) bool { return distance(other) > limit })
	slices.SortStableFunc(near, func(a, b string) int { return cmp.Compare(distance(a), distance(b)) })
	near = slices.Compact(near)
	return near[:min(len(near), offeredMax)]
}

// editDistance counts inserted, deleted, replaced and swapped neighbouring bytes between a and b.
func editDistance(a, b string) int {
	before, last, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := last[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, last[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, last, row = last, row, before
	}
	return last[len(b)]
}
