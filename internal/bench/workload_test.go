package bench

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// describe writes a workload as text, for comparing.
func describe(w *workload) string {
	var b strings.Builder
	fmt.Fprintf(&b, "concurrency %d, iterations %d, limit %v, tolerant %v\n", w.concurrency, w.iterations, w.limit, w.tolerant)
	for _, h := range w.hosts {
		fmt.Fprintf(&b, "host %s x %d, timeout %v\n", h.addr, h.sessions, h.timeout)
	}
	var nodes func(indent string, list []*setupNode)
	nodes = func(indent string, list []*setupNode) {
		for _, n := range list {
			fmt.Fprintf(&b, "%snode %s x %d, data %s\n", indent, n.name.describe(), n.repeat, n.data.describe())
			nodes(indent+"  ", n.children)
		}
	}
	nodes("", w.setup)
	var requests func(indent string, m mixture)
	requests = func(indent string, m mixture) {
		for _, r := range m {
			fmt.Fprintf(&b, "%s%v weight %d, paths %v, children of %v", indent, r.op, r.weight, r.paths.fixed, r.paths.childrenOf)
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
	fmt.Fprintf(&b, "ignored %s\n", strings.Join(w.ignored, " "))
	return b.String()
}

func (t *text) describe() string {
	switch {
	case t == nil:
		return "none"
	case t.length == nil:
		return fmt.Sprintf("%q", t.fixed)
	}
	return fmt.Sprintf("random %d-%d", t.length.min, t.length.max)
}

// TestWorkloadFilesAreUnderstood compares what is read from the fixtures with
// transcripts.
func TestWorkloadFilesAreUnderstood(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("testdata/workload/*.yaml")
	if err != nil || len(files) < 2 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		w, err := readWorkload(file)
		if err != nil {
			t.Error(err)
			continue
		}
		transcript(t, strings.TrimSuffix(file, ".yaml")+".txt", []byte(describe(w)))
	}
}

// TestWorkloadRunsUnchanged runs the fixtures: every request of theirs must
// succeed, and nothing be left behind.
func TestWorkloadRunsUnchanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file string
		ops  string
	}{{"testdata/workload/reads.yaml", `"ops":3000`}, {"testdata/workload/fill.yaml", `"ops":200`}} {
		s := startFake(t)
		var out, diag bytes.Buffer
		if code := Main([]string{"workload", tt.file, "-servers", s.addr, "-json"}, &out, &diag); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", tt.file, code, &diag)
		}
		if !strings.Contains(out.String(), tt.ops+",") || strings.Contains(out.String(), `"errors"`) {
			t.Errorf("%s: %s", tt.file, &out)
		}
		if left := s.left(); len(left) > 0 {
			t.Errorf("%s: left behind: %v", tt.file, left)
		}
	}
}

func TestWorkloadEndsAtTheFirstErrorUnlessTold(t *testing.T) {
	t.Parallel()
	const file = "iterations: 100\n%sgenerator: {setup: {node: {name: a}}, requests: {set: {path: /a, data: x}}}\n"
	for _, tt := range []struct{ line, want string }{
		{"", "zookeeper: BadVersion"},
		{"continue_on_error: true\n", ""},
	} {
		s := startFake(t, func(s *fakeServer) {
			s.refuse = func(op jute.Op, _ string, n int) jute.Code {
				if op == jute.OpSetData && n == 50 {
					return jute.ErrBadVersion
				}
				return jute.OK
			}
		})
		w, err := parseWorkload([]byte(fmt.Sprintf(file, tt.line)))
		if err != nil {
			t.Fatal(err)
		}
		o, _, err := parseOptions("workload", "-servers", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		r, err := runTrial(context.Background(), scenario{name: "w", bare: true, run: w.run}, w.adjust(o), nil)
		if tt.want == "" && (err != nil || r.Ops != 100 || r.Errors["BadVersion"] != 1) {
			t.Errorf("%+v, %v", r, err)
		}
		if tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("error %v, want %s", err, tt.want)
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
		{"\nqueue_depth: 5", "line 2: queue_depth: unknown key; here may stand concurrency, iterations,"},
		{"connections: {host: 'a:1', secure: true}", "asks for TLS"},
		{"connections: {connection: {sessions: 2}}", "connections.connection: has no host"},
		{"connections: {host: 'a:1', use_compression: yes}", "ClickHouse's own compression"},
		{"setup: {node: {name: zookeeper}}", "is the server's own znode"},
		{"setup: {node: {data: x}}", "needs a name"},
		{"setup: {node: {name: a/b}}", "needs a name without a slash"},
		{"setup: {node: {name: a, repeat: 2}}", "is repeated, so its name must be a random_string"},
		{"setup: {tree: {name: a}}", "setup.tree: unknown key; here may stand node"},
		{in("remove: {path: /a}"), "generator.requests.remove: unknown key; here may stand create, set, get, list, multi"},
		{in("get: {path: a}"), "generator.requests.get.path:"},
		{in("get: {}"), "needs a path"},
		{in("get: {path: /a, data: x}"), "get.data: unknown key; here may stand weight, path"},
		{in("set: {path: /a}"), "needs data"},
		{in("get: {path: {parent: /a}}"), "path.parent: unknown key; here may stand children_of"},
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
		_, err := parseWorkload([]byte(tt.file))
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
	m := mixture{{op: jute.OpGetData, weight: 70}, {op: jute.OpSetData, weight: 25}, {op: jute.OpCreate, weight: 0}, {op: jute.OpMulti, weight: 5}}
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

func TestConcurrencyIsShared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ total, parts int }{{20, 3}, {3, 20}, {8, 1}, {7, 7}} {
		sum, least, most := 0, tt.total, 0
		for i := range tt.parts {
			n := share(tt.total, tt.parts, i)
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		if sum != tt.total || most-least > 1 {
			t.Errorf("%+v: sum %d, from %d to %d", tt, sum, least, most)
		}
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	t.Parallel()
	w, err := readWorkload("testdata/workload/reads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	o, _, err := parseOptions("workload")
	if err != nil {
		t.Fatal(err)
	}
	o = w.adjust(o)
	if strings.Join(o.servers, " ") != "localhost:9181 localhost:9181 localhost:9182" || o.conns != 3 || o.ops != 3000 || o.time != time.Minute || o.timeout != 20*time.Second {
		t.Errorf("%+v", o)
	}
	if o, _, err = parseOptions("workload", "-servers", "x:1", "-ops", "5", "-time", "3s"); err != nil {
		t.Fatal(err)
	}
	o = w.adjust(o)
	if strings.Join(o.servers, " ") != "x:1" || o.conns != 3 || o.ops != 5 || o.time != 3*time.Second {
		t.Errorf("%+v", o)
	}
}

func FuzzWorkload(f *testing.F) {
	for _, file := range []string{"testdata/workload/reads.yaml", "testdata/workload/fill.yaml"} {
		b, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(_ *testing.T, b []byte) { parseWorkload(b) })
}
