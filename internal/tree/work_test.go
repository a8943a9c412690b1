package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// multi applies a multi and returns how much work it was.
func (l *limiter) multi(ops []jute.MultiOp) uint64 {
	l.t.Helper()
	before := l.tree.Work()
	if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, ops)); code != jute.OK {
		l.t.Fatal(code)
	}
	return l.tree.Work() - before
}

func plain(path string) jute.MultiOp {
	return jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll)}
}

// TestStatsOfALargeSubtree: the stats of a quota are the sums of its subtree, and to create and delete
// them again and again is no more work for many znodes below than for few.
func TestStatsOfALargeSubtree(t *testing.T) {
	l := newLimiter(t, 3)
	ops := []jute.MultiOp{plain("/a"), plain("/a/b"), plain(pathQuota + "/a")}
	for n := range 1000 {
		o := plain(fmt.Sprintf("/a/b/%d", n))
		o.Data = make([]byte, 7)
		ops = append(ops, o)
	}
	l.multi(ops)
	stats := pathQuota + "/a/" + statsName
	var again []jute.MultiOp
	for range 100 {
		again = append(again, plain(stats), jute.MultiOp{Op: jute.OpDelete, Path: stats, Version: -1})
	}
	if work := l.multi(again); work > 20*uint64(len(again)) {
		t.Errorf("%d operations look at %d znodes", len(again), work)
	}
	l.multi([]jute.MultiOp{plain(stats)})
	if data, _ := l.tree.AppendGetData(nil, stats, nil); !strings.HasPrefix(string(data[4:]), "count=1002,bytes=7000") {
		t.Errorf("the stats are %q", data[4:])
	}
	// A multi that fails leaves the sums as they were: invariants, which apply calls, adds them up anew.
	l.apply(jute.OpMulti, jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpSetData, Path: "/a/b/1", Data: make([]byte, 99), Version: -1},
		{Op: jute.OpSetData, Path: "/a/b/1", Version: -1}, {Op: jute.OpDelete, Path: "/a/b/2", Version: -1},
		plain("/a/b/2"), plain("/a/b/x"), {Op: jute.OpDelete, Path: "/none", Version: -1},
	}))
}

// TestQuotaOfADeepPath: to find the quota of each of many deep znodes takes one walk for all children
// of a parent, wherever the quotas are; and it is the nearest one, though quotas come and go.
func TestQuotaOfADeepPath(t *testing.T) {
	const depth, children = 200, 100
	l := newLimiter(t, 3)
	parent, quota := "", pathQuota
	var ops []jute.MultiOp
	for range depth {
		parent, quota = parent+"/d", quota+"/d"
		ops = append(ops, plain(parent), plain(quota), plain(quota+"/"+limitsName))
	}
	l.multi(append(ops, plain(quota+"/"+statsName)))
	ops = ops[:0]
	for n := range children {
		ops = append(ops, plain(fmt.Sprintf("%s/%d", parent, n)))
	}
	// The znode and its stats are counted in their ancestors, and the quota is looked for from the root once.
	if work := l.multi(ops); work > uint64(children*(2*depth+10)+2*depth) {
		t.Errorf("%d creates look at %d znodes", children, work)
	}
	if data, _ := l.tree.AppendGetData(nil, quota+"/"+statsName, nil); !strings.HasPrefix(string(data[4:]), "count=101,") {
		t.Errorf("the stats are %q", data[4:])
	}
	near := func(want string) {
		t.Helper()
		if got, ok := l.tree.quotaOf(parent + "/0"); got != want || ok != (want != "") {
			t.Errorf("the quota of a znode is that of %q, want %q", got, want)
		}
	}
	near(parent)
	l.multi([]jute.MultiOp{plain(parent + "/n"), {Op: jute.OpDelete, Path: quota + "/" + limitsName, Version: -1}})
	near(parent[:len(parent)-2])
	l.multi([]jute.MultiOp{plain(parent + "/m"), plain(quota + "/" + limitsName)})
	near(parent)
}
