package apache

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/jute"
)

// TestZnodesOfBackup: a snapshot to restore may have been compressed with gzip, within a limit, and must be whole.
func TestZnodesOfBackup(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := files.Write(dir, &files.Content{
		Zxid: 0x500000007, Epoch: 5,
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota", "/a"} {
				if err := visit(path, []byte("data"), jute.WorldACL(jute.PermAll), &files.Stat{}); err != nil {
					return err
				}
			}
			return nil
		},
	}); err != nil {
		t.Fatal(err)
	}
	plain, err := os.ReadFile(filepath.Join(dir, files.Version2, "snapshot.500000007"))
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	if _, err := w.Write(plain); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file := func(b []byte) string {
		path := filepath.Join(t.TempDir(), "snapshot")
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	want, err := Znodes(file(plain), "", "", 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	if have, err := Znodes(file(b.Bytes()), "", "", 1<<20); err != nil || !bytes.Equal(have, want) {
		t.Errorf("%d bytes, %v; want %d", len(have), err, len(want))
	}
	_, err = Znodes(file(b.Bytes()[:b.Len()/2]), "", "", 1<<20)
	if err == nil || !strings.Contains(err.Error(), "decompression fails") {
		t.Errorf("cut short: %v", err)
	}
	if _, err := plainFile(file(b.Bytes()), int64(len(plain))); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	_, err = plainFile(file(b.Bytes()), int64(len(plain)-1))
	if err == nil || !strings.Contains(err.Error(), "more than") {
		t.Errorf("over the limit: %v", err)
	}
}
