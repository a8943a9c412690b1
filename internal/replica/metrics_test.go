package replica

import (
	"testing"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/jute"
)

// TestEveryOperationIsCountedByName holds the rows of the table of operations against
// their places and against jute's table, and each has a counter.
func TestEveryOperationIsCountedByName(t *testing.T) {
	t.Parallel()
	m := NewMeters(&metrics.Registry{})
	for code := range ops {
		op := &ops[code]
		if op.kind != kindRefused && op.kind != kindLogin && m.ops[op.code] == nil {
			t.Errorf("%s has no counter", op.code)
		}
		if op.code != 0 && op.code != jute.Op(code) || op.isWrite() && !op.code.IsWrite() {
			t.Errorf("the row of operation %d is %s, a write %t", code, op.code, op.isWrite())
		}
	}
}

// TestReadPath: a request's path is found where decoding finds it, null's, too.
func TestReadPath(t *testing.T) {
	t.Parallel()
	for _, request := range []string{
		"\xff\xff\xff\xff\x00", "\x80\x00\x00\x00\x00", "\x00\x00\x00\x00\x00", "\x00\x00\x00\x02/a\x00", "\x00\x00\x00\x01/",
	} {
		if path, _, ok := pathWatch([]byte(request)); ok && string(readPath([]byte(request))) != path {
			t.Errorf("the path of %q is %q, decoded %q", request, readPath([]byte(request)), path)
		}
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{
		"/": "", "": "", "/a": "a", "/a/b/c": "a", "/ab": "ab", "/ab/a": "ab", "/b/a": "b", "//": "", "a/b": "",
	} {
		if got := namespace(path); got != want {
			t.Errorf("namespace of %q is %q, want %q", path, got, want)
		}
		for _, name := range []string{"", "a", "ab", "b"} {
			run := namespaceRun{name: name}
			if got := covers(&run, path); got != (want == name && name != "") {
				t.Errorf("a run in %q covers %q: %v", name, path, got)
			}
			if covers(&run, []byte(path)) != covers(&run, path) {
				t.Errorf("a run in %q covers %q otherwise as bytes", name, path)
			}
		}
	}
}
