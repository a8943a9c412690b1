package keeperbench

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

var rewrite = flag.Bool("rewrite", false, "write transcripts anew")

// describe writes a workload as text, for comparing.
func describe(w *File) string {
	var b strings.Builder
	fmt.Fprintf(&b, "concurrency %d, iterations %d, limit %v, tolerant %v\n", w.Concurrency, w.Iterations, w.Limit,
		w.Tolerant)
	for _, h := range w.Hosts {
		fmt.Fprintf(&b, "host %s x %d, timeout %v\n", h.Addr, h.Sessions, h.Timeout)
	}
	var nodes func(indent string, list []*SetupNode)
	nodes = func(indent string, list []*SetupNode) {
		for _, n := range list {
			fmt.Fprintf(&b, "%snode %s x %d, data %s\n", indent, n.Name.describe(), n.Repeat, n.Data.describe())
			nodes(indent+"  ", n.Children)
		}
	}
	nodes("", w.Setup)
	var requests func(indent string, m mixture)
	requests = func(indent string, m mixture) {
		for _, r := range m {
			fmt.Fprintf(&b, "%s%v weight %d, paths %v, children of %v", indent, r.op, r.weight, r.paths.fixed,
				r.paths.childrenOf)
			if r.op == jute.OpCreate {
				fmt.Fprintf(&b, ", name %s, remove %g", r.name.describe(), r.removeFactor)
			}
			if r.data != nil {
				fmt.Fprintf(&b, ", data %s", r.data.describe())
			}
			if r.size != nil {
				fmt.Fprintf(&b, ", size %d-%d", r.size.min, r.size.max)
			}
			b.WriteString("\n")
			requests(indent+"  ", r.inner)
		}
	}
	requests("", w.requests)
	fmt.Fprintf(&b, "ignored %s\n", strings.Join(w.Ignored, " "))
	return b.String()
}

func (t *Text) describe() string {
	switch {
	case t == nil:
		return "none"
	case t.length == nil:
		return fmt.Sprintf("%q", t.fixed)
	}
	return fmt.Sprintf("random %d-%d", t.length.min, t.length.max)
}

// TestFilesAreUnderstood compares what is read from the fixtures with
// transcripts.
func TestFilesAreUnderstood(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		w, err := Read(file)
		if err != nil {
			t.Error(err)
			continue
		}
		text := strings.TrimSuffix(file, ".yaml") + ".txt"
		if *rewrite {
			if err := os.WriteFile(text, []byte(describe(w)), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		if want, err := os.ReadFile(text); err != nil || describe(w) != string(want) {
			t.Errorf("%s differs, %v (go test -run %s -rewrite writes it anew); got\n%s", text, err, t.Name(), describe(w))
		}
	}
}

func TestWorkloadRefusals(t *testing.T) {
	t.Parallel()
	in := func(requests string) string { return "generator:\n  requests:\n    " + requests }
	for _, tt := range []struct{ file, want string }{
		{"", "it is empty"},
		{"a: [", "did not find"},
		{"[]", "must be a group of keys"},
		{"concurrency: 2", "generator.requests: there is none"},
		{"concurrency: 0", "concurrency: must be 1 or more"},
		{"concurrency: many", "line 1: concurrency: must be a whole number from 0 to 65536"},
		{"\nqueue_depth: 5", "line 2: queue_depth: unknown key; known here: concurrency, iterations,"},
		{"connections: {host: 'a:1', secure: true}", "asks for TLS"},
		{"connections: {connection: {sessions: 2}}", "connections.connection: has no host"},
		{"connections: {host: 'a:1', use_compression: yes}", "ClickHouse's own compression"},
		{"setup: {node: {name: zookeeper}}", "is the server's own znode"},
		{"setup: {node: {data: x}}", "needs a name"},
		{"setup: {node: {name: a/b}}", "needs a name without a slash"},
		{"setup: {node: {name: a, repeat: 2}}", "is repeated, so its name must be a random_string"},
		{"setup: {tree: {name: a}}", "setup.tree: unknown key; known here: node"},
		{in("remove: {path: /a}"), "generator.requests.remove: unknown key; known here: create, set, get, list, multi"},
		{in("get: {path: a}"), "generator.requests.get.path:"},
		{in("get: {}"), "needs a path"},
		{in("get: {path: /a, data: x}"), "get.data: unknown key; known here: weight, path"},
		{in("set: {path: /a}"), "needs data"},
		{in("get: {path: {parent: /a}}"), "path.parent: unknown key; known here: children_of"},
		{in("get: {path: /a, weight: -1}"), "weight: must be a whole number"},
		{in("get: {path: /a, weight: 0}"), "all weights are 0"},
		{in("create: {path: /a, remove_factor: 2}"), "remove_factor: must be a number from 0 to 1"},
		{in("create: {path: /a, name_length: {min_value: 5, max_value: 4}}"), "needs a min_value and a max_value not below it"},
		{in("multi: {multi: {get: {path: /a}}}"), "a multi can't contain another"},
		{in("multi: {size: 3}"), "has no requests in it"},
		{in("multi: {get: {path: /a}, set: {path: /a, data: x}}"), "a multi can't mix reads"},
		{in("multi: {count: 3, get: {path: /a}}"), "multi.count: unknown key"},
		{"setup: &a {node: *a}", "is nested more than 50 deep"},
		{"setup:\n  node: &a {name: x, node: {name: y}}\n" + bomb(20), "has more than 100000 keys, aliases counted as often as used"},
	} {
		_, err := Parse([]byte(tt.file))
		if err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: error %v, want %s", tt.file, err, tt.want)
		}
	}
}

// bomb doubles the size of a file by each of its lines.
func bomb(lines int) string {
	var b strings.Builder
	last := "a"
	for i := range lines {
		name := fmt.Sprintf("a%d", i)
		fmt.Fprintf(&b, "  node: &%s {name: x, node: *%s, node: *%s}\n", name, last, last)
		last = name
	}
	return b.String()
}

// TestMixtureFollowsWeights draws many times: shares must be near the weights.
func TestMixtureFollowsWeights(t *testing.T) {
	t.Parallel()
	m := mixture{
		{op: jute.OpGetData, weight: 70}, {op: jute.OpSetData, weight: 25}, {op: jute.OpCreate, weight: 0},
		{op: jute.OpMulti, weight: 5},
	}
	rng := rand.New(rand.NewPCG(1, 1))
	const n = 100_000
	got := map[jute.Op]int{}
	for range n {
		got[m.pick(rng).op]++
	}
	for _, r := range m {
		want := n * r.weight / 100
		if d := got[r.op] - want; d > 1000 || d < -1000 {
			t.Errorf("%v: %d of %d, want %d", r.op, got[r.op], n, want)
		}
	}
}

func FuzzParse(f *testing.F) {
	for _, file := range []string{"testdata/reads.yaml", "testdata/fill.yaml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) { Parse(b) })
}
