package replica

import (
	"bytes"
	"log/slog"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// rulesOf returns the rules in a text like "team=glob seat=x".
func rulesOf(text string) (rules auth.Rules) {
	for _, entry := range strings.Fields(text) {
		scheme, name, _ := strings.Cut(entry, "=")
		rules = rules.With(scheme, name)
	}
	return rules
}

// TestAgreeOnRules: what a leader puts in force, by what is in force, what it is configured with, and what the other
// two members have announced; "?" is one that wasn't heard.
func TestAgreeOnRules(t *testing.T) {
	t.Parallel()
	const (
		teams = "digest seat team"
		old   = 3 // the feature level before rules
	)
	for _, c := range []struct {
		inForce, own string
		members      []string
		level        int32
		rules        string
		schemes      string
	}{
		{"", "", []string{"", ""}, 4, "", teams},
		{"", "team=glob", []string{"team=glob", "team=glob"}, 4, "team=glob", teams},
		{"", "team=glob", nil, 4, "team=glob", teams}, // alone
		{"", "team=glob", []string{"team=glob", "team=glob"}, old, "", "digest seat"},
		{"", "team=glob", []string{"team=glob", ""}, 4, "", "digest seat"},
		{"", "team=glob", []string{"team=glob", "?"}, 4, "", "digest seat"},
		{"", "team=glob", []string{"team=glob", "team=other"}, 4, "", "digest seat"},
		{"", "", []string{"team=glob", "team=glob"}, 4, "", "digest seat"}, // others have one, this leader doesn't
		{"", "team=glob seat=glob", []string{"team=glob seat=glob", "team=glob"}, 4, "team=glob", "digest team"},
		{"team=glob", "team=glob", []string{"?", "?"}, 4, "team=glob", teams},
		{"team=glob", "team=new", []string{"team=glob", "team=new"}, 4, "team=glob", teams}, // an upgrade
		{"team=glob", "team=new", []string{"team=new", "?"}, 4, "team=glob", teams},
		{"team=glob", "team=new", []string{"team=new", "team=new"}, 4, "team=new", teams},
		{"team=glob", "", []string{"", "team=glob"}, 4, "team=glob", teams}, // a removal
		{"team=glob", "", []string{"", "?"}, 4, "team=glob", teams},
		{"team=glob", "", []string{"", ""}, 4, "", teams},
		{"a=x b=x c=x d=x e=x f=x g=x h=x", "a=x b=x c=x d=x e=x f=x g=x team=glob",
			[]string{"a=x b=x c=x d=x e=x f=x g=x h=x team=glob"}, 4, "a=x b=x c=x d=x e=x f=x g=x h=x", "digest seat"},
	} {
		s := newStage(t, Options{Settings: tree.Settings{
			Schemes: auth.NewSchemes("digest", "team", "seat"), Rules: rulesOf(c.own),
		}})
		var heard []quorum.Announcement
		for i, text := range c.members {
			heard = append(heard, quorum.Announcement{ID: uint64(i + 2), Heard: text != "?", Rules: rulesOf(text).Append(nil)})
		}
		s.r.levels.Announced(heard)
		want := s.r.settings
		want.FeatureLevel = c.level
		s.r.levels.agreeOnRules(rulesOf(c.inForce), &want)
		if got := strings.Join(want.Schemes, " "); !want.Rules.Equal(rulesOf(c.rules)) || got != c.schemes {
			t.Errorf("%+v: rules %v, schemes %s", c, want.Rules, got)
		}
		if got := strings.Join(s.r.settings.Schemes, " "); got != teams {
			t.Fatalf("%+v: the server's own schemes are %s now", c, got)
		}
	}
}

// TestRulesComeIntoForce: a leader proposes settings when the last member announces the rule, once they are applied
// nothing more, and says after a while who lacks it.
func TestRulesComeIntoForce(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	own := tree.Settings{Schemes: auth.NewSchemes("digest", "team"), Rules: rulesOf("team=glob")}
	s := newStage(t, Options{Settings: own, Log: slog.New(slog.NewTextHandler(&log, nil))})
	announce := func(texts ...string) (settings []tree.Settings) {
		t.Helper()
		var heard []quorum.Announcement
		for i, text := range texts {
			heard = append(heard, quorum.Announcement{ID: uint64(i + 2), Heard: text != "?", Rules: rulesOf(text).Append(nil)})
		}
		s.r.levels.Supported(4)
		s.r.levels.Announced(heard)
		for entry, _ := s.r.proposals.Take(); entry != nil; entry, _ = s.r.proposals.Take() {
			records := entry[proposals.HeadSize:]
			var q tree.Request
			for batch := tree.RecordsOf(records); batch.Next(&q); {
				var put tree.Settings
				if q.Op == tree.OpSettings && put.Decode(jute.NewDecoder(q.Body)) == nil {
					settings = append(settings, put)
				}
			}
			s.apply(records)
		}
		return settings
	}
	s.lead(1)
	s.r.Lead(quorum.Leadership{Leader: 1, IsLeader: true, Term: s.term})
	announce("team=glob", "?")
	if have := s.r.tree.Settings(); len(have.Rules) > 0 || have.Schemes.Has("team") || have.FeatureLevel != 4 {
		t.Fatalf("while one isn't heard: %+v", have)
	}
	s.r.Expire(20_000, 19_000)
	s.r.Expire(20_000+unmetPatienceMs-1, 20_000)
	if n := len(s.r.View().RulesWaiting); n != 1 || strings.Contains(log.String(), "same rule") {
		t.Errorf("%d rules wait; logged:\n%s", n, log.String())
	}
	s.r.Expire(20_000+unmetPatienceMs, 20_000)
	s.r.Expire(20_000+9*unmetPatienceMs, 20_000)
	if text := log.String(); strings.Count(text, "not all members have the same rule") != 1 ||
		!strings.Contains(text, "team: here glob, server 2 glob, server 3 isn't connected") {
		t.Errorf("logged:\n%s", text)
	}
	if got := announce("team=glob", "team=glob"); len(got) != 1 || !got[0].Rules.Equal(own.Rules) ||
		!got[0].Schemes.Has("team") {
		t.Errorf("once all have announced it, %+v is proposed", got)
	}
	c := s.client(nil)
	was := s.r.reads.readWork(c, 10, 10)
	c.Prove(&auth.Proof{IDs: []jute.ID{{Scheme: "team", ID: "ann"}, {Scheme: "digest", ID: "a:b"}}})
	if got := s.r.reads.readWork(c, 10, 10); got != was+readWorkIdentity+readWorkRuled {
		t.Errorf("with an identity that a rule may be asked about, a read is work of %d, not %d", got, was)
	}
	s.r.Expire(40_000+9*unmetPatienceMs, 20_000)
	if n := len(s.r.View().RulesWaiting); n != 0 || !strings.Contains(log.String(), "have the same rules for") {
		t.Errorf("%d rules wait; logged:\n%s", n, log.String())
	}
	for _, later := range [][]string{{"team=glob", "team=glob"}, {"?", "?"}, {"team=glob", ""}} {
		if got := announce(later...); len(got) > 0 {
			t.Errorf("after %q, %+v is proposed", later, got)
		}
	}
	if !slices.Equal(s.r.levels.Rules(), own.Rules.Append(nil)) {
		t.Error("it announces something else than its rules")
	}
}

// TestAnnouncedAgain: what a member announces again is the same, and anything else isn't.
func TestAnnouncedAgain(t *testing.T) {
	t.Parallel()
	a := announced{id: 2, heard: true, rules: rulesOf("team=glob")}
	for _, of := range []struct {
		b    announced
		same bool
	}{
		{announced{2, true, rulesOf("team=glob")}, true}, {announced{3, true, rulesOf("team=glob")}, false},
		{announced{2, false, rulesOf("team=glob")}, false}, {announced{2, true, nil}, false},
	} {
		if a.equal(of.b) != of.same {
			t.Errorf("%+v is the same: %t", of.b, !of.same)
		}
	}
}
