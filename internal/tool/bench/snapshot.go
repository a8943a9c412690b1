package bench

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

const (
	// snapshotPoll is how often the data directories are checked. It limits the accuracy of a snapshot's start and end.
	snapshotPoll = 20 * time.Millisecond
	// snapshotMargin is added before and after: a server's work before the file appears, and after it is complete, is
	// part of taking a snapshot.
	snapshotMargin = 200 * time.Millisecond
)

// sample is one reply: when its request was due, and how long it took.
type sample struct{ due, took time.Duration }

// stretch is an interval of time.
type stretch struct{ from, until time.Duration }

// runSnapshot creates -keys znodes and then sets random ones at -rate, while the server takes its snapshots as
// configured. It recognizes snapshots as files that grow in the server's directory, and compares the latency of the
// sets due during a snapshot with that of all others.
func runSnapshot(ctx context.Context, t *trial) (result, error) {
	if t.server == nil {
		return result{}, errNoServer
	}
	if t.rate == 0 {
		return result{}, usagef("snapshot needs a -rate: a saturated server has no latency of its own")
	}
	src, err := t.bulk(ctx)
	if err != nil {
		return result{}, err
	}
	if err := t.prepare(ctx, t.keys, src(0)); err != nil {
		return result{}, err
	}
	if err := t.rest(ctx); err != nil {
		return result{}, err
	}
	l, err := t.load(ctx)
	if err != nil {
		return result{}, err
	}
	defer closeAll(l.conns)
	l.source, l.samples = t.bulkSets(t.keys), make([][]sample, len(l.conns))
	var spans []stretch
	var wg sync.WaitGroup
	looking, stop := context.WithCancel(ctx)
	l.epoch = time.Now()
	wg.Go(func() { spans = watchSnapshots(looking, t.server.Root, l.epoch) })
	r, err := l.run(ctx)
	stop()
	wg.Wait()
	if err != nil {
		return r, err
	}
	return r, r.setSnapshots(slices.Concat(l.samples...), spans)
}

// watchSnapshots returns the intervals in which snapshots were written below root, as times since epoch, until ctx
// ends.
func watchSnapshots(ctx context.Context, root string, epoch time.Time) (spans []stretch) {
	known := snapshotFiles{}
	known.grown(root)
	for pause(ctx, snapshotPoll) == nil {
		if !known.grown(root) {
			continue
		}
		now := time.Since(epoch)
		if n := len(spans); n > 0 && now-spans[n-1].until <= 2*snapshotMargin {
			spans[n-1].until = now
		} else {
			spans = append(spans, stretch{now, now})
		}
	}
	for i := range spans {
		spans[i].from -= snapshotMargin
		spans[i].until += snapshotMargin
	}
	return spans
}

// snapshotFiles has the size of every file with a snapshot's name.
type snapshotFiles map[string]int64

// grown reports whether a file is new or has changed its size since the last call.
func (f snapshotFiles) grown(root string) (grown bool) {
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.Contains(d.Name(), "snap") {
			return nil
		}
		st, err := d.Info()
		if err != nil {
			return nil // it was removed meanwhile
		}
		size, seen := f[path]
		grown = grown || !seen || size != st.Size()
		f[path] = st.Size()
		return nil
	})
	return grown
}

// setSnapshots compares the samples due during a snapshot with the others.
func (r *result) setSnapshots(samples []sample, spans []stretch) error {
	with, without := newLatencies(), newLatencies()
	slices.SortFunc(samples, func(a, b sample) int { return cmp.Compare(a.due, b.due) })
	i := 0
	met := map[int]bool{}
	for _, s := range samples {
		for i < len(spans) && spans[i].until < s.due {
			i++
		}
		if i < len(spans) && spans[i].from <= s.due {
			met[i] = true
			with.record(s.took, 1)
		} else {
			without.record(s.took, 1)
		}
	}
	if with.count() == 0 || without.count() == 0 {
		return errors.New("measure snapshots: there was none, or never a time without one; give more -time or another -rate")
	}
	r.set("snapshots", float64(len(met)))
	r.set("snapshot_share_percent", math.Round(100*float64(with.count())/float64(len(samples))))
	for name, l := range map[string]*latencies{"with": with, "without": without} {
		r.set(fmt.Sprintf("p50_ms_%s", name), l.quantileMs(.5))
		r.set(fmt.Sprintf("p99_ms_%s", name), l.quantileMs(.99))
		r.set(fmt.Sprintf("p999_ms_%s", name), l.quantileMs(.999))
	}
	r.set("p99_ratio", with.quantileMs(.99)/without.quantileMs(.99))
	return nil
}
