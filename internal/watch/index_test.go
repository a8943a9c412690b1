package watch

import (
	"fmt"
	"reflect"
	"testing"
)

// TestNoPointers: the garbage collector has nothing to look at in a table, however many
// watches there are.
func TestNoPointers(t *testing.T) {
	for _, v := range []any{element[watchedPath]{}, element[record]{}, watcher{}, piece{}} {
		if at := pointerIn(reflect.TypeOf(v)); at != "" {
			t.Errorf("%T has a pointer, %s", v, at)
		}
	}
}

// pointerIn returns the field of a type that is a pointer, "" if there is none.
func pointerIn(typ reflect.Type) string {
	switch k := typ.Kind(); k {
	case reflect.Struct:
		for i := range typ.NumField() {
			if at := pointerIn(typ.Field(i).Type); at != "" {
				return typ.Field(i).Name + "." + at
			}
		}
		return ""
	case reflect.Array:
		return pointerIn(typ.Elem())
	default:
		if k <= reflect.Complex128 {
			return ""
		}
		return k.String()
	}
}

// TestGrowsBySteps: no watch waits while a table grows. What comes with one watch is at most
// the elements of one bucket, and memory comes by the chunk.
func TestGrowsBySteps(t *testing.T) {
	watches := 200_000
	if testing.Short() {
		watches = 20_000
	}
	paths := make([]string, watches)
	for i := range paths {
		paths[i] = fmt.Sprintf("/a/path/longer/than/what/stands/beside/its/lists/%d", i)
	}
	table := New()
	longest := 0
	n := testing.AllocsPerRun(1, func() {
		table = New()
		for i, p := range paths {
			table.Add(int64(i%10), p, Data)
			if b := table.paths.buckets - 1; i%97 == 0 {
				longest = max(longest, table.paths.chain(b))
			}
		}
	})
	if most := 7*float64(watches)/chunkSize + 30; n > most {
		t.Errorf("%d watches took %v allocations, at most %v are expected: by the chunk", watches, n, most)
	}
	for b := range table.paths.buckets {
		longest = max(longest, table.paths.chain(b))
	}
	if longest > 40 {
		t.Errorf("a bucket had %d elements, which move when it is halved", longest)
	}
	if int(table.paths.buckets) != watches {
		t.Errorf("%d buckets for %d paths", table.paths.buckets, watches)
	}
	table.check(t)
}

// TestShrinksBySteps: no watch that goes waits while a table shrinks: it gives back a few buckets, and none while it
// has no more than twice as many as elements, and a chunk. Afterwards it grows again.
func TestShrinksBySteps(t *testing.T) {
	const watches = 5 * chunkSize
	table := New()
	add := func() {
		for i := range watches {
			table.Add(1, fmt.Sprintf("/%d", i), Data)
		}
		table.check(t)
	}
	for _, left := range []int{5 * chunkSize / 4, 0, 0} {
		if add(); int(table.paths.buckets) != watches {
			t.Errorf("%d buckets for %d elements", table.paths.buckets, watches)
		}
		for table.paths.size > left {
			before := int(table.paths.buckets)
			table.RemoveSome(1, 1)
			most := shrinkSlack*table.paths.size + chunkSize
			want := max(min(before, most), before-shrinkSteps)
			if got := int(table.paths.buckets); got != want {
				t.Fatalf("%d elements: %d buckets after %d, want %d", table.paths.size, got, before, want)
			}
		}
		if most := shrinkSlack*left + chunkSize; int(table.paths.buckets) > most {
			t.Errorf("%d buckets for %d elements", table.paths.buckets, left)
		}
		table.check(t)
	}
	add()
}

// TestRecordsSpread: many watchers of one path, and many paths of one watcher, spread over the buckets, so that none of
// them looks through the others.
func TestRecordsSpread(t *testing.T) {
	const many = 3000
	table := New()
	for i := range int64(many) {
		table.Add(i, "/one", Data)
		table.Add(many, fmt.Sprintf("/%d", i), Data)
	}
	longest := 0
	for b := range table.records.buckets {
		longest = max(longest, table.records.chain(b))
	}
	if longest > 40 {
		t.Errorf("a bucket has %d of %d records", longest, table.records.size)
	}
}

// chain counts the elements of a bucket.
func (x *indexed[T]) chain(bucket uint32) (n int) {
	for r := *x.head(bucket); r != none; r = x.slab.at(r).next {
		n++
	}
	return n
}
