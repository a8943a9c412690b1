package replica

import (
	"fmt"
	"testing"

	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestTreeIsFull fills a tree with few addresses: before the last one is taken, what would make the tree larger is
// refused, without a limit of memory too; the rest goes on. After deletes there is room again.
func TestTreeIsFull(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short: there is one goroutine")
	}
	t.Parallel()
	fs := storage.NewMemFS()
	fs.Budget = 512 << 20
	s := openOnDisk(t, fs, 1<<20, 3)
	s.rep.tree = tree.New(tree.Options{LevelMax: tree.FeatureLevelMax, Chunks: 32})
	cl, encoder := s.client(), &pipeline{}
	path := func(i int) string { return fmt.Sprintf("/full-%04d", i) }
	made := 0
	for ; ; made++ {
		_, step := s.rep.AccountMemory(0, 0, 0)
		code := s.call(cl, encoder, jute.OpCreate, creating(path(made), make([]byte, 10_000), 0))[0]
		if code == jute.ErrThrottledOp && step == memory.RefuseGrowth {
			break
		}
		if code != jute.OK || step != memory.RefuseNone || made > 32<<20/10_000 {
			t.Fatalf("create %d: %v at step %d", made, code, step)
		}
	}
	if made < 2000 {
		t.Errorf("refused after %d znodes of 10 KB in 32 MiB", made)
	}
	if code := s.call(cl, encoder, jute.OpGetData, reading(path(0), false))[0]; code != jute.OK {
		t.Errorf("a read of a full tree: %v", code)
	}
	if code := s.call(cl, encoder, jute.OpSetData, setting(path(0), []byte("less")))[0]; code != jute.OK {
		t.Errorf("a smaller set in a full tree: %v", code)
	}
	for i := range made / 2 {
		if code := s.call(cl, encoder, jute.OpDelete, deleting(path(i)))[0]; code != jute.OK {
			t.Fatalf("a delete in a full tree: %v", code)
		}
	}
	for s.rep.Compact() {
	}
	if _, step := s.rep.AccountMemory(0, 0, 0); step != memory.RefuseNone {
		t.Fatalf("half of the tree was deleted, and step %d is in force", step)
	}
	if code := s.call(cl, encoder, jute.OpCreate, creating("/again", make([]byte, 10_000), 0))[0]; code != jute.OK {
		t.Errorf("a create after deletes: %v", code)
	}
}

// TestLogBytesForceASnapshot: one is due once the log has the bytes that were configured, and not before.
func TestLogBytesForceASnapshot(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{Serving: Serving{SnapBytes: 1 << 20}})
	if s.r.SnapshotDue(1<<20 - 1) {
		t.Error("due a byte too early")
	}
	if !s.r.SnapshotDue(1 << 20) {
		t.Error("not due")
	}
}

// TestQuotasMax has more quotas than one reading of the metrics looks at.
func TestQuotasMax(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.now += 5
	var records [][]byte
	const quotas = quotasMax + 100
	create := func(path string, data string) {
		q := jute.CreateRequest{Path: path, Data: []byte(data), ACL: jute.WorldACL(jute.PermAll)}
		records = append(records, tree.AppendRecord(nil, &tree.Request{Op: jute.OpCreate, Body: q.Append(nil)}))
	}
	for i := range quotas {
		create(fmt.Sprintf("/zookeeper/quota/q%06d", i), "")
		create(fmt.Sprintf("/zookeeper/quota/q%06d/zookeeper_limits", i), "count=1,bytes=-1")
	}
	s.apply(records...)
	if n := s.r.tree.NodeCount(); n < 2*quotas {
		t.Fatalf("%d znodes", n)
	}
	total, read := int64(0), 0
	for _, n := range s.r.Quotas("zookeeper_limits", func(string) (int64, bool) { read++; return 1, true }) {
		total += n
	}
	if read > quotasMax || read < quotasMax/2 || total != int64(read) {
		t.Errorf("of %d quotas %d were read, which add up to %d; want %d at the most", quotas, read, total, quotasMax)
	}
}

// TestSpending: what connections use counts for their address after some hundred requests, some time, or the end of
// the connection; at once if the limit is low.
func TestSpending(t *testing.T) {
	t.Parallel()
	for _, perSecond := range []int64{2_000_000, 100} {
		s := newStage(t, Options{})
		s.now = 100_000
		var sets [limit.Scopes]limit.Set
		sets[limit.Address][limit.Requests] = perSecond
		s.r.limiter.SetLimits(sets)
		c := s.client(nil)
		s.apply(s.forward()...)
		c.TakeOutput(nil)
		raw, counted := pipeline{}, int64(0)
		address := c.limits.address.Load()
		var want limit.Rate
		send := func(what string, n int64, counts bool) {
			t.Helper()
			for range n {
				if _, err := s.receive(c, raw.request(nil, jute.OpExists, reading("/", false))); err != nil {
					t.Fatal(err)
				}
				c.TakeOutput(nil)
			}
			if counted += n; counts || perSecond == 100 {
				want.Use(s.r.now(), counted, perSecond)
				counted = 0
			}
			if got, want := address.used.Requests.Owes(s.r.now()), want.Owes(s.r.now()); got != want {
				t.Errorf("%d a second, %s: the address owes %d ns, want %d", perSecond, what, got, want)
			}
		}
		if perSecond > 100 {
			send("the first request", 1, true)
			send("many requests", limit.SpendRequestsMax-1, false)
			send("as many as count", 1, true)
		}
		send("a few", 10, false)
		s.now += spendAfter / 1e6
		send("after a while", 1, true)
		send("one at the end", 1, false)
		if s.r.Disconnected(c); counted > 0 {
			want.Use(s.r.now(), counted, perSecond)
		}
		if got, want := address.used.Requests.Owes(s.r.now()), want.Owes(s.r.now()); got != want {
			t.Errorf("%d a second, at the end: the address owes %d ns, want %d", perSecond, got, want)
		}
	}
}
