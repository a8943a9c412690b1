package quorum

import (
	"os"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/storage"
)

// TestPanicCause: what a panic tells is escaped and cut, in the error and in the report.
func TestPanicCause(t *testing.T) {
	t.Parallel()
	d, err := storage.Open(storage.Options{Dir: t.TempDir(), ClusterID: 7})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	e, ok := Panicked(d, Entry{Index: 3, Term: 2, Data: []byte("entry")},
		"a client's \x1b[2J"+strings.Repeat("x", 2*causeMax), "about").(*PanicError)
	if !ok {
		t.Fatal("another error")
	}
	report, err := os.ReadFile(e.Report)
	if err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{e.Error(), string(report)} {
		if strings.Contains(text, "\x1b") || !strings.Contains(text, `a client's \x1b[2J`) ||
			strings.Contains(text, strings.Repeat("x", causeMax)) {
			t.Errorf("the cause is not escaped and cut in\n%s", text)
		}
	}
}
