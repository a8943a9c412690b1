package replica

import (
	"testing"

	"github.com/zooid-project/zooid/internal/metrics"
)

// TestEveryOperationIsCountedByName holds the table of counters to the table of
// operations.
func TestEveryOperationIsCountedByName(t *testing.T) {
	t.Parallel()
	m := NewMeters(&metrics.Registry{})
	for code := range ops {
		op := &ops[code]
		if op.kind != kindRefused && op.kind != kindLogin && m.ops[op.code] == nil {
			t.Errorf("%s has no counter", op.code)
		}
	}
}

func TestNamespace(t *testing.T) {
	t.Parallel()
	for path, want := range map[string]string{"/": "", "": "", "/a": "a", "/a/b/c": "a", "/ab": "ab", "/ab/a": "ab", "/b/a": "b", "//": "", "a/b": ""} {
		if got := namespace(path); got != want {
			t.Errorf("namespace of %q is %q, want %q", path, got, want)
		}
		for _, name := range []string{"", "a", "ab", "b"} {
			run := namespaceRun{name: name}
			if got := run.covers(path); got != (want == name && name != "") {
				t.Errorf("a run in %q covers %q: %v", name, path, got)
			}
		}
	}
}
