package export

import (
	"io"
	"strings"
	"testing"
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
