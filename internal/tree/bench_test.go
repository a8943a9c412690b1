package tree

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// grown returns a tree with one session and n znodes of 100 bytes, a hundred to
// a directory, and their paths of about 25 bytes.
func grown(tb testing.TB, n int) (*Tree, []string) {
	t := New(Options{})
	paths := make([]string, 0, n)
	batch := AppendBatchHeader(nil, 1)
	batch = AppendRecord(batch,
		&Request{
			Op: jute.OpCreateSession, Session: 1, Cnx: 1, Body: jute.AppendBuffer(jute.AppendInt(nil, 1000), make([]byte, 16)),
		})
	seq, index := int64(0), uint64(0)
	flush := func() {
		index++
		err := t.Apply(1, index, batch, func(r *Result) {
			if r.Err != jute.OK {
				tb.Fatal(r.Err)
			}
		})
		if err != nil {
			tb.Fatal(err)
		}
		batch = AppendBatchHeader(batch[:0], int64(index))
	}
	create := func(path string) {
		seq++
		q := jute.CreateRequest{Path: path, Data: make([]byte, 100), ACL: jute.WorldACL(jute.PermAll)}
		batch = AppendRecord(batch,
			&Request{Op: jute.OpCreate, Session: 1, Cnx: 1, Seq: seq, Identities: identities[0], Body: q.Append(nil)})
		if len(batch) > 256<<10 {
			flush()
		}
	}
	for i := range n {
		if i%100 == 0 {
			create(fmt.Sprintf("/service-%06d", i/100))
		}
		paths = append(paths, fmt.Sprintf("/service-%06d/member-%02d", i/100, i%100))
		create(paths[i])
	}
	flush()
	return t, paths
}

// batches returns entries of 100 requests each, which op makes by their number.
func batches(n int, seq int64, op func(i int) (jute.Op, []byte)) [][]byte {
	list := make([][]byte, n)
	for i := range list {
		list[i] = AppendBatchHeader(nil, 5)
		for j := range 100 {
			seq++
			code, body := op(i*100 + j)
			list[i] = AppendRecord(list[i],
				&Request{Op: code, Session: 1, Cnx: 1, Seq: seq, Identities: identities[0], Body: body})
		}
	}
	return list
}

func nextSeq(t *Tree) int64 {
	s, _ := t.sessions.Get(1)
	return s.Next - 1
}

// run applies entries; the result's reply is encoded as the server does.
func run(tb testing.TB, t *Tree, list [][]byte) {
	index, out := t.LastIndex(), make([]byte, 0, 1024)
	for _, batch := range list {
		index++
		err := t.Apply(1, index, batch, func(r *Result) {
			if r.Err != jute.OK || r.Outcome != Applied {
				tb.Fatal(r.Err, r.Outcome)
			}
			out = r.AppendReply(out[:0])
		})
		if err != nil {
			tb.Fatal(err)
		}
	}
}

func setDataBody(path string) []byte {
	q := jute.SetDataRequest{Path: path, Data: make([]byte, 100), Version: -1}
	return q.Append(nil)
}

func createBody(path string) []byte {
	q := jute.CreateRequest{Path: path, Data: make([]byte, 100), ACL: jute.WorldACL(jute.PermAll)}
	return q.Append(nil)
}

// BenchmarkSetData applies batches of 100 setData; ns/op is per setData.
func BenchmarkSetData(b *testing.B) {
	t, paths := grown(b, 10000)
	list := batches(b.N/100+1, nextSeq(t), func(i int) (jute.Op, []byte) {
		return jute.OpSetData, setDataBody(paths[i*7919%len(paths)])
	})
	b.ReportAllocs()
	b.ResetTimer()
	run(b, t, list)
}

// BenchmarkCreate applies batches of 100 creates; ns/op is per create.
func BenchmarkCreate(b *testing.B) {
	t, _ := grown(b, 1000)
	list := batches(b.N/100+1, nextSeq(t), func(i int) (jute.Op, []byte) {
		return jute.OpCreate, createBody(fmt.Sprintf("/service-%06d/more-%08d", i%10, i))
	})
	b.ReportAllocs()
	b.ResetTimer()
	run(b, t, list)
}

// BenchmarkMulti applies multis of ten setData each; ns/op is per multi.
func BenchmarkMulti(b *testing.B) {
	t, paths := grown(b, 10000)
	list := batches(b.N/100+1, nextSeq(t), func(i int) (jute.Op, []byte) {
		var ops []jute.MultiOp
		for j := range 10 {
			ops = append(ops,
				jute.MultiOp{Op: jute.OpSetData, Path: paths[(i*7919+j)%len(paths)], Data: make([]byte, 100), Version: -1})
		}
		return jute.OpMulti, jute.AppendMulti(nil, ops)
	})
	b.ReportAllocs()
	b.ResetTimer()
	run(b, t, list)
}

// BenchmarkGetData reads znodes all over a tree, one by one and with what the
// next ones need fetched ahead.
func BenchmarkGetData(b *testing.B) {
	for _, n := range []int{10000, 1000000} {
		t, paths := grown(b, n)
		rng := rand.New(rand.NewPCG(1, 2))
		rng.Shuffle(len(paths), func(i, j int) { paths[i], paths[j] = paths[j], paths[i] })
		for i, path := range paths {
			paths[i] = strings.Clone(path) // a server has them one after the other, in its input
		}
		for _, fetch := range []bool{false, true} {
			b.Run(fmt.Sprintf("%d/fetch=%v", n, fetch), func(b *testing.B) {
				out := make([]byte, 0, 1024)
				b.ReportAllocs()
				i := 0
				for b.Loop() {
					if fetch && i%PrefetchMax == 0 {
						t.Prefetch(paths[i%len(paths):])
					}
					var code jute.Code
					if out, code = t.AppendGetData(out[:0], paths[i%len(paths)], identities[0]); code != jute.OK {
						b.Fatal(code)
					}
					i++
				}
			})
		}
	}
}

// BenchmarkGetChildren reads a directory of 1000, from the cache and after a change.
func BenchmarkGetChildren(b *testing.B) {
	t, _ := grown(b, 1)
	list := batches(10, nextSeq(t), func(i int) (jute.Op, []byte) {
		return jute.OpCreate, createBody(fmt.Sprintf("/service-000000/n%010d", i))
	})
	run(b, t, list)
	out := make([]byte, 0, 64<<10)
	for _, cached := range []bool{true, false} {
		b.Run(fmt.Sprintf("cached=%v", cached), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if !cached {
					t.lists.forget(t.find("/service-000000"))
				}
				out, _ = t.AppendGetChildren(out[:0], "/service-000000", nil)
			}
		})
	}
}

// heapOf returns the live heap after a collection.
func heapOf() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}

// BenchmarkMillion creates a million znodes and reports what each takes beyond
// its 100 bytes of data, then takes and loads a snapshot.
func BenchmarkMillion(b *testing.B) {
	const n = 1000000
	b.Run("create", func(b *testing.B) {
		for b.Loop() {
			before := heapOf()
			t, paths := grown(b, n)
			with := heapOf()
			runtime.KeepAlive(t)
			runtime.KeepAlive(paths)
			pathBytes := uint64(n * (25 + 16))
			b.ReportMetric(float64(with-before-pathBytes)/n-100, "bytes/znode")
		}
	})
	t, _ := grown(b, n)
	var chunks [][]byte
	b.Run("snapshot", func(b *testing.B) {
		for b.Loop() {
			chunks = drain(t, chunkSize)
		}
	})
	b.Run("load", func(b *testing.B) {
		for b.Loop() {
			if _, err := load(chunks); err != nil {
				b.Fatal(err)
			}
		}
	})
}

// TestMemoryPerZnode holds the promise about memory for a tree large enough to
// make fixed costs small.
func TestMemoryPerZnode(t *testing.T) {
	var asked int
	alloc := func(n int) []byte {
		asked += n
		return make([]byte, n)
	}
	source, _ := grown(t, 100000)
	again, err := Load(Options{Alloc: alloc}, chunkReader(drain(source, chunkSize)))
	if err != nil {
		t.Fatal(err)
	}
	per := asked/again.NodeCount() - 100
	t.Logf("%d bytes per znode beyond its data of 100", per)
	if per > 150 {
		t.Errorf("%d bytes per znode beyond its data, more than 150", per)
	}
}

func chunkReader(chunks [][]byte) func() ([]byte, error) {
	return func() ([]byte, error) {
		c := chunks[0]
		chunks = chunks[1:]
		return c, nil
	}
}

// TestNoAllocations holds the promise that the usual requests allocate nothing
// but the room that new znodes take.
func TestNoAllocations(t *testing.T) {
	tree, paths := grown(t, 2000)
	const runs = 20
	seq := nextSeq(tree)
	sets := batches(runs+2, seq, func(i int) (jute.Op, []byte) {
		return jute.OpSetData, setDataBody(paths[i%len(paths)])
	})
	out := make([]byte, 0, 1024)
	index := tree.LastIndex()
	visit := func(r *Result) { out = r.AppendReply(out[:0]) }
	apply := func(batch []byte) {
		index++
		if err := tree.Apply(1, index, batch, visit); err != nil {
			t.Fatal(err)
		}
	}
	measure := func(name string, list [][]byte) {
		apply(list[0])
		i := 0
		if n := testing.AllocsPerRun(runs, func() { i++; apply(list[i]) }); n > 1 {
			t.Errorf("a batch of 100 %s makes %.0f allocations", name, n)
		}
	}
	measure("setData", sets)
	measure("create", batches(runs+2, nextSeq(tree), func(i int) (jute.Op, []byte) {
		return jute.OpCreate, createBody(fmt.Sprintf("%s/more", paths[i%len(paths)]))
	})[:runs+2])
	if n := testing.AllocsPerRun(100, func() { out, _ = tree.AppendGetData(out[:0], paths[7], identities[0]) }); n != 0 {
		t.Errorf("getData makes %.0f allocations", n)
	}
	large, paths := grown(t, PrefetchNodesMin)
	if n := testing.AllocsPerRun(100, func() { large.Prefetch(paths) }); n != 0 {
		t.Errorf("Prefetch makes %.0f allocations", n)
	}
}
