package watch

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unsafe"
)

func aliasing(b []byte) string { return unsafe.String(&b[0], len(b)) }

func BenchmarkTriggerMiss(b *testing.B) {
	for _, recursive := range []bool{false, true} {
		b.Run(fmt.Sprintf("recursive=%v", recursive), func(b *testing.B) {
			table := New()
			for w := range int64(10_000) {
				table.Add(w, fmt.Sprintf("/service/%d", w), Data)
			}
			if recursive {
				table.Add(1, "/elsewhere", Recursive)
			}
			b.ReportAllocs()
			for b.Loop() {
				table.Trigger(nil, changed, "/application/lock/node")
			}
		})
	}
}

// BenchmarkTriggerDeep is the change of a znode at depth 990 that a recursive watch on the root sees: of another
// child of one parent each time, and of children of more parents than are remembered.
func BenchmarkTriggerDeep(b *testing.B) {
	for _, parents := range []int{1, 100} {
		b.Run(fmt.Sprintf("parents=%d", parents), func(b *testing.B) {
			table := New()
			table.Add(1, "/", Recursive)
			paths := make([]string, parents)
			for i := range paths {
				paths[i] = fmt.Sprintf("/%d%s", i, strings.Repeat("/d", 990))
			}
			var dst []int64
			b.ReportAllocs()
			for n := 0; b.Loop(); n++ {
				dst = table.Trigger(dst[:0], changed, paths[n%parents])
			}
		})
	}
}

// BenchmarkTrigger arms and fires a watch of n connections on one path.
func BenchmarkTrigger(b *testing.B) {
	for _, kind := range []Kind{Data, Persistent} {
		for _, n := range []int{1, 500, 10_000} {
			b.Run(fmt.Sprintf("kind=%d/watchers=%d", kind, n), func(b *testing.B) {
				table := New()
				var dst []int64
				b.ReportAllocs()
				for b.Loop() {
					for w := range int64(n) {
						table.Add(w, "/service/leader", kind)
					}
					dst = table.Trigger(dst[:0], changed, "/service/leader")
				}
				if len(dst) != n {
					b.Fatalf("%d are notified", len(dst))
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(n), "ns/watch")
			})
		}
	}
}

// BenchmarkMemory reports the heap that armed watches take, with paths of about
// 40 bytes: many connections on ten paths each, and every watch on its own path.
func BenchmarkMemory(b *testing.B) {
	for _, tc := range []struct {
		name            string
		watchers, paths int
		shared          bool
	}{
		{"100000 watchers, 10 shared paths each", 100_000, 10, true},
		{"100000 watchers, 10 own paths each", 100_000, 10, false},
		{"1000 watchers, 5000 own paths each", 1000, 5000, false},
	} {
		b.Run(tc.name, func(b *testing.B) {
			for b.Loop() {
				before := heap()
				table := New()
				for w := range int64(tc.watchers) {
					for p := range tc.paths {
						owner := w
						if tc.shared {
							owner = w % 1000
						}
						table.Add(w, fmt.Sprintf("/applications/service-%07d/node-%07d", owner, p), Data)
					}
				}
				used := float64(heap() - before)
				b.ReportMetric(used/float64(table.Size()), "B/watch")
				b.ReportMetric(used/(1<<20), "MiB")
				runtime.KeepAlive(table)
			}
		})
	}
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
