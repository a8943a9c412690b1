package export

import (
	"fmt"
	"io"
	"strings"
	"testing"
	"time"
)

// endless is a record without an end.
type endless struct{}

func (endless) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// TestRecordMax reads a record of the largest size, one that is larger, and the next one.
func TestRecordMax(t *testing.T) {
	b := &boundedReader{r: endless{}}
	b.begin()
	if n, err := io.CopyN(io.Discard, b, recordMax); n != recordMax || err != nil {
		t.Fatalf("a record of %d bytes: %d were read, %v", recordMax, n, err)
	}
	if _, err := b.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "larger than") {
		t.Errorf("a byte beyond: %v", err)
	}
	b.begin()
	if _, err := b.Read(make([]byte, 1)); err != nil {
		t.Errorf("the next record: %v", err)
	}
}

// TestTarLongName: the error for a path that is too long for a tar names the znode, not all of the path, and says what
// to do. The other formats have room for it.
func TestTarLongName(t *testing.T) {
	t.Parallel()
	long := NewNode("/name"+strings.Repeat("x", 900_000), nil, nil, time.Time{})
	for form, fits := range map[string]bool{"json": true, "yaml": true, "tar": false} { // any order: each by itself
		w, err := Create(form, io.Discard, "/", time.Time{})
		if err != nil {
			t.Fatal(err)
		}
		err = w.Node(long)
		says := fmt.Sprint(err)
		if fits != (err == nil) || !fits && (len(says) > 500 || !strings.Contains(says, `"/namexxx`) ||
			!strings.Contains(says, "900005 bytes") || !strings.Contains(says, "JSON")) {
			t.Errorf("%s: %.1000s", form, says)
		}
	}
}
