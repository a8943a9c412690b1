package replica

import (
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestSameReaders: consecutive events are told together if they have the same watchers, and the same may read them.
func TestSameReaders(t *testing.T) {
	t.Parallel()
	all, other := jute.WorldACL(jute.PermAll), jute.WorldACL(jute.PermRead)
	equal := slices.Clone(all)
	for _, of := range []struct {
		a, b []jute.ACL
		same bool
	}{
		{nil, nil, true}, {all, all, true}, {all, equal, true}, {all, other, false}, {all, nil, false}, {nil, all, false},
		{append(slices.Clone(all), other...), all, false},
	} {
		if got := sameACL(of.a, of.b); got != of.same {
			t.Errorf("%v and %v are the same: %t", of.a, of.b, got)
		}
	}
	var w row
	if w.continues(&tree.Event{}, nil, false) {
		t.Error("an event belongs to an empty row")
	}
	w.begin(&tree.Event{Path: "/a", ACL: all}, []int64{1, 2})
	w.events = 1
	for _, of := range []struct {
		path     string
		acl      []jute.ACL
		watchers []int64
		policy   bool
		want     bool
	}{
		{"/b", equal, []int64{1, 2}, false, true}, {"/b", equal, []int64{1, 2}, true, false},
		{"/a", all, []int64{1, 2}, true, true}, {"/a", all, []int64{1}, false, false},
		{"/a", all, []int64{1, 3}, false, false}, {"/a", other, []int64{1, 2}, false, false},
	} {
		if got := w.continues(&tree.Event{Path: of.path, ACL: of.acl}, of.watchers, of.policy); got != of.want {
			t.Errorf("%+v belongs to the row: %t", of, got)
		}
	}
}
