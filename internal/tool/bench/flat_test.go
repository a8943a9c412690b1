package bench

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
)

func TestGrowthIsTheLargestAgainstTheFirst(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		values []float64
		want   float64
	}{
		{nil, 0}, {[]float64{0, 5}, 0}, {[]float64{2}, 1}, {[]float64{2, 1, 1}, 1}, {[]float64{2, 5, 3}, 2.5},
	} {
		if got := growth(tt.values); got != tt.want {
			t.Errorf("growth(%v) = %v, want %v", tt.values, got, tt.want)
		}
	}
	if got := fmt.Sprint(decades(1, 5000), decades(1000, 1000),
		decades(1000, 500)); got != "[1 10 100 1000 5000] [1000] [500]" {
		t.Errorf("sizes %s", got)
	}
}

// TestFlatScenariosShowEverySize runs them small and looks for a figure per size.
func TestFlatScenariosShowEverySize(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ scenario, flags, want string }{
		{"flat-conns", "-keys 20 -warm 0s -time 1ms", "p50_ms_at_1 p50_ms_at_10 p50_ms_at_20 p50_ms_growth"},
		{"flat-watchers", "-keys 30 -warm 0s -ops 2", "p50_us_per_watcher_at_30 p50_us_per_watcher_growth"},
		{"flat-znodes", "-keys 2000 -warm 0s -ops 50", "get_p50_ms_at_1000 get_p50_ms_at_2000 get_p50_ms_growth half_p999_ms_at_1000 half_p999_ms_at_2000 half_p999_ms_growth rss_mib_at_1000 rss_mib_at_2000 sent_late_p999_ms_at_1000 sent_late_p999_ms_at_2000"},
	} {
		s := startFake(t)
		r, err := runFake(t, s, tt.scenario, strings.Fields(tt.flags)...)
		if err != nil || r.errorCount() > 0 {
			t.Fatalf("%s: %+v, %v", tt.scenario, r, err)
		}
		if got := strings.Join(slices.Sorted(maps.Keys(r.Extra)), " "); got != tt.want {
			t.Errorf("%s: figures %s\nwant %s", tt.scenario, got, tt.want)
		}
		if left := s.left(); len(left) > 0 {
			t.Errorf("%s left behind: %v", tt.scenario, left)
		}
	}
}

// TestBulkPaths: every znode of a bulk load is asked for under the path it was
// created with, which is as long as the goals say.
func TestBulkPaths(t *testing.T) {
	t.Parallel()
	tr := &trial{base: "/b-abcdef"}
	frame := tr.bulkFrame(wire.DeleteFrame)
	for _, i := range []int{0, 1, 9999, 10000, 1234567, 9999999} {
		path := tr.bulkPath(i)
		if got := frame.append(nil, uint64(i)); string(got) != string(wire.DeleteFrame(path)) {
			t.Errorf("znode %d: %q, want one for %s", i, got, path)
		}
		if len(path) != 25 {
			t.Errorf("%s is %d bytes long", path, len(path))
		}
	}
	if _, err := runFake(t, startFake(t), "load", "-keys", "10000001"); err == nil ||
		!strings.Contains(err.Error(), "at most 10000000 znodes") {
		t.Errorf("error %v", err)
	}
}

// TestSnapshotsAreToldApart: a request counts by when it was due.
func TestSnapshotsAreToldApart(t *testing.T) {
	t.Parallel()
	var samples []sample
	for i := range 100 { // every second; slow in both snapshots
		s := sample{time.Duration(99-i) * time.Second, time.Millisecond}
		if at := 99 - i; at >= 10 && at <= 19 || at >= 50 && at <= 54 {
			s.took = 3 * time.Millisecond
		}
		samples = append(samples, s)
	}
	spans := []stretch{
		{10 * time.Second, 19 * time.Second}, {50 * time.Second, 54 * time.Second}, {200 * time.Second, 201 * time.Second},
	}
	var r result
	if err := r.setSnapshots(samples, spans); err != nil {
		t.Fatal(err)
	}
	if r.Extra["snapshots"] != 2 || r.Extra["snapshot_share_percent"] != 15 || int(r.Extra["p50_ms_with"]) != 3 ||
		int(r.Extra["p99_ms_without"]) != 1 || int(r.Extra["p99_ratio"]+.1) != 3 {
		t.Errorf("%v", r.Extra)
	}
	for _, spans := range [][]stretch{nil, {{0, time.Hour}}} {
		if err := r.setSnapshots(samples, spans); err == nil {
			t.Errorf("%v: nothing to compare must be an error", spans)
		}
	}
}

func TestSnapshotFilesGrow(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f := snapshotFiles{}
	for i, step := range []struct {
		file, data string
		grown      bool
	}{
		{"1/data/log.1", "x", false},
		{"1/data/snapshot.5", "", true},
		{"1/data/log.1", "xx", false},
		{"1/data/snapshot.5", "x", true},
		{"1/data/snapshot.5", "y", false},
		{"1/data/snapshot-1.tmp", "y", true},
	} {
		path := filepath.Join(dir, step.file)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(step.data), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := f.grown(dir); got != step.grown {
			t.Errorf("step %d: grown is %v", i, got)
		}
	}
}

// TestAwaitIdle: a server that works for a while, and one that never ends.
func TestAwaitIdle(t *testing.T) {
	t.Parallel()
	used, looks := time.Duration(0), 0
	awaitIdle(t.Context(), time.Hour, func() time.Duration {
		if looks++; looks < 3 {
			used += time.Second
		}
		return used
	})
	if looks != 3 {
		t.Errorf("%d looks at a server that had rested by the third", looks)
	}
	looks = 0
	awaitIdle(t.Context(), idleLook, func() time.Duration { looks++; return time.Duration(looks) * time.Second })
	if looks < 2 {
		t.Errorf("%d looks at a server that never rests", looks)
	}
}
