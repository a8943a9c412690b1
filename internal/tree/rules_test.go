package tree

import (
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// finds returns a lookup of the rules that a replica has: "first/1" compares the first bytes, "last/1" the
// last ones.
func finds(names ...string) func(string) auth.Rule {
	all := map[string]auth.Rule{
		"first/1": func(id, entry string) bool { return id[:1] == entry[:1] },
		"last/1":  func(id, entry string) bool { return id[len(id)-1:] == entry[len(entry)-1:] },
	}
	return func(name string) auth.Rule {
		for _, have := range names {
			if have == name {
				return all[name]
			}
		}
		return nil
	}
}

// ruledBy is a request for settings of a feature level in which the scheme team has a rule, or none if the
// name is empty.
func ruledBy(level int32, name string) *Request {
	s := DefaultSettings()
	s.FeatureLevel, s.Schemes, s.Rules = level, auth.NewSchemes("team", "ip"), auth.Rules(nil).With("team", name)
	return &Request{Op: OpSettings, Body: s.Append(nil)}
}

// send applies one request to a tree.
func send(t *Tree, q *Request) (code jute.Code, err error) {
	err = t.Apply(1, t.LastIndex()+1, AppendRecord(AppendBatchHeader(nil, 1), q), func(r *Result) {
		for i := range r.Multi {
			if e := r.Multi[i].Err; r.Err == jute.OK && e != jute.OK {
				r.Err = e
			}
		}
		code = r.Err
	})
	return code, err
}

func team(id string, perms jute.Perm) []jute.ACL {
	return []jute.ACL{{Perms: perms, ID: jute.ID{Scheme: "team", ID: id}}}
}

// ruled returns a limiter whose replica knows some rules and has one of them in force.
func ruled(t *testing.T, name string) *limiter {
	l := newLimiter(t, levelRules)
	l.tree.findRule = finds("first/1", "last/1")
	l.ids = []jute.ID{{Scheme: "team", ID: "ann"}}
	l.rule(name)
	return l
}

func (l *limiter) rule(name string) {
	l.t.Helper()
	if _, err := send(l.tree, ruledBy(levelRules, name)); err != nil {
		l.t.Fatal(err)
	}
}

// TestRuleInForce: what is in force when a request is applied says how its ACLs match, those of before too.
func TestRuleInForce(t *testing.T) {
	t.Parallel()
	l := ruled(t, "")
	set := func(want jute.Code) {
		t.Helper()
		if code := l.apply(jute.OpSetData, (&jute.SetDataRequest{Path: "/r", Version: -1}).Append(nil)); code != want {
			t.Errorf("set is %v, want %v, with the rules %v", code, want, l.tree.Settings().Rules)
		}
		if ok := l.tree.access.Permits("/r", team("abc", jute.PermWrite), jute.PermWrite, l.ids); ok != (want == jute.OK) {
			t.Errorf("a reader is admitted: %v, want %v", ok, !ok)
		}
		if ok := l.tree.access.MayHear(&Event{Path: "/r", ACL: team("abc", jute.PermRead)}, l.ids); ok != (want == jute.OK) {
			t.Errorf("a watcher is admitted: %v, want %v", ok, !ok)
		}
	}
	if code := l.create("/r", team("abc", jute.PermAll)); code != jute.OK {
		t.Fatal(code)
	}
	set(jute.ErrNoAuth)
	l.rule("first/1")
	set(jute.OK)
	l.rule("last/1")
	set(jute.ErrNoAuth)
	l.rule("first/1")
	for _, late := range []int32{1, 3} { // entries of a former leader, which doesn't know of rules
		if _, err := send(l.tree, ruledBy(late, "")); err != nil {
			t.Fatal(err)
		}
		set(jute.OK)
	}
	if l.tree.Digest() != l.tree.RecomputeDigest() {
		t.Error("the digest is wrong")
	}
	l.rule("")
	set(jute.ErrNoAuth)
}

// TestRulesOfPolicies: a policy's exceptions match as ACLs do.
func TestRulesOfPolicies(t *testing.T) {
	t.Parallel()
	l := ruled(t, "")
	member := l.ids
	l.ids = []jute.ID{{Scheme: "super"}}
	l.create("/zookeeper/policy", jute.WorldACL(jute.PermRead))
	text := []byte("deny write below /p except team:abc\n")
	set := jute.SetDataRequest{Path: "/zookeeper/policy", Data: text, Version: -1}
	if code := l.apply(jute.OpSetData, set.Append(nil)); code != jute.OK {
		t.Fatal(code)
	}
	l.create("/p", jute.WorldACL(jute.PermAll))
	l.ids = member
	for name, want := range map[string]jute.Code{"first/1": jute.OK, "last/1": jute.ErrNoAuth} {
		l.rule(name)
		if code := l.apply(jute.OpSetData, (&jute.SetDataRequest{Path: "/p", Version: -1}).Append(nil)); code != want {
			t.Errorf("with the rule %s: %v, want %v", name, code, want)
		}
	}
}

// TestMissingRule: a replica without the rule in force stops at the entry or the snapshot that names it,
// changes nothing, and doesn't speak of damage.
func TestMissingRule(t *testing.T) {
	t.Parallel()
	l := ruled(t, "first/1")
	chunks := drain(l.tree, chunkSize)
	load := func(names ...string) (*Tree, error) {
		rest := chunks
		return Load(Options{FindRule: finds(names...)}, func() ([]byte, error) {
			if len(rest) == 0 {
				return nil, io.ErrUnexpectedEOF
			}
			c := rest[0]
			rest = rest[1:]
			return c, nil
		})
	}
	other := New(Options{FindRule: finds("last/1")})
	before := other.Digest()
	_, applied := send(other, ruledBy(levelRules, "first/1"))
	_, loaded := load("last/1")
	for what, err := range map[string]error{"an entry": applied, "a snapshot": loaded} {
		var missing *MissingRuleError
		if !errors.As(err, &missing) || errors.Is(err, errCorrupt) || *missing != (MissingRuleError{"team", "first/1"}) ||
			!strings.Contains(err.Error(), "first/1") {
			t.Errorf("%s: %v", what, err)
		}
	}
	if other.Digest() != before {
		t.Error("the entry changed the tree")
	}
	again, err := load("first/1", "last/1")
	if err != nil || again.Digest() != l.tree.Digest() || again.Settings().Rules.Of("team") != "first/1" ||
		!again.access.Permits("/", team("abc", jute.PermRead), jute.PermRead, l.ids) {
		t.Errorf("with the rule: %v", err)
	}
}

// TestPrograms applies one log on replicas whose programs have different rules. Each of them comes to the same
// results and digests, or stops at the entry that puts a rule in force that it doesn't have.
func TestPrograms(t *testing.T) {
	t.Parallel()
	stopped := map[int]int{}
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		replicas := []*Tree{}
		for _, has := range [][]string{{"first/1", "last/1"}, {"first/1"}, {"last/1"}, {}} {
			replicas = append(replicas, New(Options{FindRule: finds(has...)}))
		}
		both := replicas[0]
		word := func() string { return string([]byte{byte('a' + rnd.IntN(3)), byte('a' + rnd.IntN(3))}) }
		requests := []*Request{
			ruledBy(levelRules, ""),
			{Op: jute.OpCreateSession, Session: 1, Cnx: 1, Body: jute.AppendBuffer(jute.AppendInt(nil, 1000), make([]byte, 16))},
		}
		for n := range 200 {
			q := &Request{Session: 1, Cnx: 1, Seq: int64(n + 1), Identities: []jute.ID{{Scheme: "team", ID: word()}}}
			switch path := fmt.Sprint("/", rnd.IntN(8)); {
			case rnd.IntN(40) == 0:
				q = ruledBy(levelRules, []string{"", "first/1", "last/1"}[rnd.IntN(3)])
			case rnd.IntN(2) == 0:
				q.Op, q.Body = jute.OpCreate, (&jute.CreateRequest{Path: path, ACL: team(word(), jute.PermAll)}).Append(nil)
			default:
				set := jute.SetACLRequest{Path: path, ACL: team(word(), jute.PermAll), Version: -1}
				q.Op, q.Body = jute.OpSetACL, set.Append(nil)
			}
			requests = append(requests, q)
		}
		alive := []bool{true, true, true, true}
		denied, seq := 0, int64(0)
		for n, q := range requests {
			if q.Op.IsCreate() || q.Op == jute.OpSetACL {
				seq++
				q.Seq = seq
			}
			want, err := send(both, q)
			if err != nil {
				t.Fatalf("seed %d, request %d: %v", seed, n, err)
			}
			if want == jute.ErrNoAuth {
				denied++
			}
			for i, r := range replicas {
				if i == 0 || !alive[i] {
					continue
				}
				got, err := send(r, q)
				if err != nil {
					if q.Op != OpSettings || !errors.As(err, new(*MissingRuleError)) {
						t.Fatalf("seed %d, request %d: replica %d stops: %v", seed, n, i, err)
					}
					alive[i] = false
					stopped[i]++
				} else if got != want || r.Digest() != both.Digest() {
					t.Fatalf("seed %d, request %d: replica %d differs: %v, want %v", seed, n, i, got, want)
				}
			}
		}
		if denied == 0 {
			t.Errorf("seed %d: nothing was denied", seed)
		}
	}
	for i := 1; i <= 3; i++ {
		if stopped[i] < 10 {
			t.Errorf("replica %d stopped in %d of 40 runs", i, stopped[i])
		}
	}
}

// TestRuleCallsMax reaches the limit of what one multi may ask rules: the ACL beyond it admits nobody but a superuser,
// alone it admits who it names, and an ACL that was asked before still does.
func TestRuleCallsMax(t *testing.T) {
	const entries, bearers = 16, 8
	most := ruleCallsMax / (entries * bearers)
	l := ruled(t, "first/1")
	members := l.ids
	for len(members) < bearers {
		members = append(members, jute.ID{Scheme: "team", ID: fmt.Sprint("b", len(members))})
	}
	var sets []jute.MultiOp
	for n := range most + 1 {
		acl := team(fmt.Sprint("a", n), jute.PermWrite)
		for len(acl) < entries {
			acl = append(acl, team(fmt.Sprint("x", n, "-", len(acl)), jute.PermAll)...)
		}
		l.ids = []jute.ID{{Scheme: "super"}}
		path := fmt.Sprint("/c", n)
		if code := l.create(path, acl); code != jute.OK {
			t.Fatal(code)
		}
		sets = append(sets, jute.MultiOp{Op: jute.OpSetData, Path: path, Version: -1})
	}
	again := append(slices.Clone(sets[:most]), sets[:most]...)
	for what, c := range map[string]struct {
		ops  []jute.MultiOp
		ids  []jute.ID
		want jute.Code
	}{
		"the most":        {sets[:most], members, jute.OK},
		"each twice":      {again, members, jute.OK},
		"one more":        {sets, members, jute.ErrNoAuth},
		"that one":        {sets[most:], members, jute.OK},
		"by a superuser":  {sets, append(slices.Clone(members), jute.ID{Scheme: "super"}), jute.OK},
		"by others alone": {sets[:1], []jute.ID{{Scheme: "ip", ID: "10.0.0.1"}}, jute.ErrNoAuth},
	} {
		l.ids = c.ids
		if code := l.apply(jute.OpMulti, jute.AppendMulti(nil, c.ops)); code != c.want {
			t.Errorf("%s: %v, want %v", what, code, c.want)
		}
	}
}

// TestRulesAreWork: what a multi's checks ask a rule counts as its work, once for each ACL.
func TestRulesAreWork(t *testing.T) {
	l := ruled(t, "first/1")
	var acl []jute.ACL
	for n := range 16 {
		acl = append(acl, team(fmt.Sprint("z", n), jute.PermAll)...)
	}
	acl = append(acl, team("a", jute.PermWrite)...)[1:]
	l.create("/w", acl)
	l.ids = append(l.ids, jute.ID{Scheme: "team", ID: "bob"})
	var ops []jute.MultiOp
	for range 100 {
		ops = append(ops, jute.MultiOp{Op: jute.OpSetData, Path: "/w", Version: -1})
	}
	if work := l.multi(ops); work < 32 || work > 64 {
		t.Errorf("%d operations are work of %d; one check of them takes 32 calls at most", len(ops), work)
	}
}
