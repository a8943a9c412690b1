package server

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestSnapshotGauges: a server without a snapshot tells nothing of one; then the size and the age are those of the
// newest file.
func TestSnapshotGauges(t *testing.T) {
	t.Parallel()
	s := open(t, Options{SnapshotsKept: 1, Serving: Serving{SnapCount: 20}})
	if all := s.samples(); hasSample(all, "zooid_snapshot_bytes ") || hasSample(all, "zooid_snapshot_age_seconds ") {
		t.Errorf("without a snapshot it tells %v", all)
	}
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	var newest string
	for by := time.Now().Add(time.Minute); newest == ""; {
		c.call(jute.OpSetData, setting("/", nil))
		if files, _ := filepath.Glob(filepath.Join(s.opt.DataDir, "*.snap")); len(files) > 0 {
			newest = files[len(files)-1]
		} else if time.Now().After(by) {
			t.Fatal("no snapshot is written")
		}
	}
	hour := time.Now().Add(-time.Hour)
	if err := os.Chtimes(newest, hour, hour); err != nil {
		t.Fatal(err)
	}
	st, err := os.Stat(newest)
	if err != nil {
		t.Fatal(err)
	}
	all := s.samples()
	if all["zooid_snapshot_bytes "] != float64(st.Size()) || all["zooid_snapshot_age_seconds "] < 3600 {
		t.Errorf("of a snapshot of %d bytes, an hour old, it tells %v bytes and %v s", st.Size(), all["zooid_snapshot_bytes "],
			all["zooid_snapshot_age_seconds "])
	}
}

func hasSample(all map[string]float64, name string) bool {
	_, ok := all[name]
	return ok
}
