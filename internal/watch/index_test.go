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
	if testing.Short() {
		t.Skip("in a run that isn't short: there is one goroutine")
	}
	const watches = 200_000
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
	if most := 7.0 * watches / chunkSize; n > most {
		t.Errorf("%d watches took %v allocations, at most %v are expected: by the chunk", watches, n, most)
	}
	for b := range table.paths.buckets {
		longest = max(longest, table.paths.chain(b))
	}
	if longest > 40 {
		t.Errorf("a bucket had %d elements, which move when it is halved", longest)
	}
	if table.paths.buckets != watches {
		t.Errorf("%d buckets for %d paths", table.paths.buckets, watches)
	}
	table.check(t)
}

// chain counts the elements of a bucket.
func (x *indexed[T]) chain(bucket uint32) (n int) {
	for r := *x.head(bucket); r != none; r = x.slab.at(r).next {
		n++
	}
	return n
}
