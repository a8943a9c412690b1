package compare

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// past is all states of an ensemble, by zxid, and the time: the zxid that it is at.
type past struct {
	states []map[string]Znode
	now    int
	rnd    *rand.Rand
}

// newPast makes a history. Below /hot znodes are set, created and deleted, and get ACLs; below /cold nothing happens.
func newPast(rnd *rand.Rand, n int) *past {
	state := map[string]Znode{"/": {}, "/cold": {}, "/hot": {}}
	for i := range 40 {
		state[fmt.Sprintf("/cold/%02d", i)] = Znode{Data: []byte("c")}
	}
	h := &past{states: []map[string]Znode{maps.Clone(state)}, rnd: rnd}
	for zxid := int64(1); zxid < int64(n); zxid++ {
		path, parent := fmt.Sprintf("/hot/%02d", rnd.IntN(30)), state["/hot"]
		z, there := state[path]
		switch {
		case !there:
			z = Znode{Data: []byte("new"), Stat: zk.Stat{Czxid: zxid, Mzxid: zxid, Pzxid: zxid}}
			parent.Stat.Pzxid = zxid
		case rnd.IntN(4) == 0:
			delete(state, path)
			parent.Stat.Pzxid = zxid
		case rnd.IntN(3) == 0:
			z.ACL = zk.WorldACL(zk.Perm(1 + rnd.IntN(31)))
			z.Stat.Aversion++
		default:
			z.Data = fmt.Append(nil, zxid)
			z.Stat.Mzxid, z.Stat.Version = zxid, z.Stat.Version+1
		}
		if _, still := state[path]; still || !there {
			state[path] = z
		}
		state["/hot"] = parent
		h.states = append(h.states, maps.Clone(state))
	}
	return h
}

// goOn lets time pass.
func (h *past) goOn(most int) { h.now = min(h.now+h.rnd.IntN(most+1), len(h.states)-1) }

// A view is a past as a client of the ensemble sees it, or one of a copy of it. Time passes with each request.
type view struct {
	*past
	copied, dead bool
	at           int // the zxid of a copy
	planted      map[string]bool
}

func (v *view) zxid() int {
	if !v.copied {
		return v.now
	}
	if !v.dead { // it lags
		v.at = max(v.at, v.now-v.rnd.IntN(60))
	}
	return v.at
}

func (v *view) Read(_ context.Context, path string) (*Znode, error) {
	v.goOn(2)
	z, ok := v.states[v.zxid()][path]
	if !ok {
		return nil, nil
	}
	z.Path = path
	if v.planted[path] {
		z.Data = []byte("planted")
	}
	return &z, nil
}

func (v *view) All(ctx context.Context) iter.Seq2[*Znode, error] {
	return func(yield func(*Znode, error) bool) {
		paths := slices.Collect(maps.Keys(v.states[v.zxid()]))
		slices.SortFunc(paths, comparePaths)
		for _, path := range paths {
			if z, err := v.Read(ctx, path); z != nil && !yield(z, err) {
				return
			}
		}
	}
}

func (v *view) Sync(context.Context) error {
	v.goOn(2)
	if v.copied {
		return ErrCopy
	}
	return nil
}

func (v *view) Zxid(context.Context) (int64, error) { return int64(v.zxid()), nil }
func (v *view) Files() bool                         { return false }

func (v *view) Reach(_ context.Context, zxid int64, _ time.Duration) (int64, error) {
	v.goOn(20)
	if v.copied && !v.dead {
		v.at = max(v.at, min(int(zxid)+v.rnd.IntN(5), v.now))
	}
	return int64(v.zxid()), nil
}

// TestCopyUnderLoad: between an ensemble and a copy that is behind it, only what was planted differs, however they
// change. What is newer than a copy that doesn't go on is said to be that.
func TestCopyUnderLoad(t *testing.T) {
	t.Parallel()
	seen := map[Verdict]int{}
	for seed := range uint64(90) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		h := newPast(rnd, 2500)
		h.now = 100 + rnd.IntN(400)
		planted := map[string]bool{}
		for range rnd.IntN(6) {
			planted[fmt.Sprintf("/cold/%02d", rnd.IntN(40))] = true
		}
		ensemble, copied := &view{past: h}, &view{past: h, copied: true, dead: seed%3 == 0, planted: planted, at: h.now - 90}
		a, b := Source(ensemble), Source(copied)
		if seed%2 == 0 {
			a, b = b, a
		}
		found := map[string]bool{}
		counts, err := Trees(t.Context(), a, b, Options{Patience: time.Microsecond, Tell: func(d *Difference) error {
			seen[d.Verdict]++
			switch hot := strings.HasPrefix(d.Path, "/hot"); d.Verdict {
			case Changing, Newer:
				if !hot || d.Verdict == Newer && !copied.dead {
					t.Errorf("seed %d: %+v", seed, d)
				}
			default:
				found[d.Path] = true
			}
			return nil
		}})
		if err != nil || !maps.Equal(found, planted) || counts.Different != len(planted) {
			t.Errorf("seed %d: found %v, planted %v, %+v, %v", seed, found, planted, counts, err)
		}
	}
	if seen[Differs] == 0 || seen[Changing] == 0 || seen[Newer] == 0 {
		t.Errorf("the test doesn't try what it should: %v", seen)
	}
	t.Log(seen)
}

// TestFilesGoOn: a directory is read again when it has to be.
func TestFilesGoOn(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write(t, dir, "data")
	f, err := OpenFiles(dir, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	const written = 0x500000007
	if at, err := f.Reach(t.Context(), written, time.Hour); at != written || err != nil {
		t.Errorf("it is at %#x, %v", at, err)
	}
	if at, err := f.Reach(t.Context(), written+1, time.Millisecond); at != written || err != nil {
		t.Errorf("it doesn't go on, and is at %#x, %v", at, err)
	}
	reads := 0
	open := f.open
	f.open = func() (*Files, error) {
		if reads++; reads < 3 {
			return open()
		}
		return &Files{zxid: written + 9}, nil
	}
	if at, err := f.Reach(t.Context(), written+1, time.Minute); at != written+9 || err != nil {
		t.Errorf("it goes on, and is at %#x, %v", at, err)
	}
}
