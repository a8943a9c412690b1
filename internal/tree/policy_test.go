package tree

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// policed returns a tree whose policy denies reading /secret.
func policed(t *testing.T) *restorer {
	t.Helper()
	w := newRestorer(t, New(Options{}))
	for path, data := range map[string]string{"/secret": "", policy.Path: "deny read,admin below /secret\ndryrun deny write below /secret"} {
		r := jute.CreateRequest{Path: path, Data: []byte(data), ACL: jute.WorldACL(jute.PermAll)}
		if got := w.ask(jute.OpCreate, superIDs, r.Append(nil)); got.Err != jute.OK {
			t.Fatal(got.Err)
		}
	}
	return w
}

func wantSecret(t *testing.T, how string, tree *Tree, want jute.Code) {
	t.Helper()
	if _, code := tree.AppendGetData(nil, "/secret", nil); code != want {
		t.Errorf("%s: getData of /secret: %v, want %v", how, code, want)
	}
	if bad := invariants(tree); bad != "" {
		t.Errorf("%s: %s", how, bad)
	}
}

// TestPolicyComesBack: a tree that is made of a snapshot, of znodes of another one, or replaced
// by them has the policy that is among them, and no other.
func TestPolicyComesBack(t *testing.T) {
	t.Parallel()
	w := policed(t)
	wantSecret(t, "set", w.tree, jute.ErrNoAuth)
	again, err := load(drain(w.tree, chunkSize))
	if err != nil {
		t.Fatal(err)
	}
	wantSecret(t, "loaded", again, jute.ErrNoAuth)

	settings := DefaultSettings()
	settings.FeatureLevel = 2
	built := copied(t, w.tree)
	if err := built.Apply(1, 2,
		AppendRecord(AppendBatchHeader(nil, 5), &Request{Op: OpSettings, Body: settings.Append(nil)}), nil); err != nil {
		t.Fatal(err)
	}
	wantSecret(t, "built", built, jute.ErrNoAuth)

	with := replacement(w.tree)
	if got := w.ask(jute.OpDelete, superIDs, jute.AppendInt(jute.AppendString(nil, policy.Path), -1)); got.Err != jute.OK {
		t.Fatal(got.Err)
	}
	wantSecret(t, "deleted", w.tree, jute.OK)
	without := replacement(w.tree)
	if got := w.ask(OpRestore, superIDs, w.send(with, 1000)); got.Err != jute.OK {
		t.Fatal(got.Err)
	}
	wantSecret(t, "replaced", w.tree, jute.ErrNoAuth)
	dir := jute.CreateRequest{Path: RestorePath, ACL: jute.WorldACL(0)}
	w.ask(jute.OpCreate, superIDs, dir.Append(nil))
	if got := w.ask(OpRestore, superIDs, w.send(without, 1000)); got.Err != jute.OK {
		t.Fatal(got.Err)
	}
	wantSecret(t, "replaced by one without", w.tree, jute.OK)
}

// TestStruck: who wants to know is told of what a rule denies, and what it would deny, by the
// rule that decides, and of nothing else.
func TestStruck(t *testing.T) {
	t.Parallel()
	w := policed(t)
	var told []string
	w.tree.access.OnStruck(func(rule *policy.Rule, path string, ids []jute.ID) {
		told = append(told, fmt.Sprintf("%d %v %s %d", rule.Line, rule.Dry, path, len(ids)))
	})
	ann := []jute.ID{{Scheme: "digest", ID: "ann:x"}}
	w.tree.AppendGetData(nil, "/secret", ann)
	w.tree.AppendGetData(nil, "/secret", superIDs)
	w.tree.AppendGetData(nil, "/none", ann)
	w.tree.AppendGetACL(nil, "/secret", nil)
	set := jute.SetDataRequest{Path: "/secret", Version: -1}
	w.ask(jute.OpSetData, ann, set.Append(nil))
	closed := jute.SetACLRequest{
		Path: "/secret", ACL: []jute.ACL{{Perms: jute.PermRead, ID: jute.ID{Scheme: "digest", ID: "bob:y"}}}, Version: -1,
	}
	w.ask(jute.OpSetACL, superIDs, closed.Append(nil))
	w.ask(jute.OpSetData, ann, set.Append(nil)) // denied by the ACL
	w.tree.access.Permits("/secret", jute.WorldACL(jute.PermRead), jute.PermRead, ann)
	if want := []string{"1 false /secret 1", "1 false /secret 0", "2 true /secret 1"}; !slices.Equal(told, want) {
		t.Errorf("told of\n%s, want\n%s", strings.Join(told, "\n"), strings.Join(want, "\n"))
	}
	if w.tree.access.Permits("/secret", jute.WorldACL(jute.PermAll), jute.PermRead, ann) {
		t.Error("an event is told below a path that may not be read")
	}
	if !w.tree.access.Permits("/secret", jute.WorldACL(jute.PermAll), jute.PermRead|jute.PermCreate, ann) {
		t.Error("one of two permissions is left, and not granted")
	}
	if w.tree.access.Permits("/secret", jute.WorldACL(jute.PermRead), jute.PermRead|jute.PermCreate, ann) {
		t.Error("what the ACL doesn't grant is left, and granted")
	}
}

// TestReserved: what only superusers may create, only they may delete, in a multi too, and only they may create what
// restores are stored below. At level 2 it stays as the versions that know no more compute it.
func TestReserved(t *testing.T) {
	t.Parallel()
	anyone := []jute.ID{{Scheme: "ip", ID: "127.0.0.1"}}
	for _, level := range []int32{2, levelReserved} {
		for _, path := range []string{policy.Path, pathLimits, RestorePath} {
			w := policed(t)
			s := w.tree.Settings()
			s.FeatureLevel = level
			w.tree.settings = s
			create := func(ids []jute.ID) jute.Code {
				q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll)}
				return w.ask(jute.OpCreate, ids, q.Append(nil)).Err
			}
			if path == RestorePath { // there already
				w.ask(jute.OpDelete, superIDs, jute.AppendInt(jute.AppendString(nil, path), -1))
			}
			if path != policy.Path {
				want := jute.ErrNoAuth
				if level < levelReserved && path == RestorePath {
					want = jute.OK
				}
				if got := create(anyone); got != want {
					t.Errorf("level %d: anyone creates %s: %s, want %s", level, path, got, want)
				}
				create(superIDs)
			}
			want := jute.ErrNoAuth
			if level < levelReserved {
				want = jute.OK
			}
			del := jute.AppendInt(jute.AppendString(nil, path), -1)
			multi := jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpDelete, Path: path, Version: -1}})
			if got := w.ask(jute.OpMulti, anyone, multi); level >= levelReserved && w.tree.find(path) == 0 {
				t.Errorf("level %d: anyone deletes %s in a multi: %s", level, path, got.Err)
			} else if level < levelReserved {
				create(superIDs)
			}
			if got := w.ask(jute.OpDelete, anyone, del).Err; got != want {
				t.Errorf("level %d: anyone deletes %s: %s, want %s", level, path, got, want)
			}
			create(superIDs)
			if got := w.ask(jute.OpDelete, superIDs, del).Err; got != jute.OK {
				t.Errorf("level %d: a superuser deletes %s: %s", level, path, got)
			}
		}
	}
}
