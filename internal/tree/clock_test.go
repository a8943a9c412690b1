package tree

import (
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// at is a tree with one batch for each step, and the znodes' paths.
type timed struct {
	t     *testing.T
	tree  *Tree
	index uint64
}

func (s *timed) apply(ms int64, requests ...Request) {
	s.t.Helper()
	batch := AppendBatchHeader(nil, ms)
	for i := range requests {
		batch = AppendRecord(batch, &requests[i])
	}
	s.index++
	if err := s.tree.Apply(1, s.index, batch, func(r *Result) {
		if r.Time != s.tree.Time() {
			s.t.Fatalf("a result of entry %d is of the time %d, the tree is at %d", s.index, r.Time, s.tree.Time())
		}
	}); err != nil {
		s.t.Fatal(err)
	}
	if s.tree.Digest() != s.tree.RecomputeDigest() {
		s.t.Fatalf("the digest is wrong after entry %d", s.index)
	}
}

func createTTL(path string, ms int64) Request {
	body := jute.AppendACLs(jute.AppendBuffer(jute.AppendString(nil, path), nil), jute.WorldACL(jute.PermAll))
	body = jute.AppendLong(jute.AppendInt(body, 5), ms) // PERSISTENT_WITH_TTL
	return Request{Op: jute.OpCreateTTL, Body: body}
}

// TestTimeIsSetBack stamps one batch ten years ahead. At level 2 the next one sets the
// time back, and a znode with a time to live of then goes when its time is over from
// then on; at level 1 the time stays where it is, as before.
func TestTimeIsSetBack(t *testing.T) {
	t.Parallel()
	const now, years, life = int64(1_800_000_000_000), int64(315_360_000_000), int64(1000)
	for _, level := range []int32{1, 2} {
		s := &timed{t: t, tree: New(Options{})}
		settings := DefaultSettings()
		settings.FeatureLevel, settings.ExtendedTypes = level, true
		s.apply(now, Request{Op: OpSettings, Body: settings.Append(nil)})
		s.apply(now+years, createTTL("/ttl", life))
		s.apply(now-timeBackMin/2, Request{Op: OpSettings, Body: settings.Append(nil)})
		back := now - timeBackMin/2
		want := map[int32]int64{1: now + years, 2: back}[level]
		if got := s.tree.Time(); got != want {
			t.Fatalf("level %d: the time is %d, want %d", level, got, want)
		}
		loaded, err := load(drain(s.tree, chunkSize))
		if err != nil || loaded.Digest() != s.tree.Digest() {
			t.Fatalf("level %d: loaded with another digest: %v", level, err)
		}
		s.tree = loaded
		s.apply(back-timeBackMin, Request{Op: OpSettings, Body: settings.Append(nil)})
		if got := s.tree.Time(); got != want {
			t.Fatalf("level %d: within the bound the time went back to %d", level, got)
		}
		reap := Request{Op: jute.OpDeleteContainer, Body: AppendDeleteContainer(nil, "/ttl", 0)}
		s.apply(back+life/2, reap)
		if _, ok := s.tree.Stat("/ttl"); !ok {
			t.Fatalf("level %d: it went before its time was over", level)
		}
		paths, _ := s.tree.Reapable(0, 1<<20, back+life+1, 0)
		s.apply(back+life+1, reap)
		_, stays := s.tree.Stat("/ttl")
		if stays != (level == 1) || (len(paths) == 1) != (level == 2) {
			t.Errorf("level %d: after its time it is there: %t; to be removed: %v", level, stays, paths)
		}
	}
}
