package replica

import (
	"errors"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// parseMembers reads members such as 1:a, each of one digit.
func parseMembers(text string) (members []quorum.Member, err error) {
	for id := range strings.FieldsSeq(text) {
		if !strings.Contains(id, "=") {
			members = append(members, quorum.Member{ID: uint64(id[0] - '0'), Addrs: []string{id}})
		}
	}
	return members, nil
}

// reconfigured returns a tree whose members are replaced by those of a reconfig.
func reconfigured() *tree.Tree {
	return tree.New(tree.Options{
		LevelMax: tree.FeatureLevelMax,
		Reconfigure: func(_ string, req *jute.ReconfigRequest, _ bool) (string, jute.Code) {
			return *req.NewMembers, jute.OK
		},
	})
}

// staging returns a replica of server 1, whose configuration names the members of own, and whose tree has applied q.
func staging(t *testing.T, own string, requests ...*tree.Request) *Replica {
	t.Helper()
	settings := tree.DefaultSettings()
	settings.FeatureLevel, settings.ReconfigEnabled, settings.SkipACL = 2, true, true
	batch := tree.AppendRecord(tree.AppendBatchHeader(nil, 1),
		&tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)})
	for _, q := range requests {
		batch = tree.AppendRecord(batch, q)
	}
	state := reconfigured()
	if err := state.Apply(1, 1, batch, nil); err != nil {
		t.Fatal(err)
	}
	registry, err := auth.New(auth.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return New(Options{
		ID: 1, Auth: registry, Kick: func() {}, Tree: state, Membership: Membership{Text: own, Parse: parseMembers},
		Now: func() int64 { return 1 }, Wall: func() int64 { return 1 }, Secret: func() []byte { return nil },
	})
}

// TestFirstMembershipIsReplaced: a first membership that isn't in force is replaced by that of the configuration of the
// server that leads, if the two differ.
func TestFirstMembershipIsReplaced(t *testing.T) {
	t.Parallel()
	wrong := &tree.Request{Op: tree.OpMembers, Body: []byte("1:a 2:wrong")}
	r := staging(t, "1:a 2:b", wrong)
	m, _ := r.members.Membership(-1)
	if m == nil || m.Change == nil || !m.Change.Replaced || m.Change.Patience != 0 {
		t.Fatalf("the membership is %+v, want a change that is replaced", m)
	}
	r.members.StepChange(m.Change.ID, quorum.ChangeDropped)
	batch := r.Batch()
	if err := r.tree.Apply(1, 2, batch[proposals.DigestSize:], nil); err != nil {
		t.Fatal(err)
	}
	if c, ok := r.tree.Membership().Change(); !ok || c.Text != "1:a 2:b" || c.Named {
		t.Fatalf("now %+v is staged, want what the configuration names", c)
	}
	if m, _ = r.members.Membership(-1); m.Change.Replaced {
		t.Error("what the configuration names is to be replaced")
	}
	for what, r := range map[string]*Replica{
		"the same":  staging(t, "1:a 2:wrong", wrong),
		"no server": staging(t, "", wrong),
		"one that is named": staging(t, "1:a 2:b", wrong,
			&tree.Request{Op: tree.OpChange, Body: tree.AppendChange(nil, m.Change.ID-2, tree.ChangeNamed)}),
	} {
		m, _ := r.members.Membership(-1)
		if m == nil || m.Change != nil && m.Change.Replaced {
			t.Errorf("%s: the membership is %+v, want none that is replaced", what, m)
		}
	}
}

// TestAbandonedReconfig: a reconfig whose session has ended is given up after a while; it keeps others from being
// taken. The configuration doesn't replace it.
func TestAbandonedReconfig(t *testing.T) {
	t.Parallel()
	first := &tree.Request{Op: tree.OpMembers, Seq: tree.MembersInForce, Body: []byte("1:a")}
	next := "1:a 2:b"
	reconfig := &jute.ReconfigRequest{NewMembers: &next, CurConfigID: -1}
	body := jute.AppendInt(reconfig.Append(nil), 0)
	const session = 1<<56 | 5
	create := jute.AppendBuffer(jute.AppendInt(nil, 10000), make([]byte, jute.PasswdSize))
	for _, ended := range []bool{false, true} {
		requests := []*tree.Request{
			first,
			{Op: jute.OpCreateSession, Session: session, Cnx: 1, Body: create},
			{Op: jute.OpReconfig, Session: session, Cnx: 1, Seq: 1, Body: body},
		}
		if ended {
			requests = append(requests, &tree.Request{Op: tree.OpExpire, Session: session, Body: jute.AppendLong(nil, 1)})
		}
		r := staging(t, "1:a 3:c", requests...)
		m, _ := r.members.Membership(-1)
		if m == nil || m.Change == nil || m.Change.Replaced {
			t.Fatalf("ended %t: the membership is %+v, want a change", ended, m)
		}
		if got := m.Change.Patience; got == 0 || (got == abandonedTicks) != ended {
			t.Errorf("ended %t: the change is given up after %d ticks", ended, got)
		}
	}
}

// TestUnparsedMembersOfAChange: a change whose own members can be parsed is ignored where those in force can't.
func TestUnparsedMembersOfAChange(t *testing.T) {
	t.Parallel()
	next := "1:a 2:b"
	reconfig := &jute.ReconfigRequest{NewMembers: &next, CurConfigID: -1}
	const session = 1<<56 | 5
	create := jute.AppendBuffer(jute.AppendInt(nil, 10000), make([]byte, jute.PasswdSize))
	r := staging(t, "1:a 3:c", &tree.Request{Op: tree.OpMembers, Seq: tree.MembersInForce, Body: []byte("1:wrong")},
		&tree.Request{Op: jute.OpCreateSession, Session: session, Cnx: 1, Body: create},
		&tree.Request{Op: jute.OpReconfig, Session: session, Cnx: 1, Seq: 1, Body: jute.AppendInt(reconfig.Append(nil), 0)})
	r.outside.membership.Parse = func(text string) ([]quorum.Member, error) {
		if strings.Contains(text, "wrong") {
			return nil, errors.New("unparsed")
		}
		return parseMembers(text)
	}
	if m, version := r.Membership(-1); m != nil || version <= 0 || !r.Changing() {
		t.Errorf("the membership %+v of version %d", m, version)
	}
}

// TestUnparsedMembership: a membership that can't be parsed is ignored, and looked at once.
func TestUnparsedMembership(t *testing.T) {
	t.Parallel()
	r := staging(t, "1:a", &tree.Request{Op: tree.OpMembers, Body: []byte("1:a 2:b")})
	wrong := errors.New("unparsed")
	r.outside.membership.Parse = func(string) ([]quorum.Member, error) { return nil, wrong }
	m, version := r.Membership(0)
	if m != nil || version == 0 {
		t.Errorf("the membership %+v of version %d", m, version)
	}
	if m, again := r.Membership(version); m != nil || again != version {
		t.Errorf("the membership %+v of version %d", m, again)
	}
	r.outside.membership.Parse = nil
	if m, version := r.Membership(0); m != nil || version != 0 {
		t.Errorf("without a parser, the membership %+v of version %d", m, version)
	}
}

// TestNamesMembers: entries that establish a membership are told from others.
func TestNamesMembers(t *testing.T) {
	t.Parallel()
	members := tree.Request{Op: tree.OpMembers, Body: []byte("1:a")}
	settings := tree.DefaultSettings()
	other := tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)}
	for _, of := range []struct {
		requests []*tree.Request
		want     bool
	}{
		{nil, false}, {[]*tree.Request{&members}, true}, {[]*tree.Request{&other}, false},
		{[]*tree.Request{&other, &members}, true},
	} {
		data := proposals.AppendHead(nil, 1, 0, 0)
		for _, q := range of.requests {
			data = tree.AppendRecord(data, q)
		}
		if got := NamesMembers(data); got != of.want {
			t.Errorf("%d requests: %t, want %t", len(of.requests), got, of.want)
		}
	}
	if NamesMembers(make([]byte, proposals.DigestSize-1)) || NamesMembers(nil) {
		t.Error("an entry without a head establishes a membership")
	}
}

// TestChangePatience: a reconfig waits for a quarter of its session's timeout, in ticks of the quorum.
func TestChangePatience(t *testing.T) {
	t.Parallel()
	for timeout, want := range map[int32]uint64{0: 0, 1: 1, 199: 1, 200: 1, 399: 1, 400: 2, 10_000: 50, 40_000: 200} {
		if got := changePatience(timeout); got != want {
			t.Errorf("with a timeout of %d ms it waits for %d ticks, want %d", timeout, got, want)
		}
	}
}
