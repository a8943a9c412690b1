package socket

import (
	"os"
	"path/filepath"
	"testing"
)

// TestAckedUnknown: where the kernel doesn't tell, as of a file, nothing counts as acknowledged.
func TestAckedUnknown(t *testing.T) {
	t.Parallel()
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if allAcked(f.Fd()) {
		t.Error("the kernel can't tell, and all counts as acknowledged")
	}
}
