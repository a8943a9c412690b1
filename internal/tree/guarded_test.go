package tree

import (
	"testing"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// TestGuardedPaths: each operation, alone and in a multi, does with each guarded path what the table says.
func TestGuardedPaths(t *testing.T) {
	t.Parallel()
	anyone := []jute.ID{{Scheme: "ip", ID: "127.0.0.1"}}
	open := jute.WorldACL(jute.PermAll)
	for _, g := range append(guardedPaths[:], guarded{path: "/zookeeper/other"}, guarded{path: "/other"}) {
		w := policed(t)
		s := w.tree.Settings()
		s.FeatureLevel = levelReserved
		w.tree.settings = s
		// do does an operation alone or in a multi, and returns its result.
		do := func(ids []jute.ID, multi bool, o jute.MultiOp) jute.Code {
			if multi {
				res := w.ask(jute.OpMulti, ids, jute.AppendMulti(nil, []jute.MultiOp{o}))
				if res.Err == jute.OK && len(res.Multi) == 1 {
					return res.Multi[0].Err
				}
				return res.Err
			}
			switch o.Op {
			case jute.OpDelete:
				return w.ask(o.Op, ids, jute.AppendInt(jute.AppendString(nil, o.Path), -1)).Err
			case jute.OpSetData:
				return w.ask(o.Op, ids, (&jute.SetDataRequest{Path: o.Path, Data: o.Data, Version: -1}).Append(nil)).Err
			}
			q := jute.CreateRequest{Path: o.Path, Data: o.Data, ACL: o.ACL, Flags: o.Flags}
			return w.ask(o.Op, ids, q.Append(nil)).Err
		}
		del := jute.MultiOp{Op: jute.OpDelete, Path: g.path, Version: -1}
		supers := g.rules || g.pieces
		for _, multi := range []bool{false, true} {
			if !g.lasting {
				do(superIDs, false, del)
				for _, op := range []jute.Op{jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer} {
					for _, mode := range []jute.CreateMode{jute.ModePersistent, jute.ModeEphemeral, jute.ModeContainer} {
						o := jute.MultiOp{Op: op, Path: g.path, ACL: open, Flags: mode}
						code := do(anyone, multi, o)
						if there := w.tree.find(g.path) != 0; there == supers && code == jute.OK || there && supers {
							t.Errorf("anyone creates %s by %v, mode %v, multi %v: %v", g.path, op, mode, multi, code)
						}
						do(superIDs, false, del)
					}
				}
				if code := do(superIDs, multi, jute.MultiOp{Op: jute.OpCreate, Path: g.path, ACL: open}); code != jute.OK {
					t.Fatalf("a superuser creates %s, multi %v: %v", g.path, multi, code)
				}
			}
			code := do(superIDs, multi, jute.MultiOp{Op: jute.OpSetData, Path: g.path, Data: []byte("no policy"), Version: -1})
			if (code == jute.OK) != (g.parses == nil) {
				t.Errorf("a superuser sets %s to what can't be parsed, multi %v: %v", g.path, multi, code)
			}
			do(anyone, multi, del)
			if there := w.tree.find(g.path) != 0; there != (supers || g.lasting) {
				t.Errorf("anyone deletes %s, multi %v: it is there: %v", g.path, multi, there)
			}
			do(superIDs, multi, del)
			if there := w.tree.find(g.path) != 0; there != g.lasting {
				t.Errorf("a superuser deletes %s, multi %v: it is there: %v", g.path, multi, there)
			}
		}
	}
	if guardOf(policy.Path) == &unguarded || guardOf(policy.Path+"/x") != &unguarded {
		t.Error("the paths aren't compared as a whole")
	}
}
