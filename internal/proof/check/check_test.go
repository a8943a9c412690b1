package check

import (
	"bytes"
	"fmt"
	"slices"
	"testing"

	"github.com/zooid-project/zooid/internal/proof/history"
)

func report(t *testing.T, h *history.History, r *Report) {
	t.Helper()
	var b bytes.Buffer
	r.Print(&b, h)
	t.Errorf("%s", b.String())
}

func TestGoodHistoriesPass(t *testing.T) {
	for _, kind := range []struct {
		name                                string
		crashes, gentle, prompt, unnumbered bool
	}{
		{name: "calm"},
		{name: "calm, unnumbered", unnumbered: true},
		{name: "reconnects", crashes: true, gentle: true, prompt: true},
		{name: "reconnects, unnumbered", crashes: true, gentle: true, prompt: true, unnumbered: true},
		{name: "expiries", crashes: true, gentle: true},
		{name: "expiries, unnumbered", crashes: true, gentle: true, unnumbered: true},
		{name: "crashes", crashes: true},
		{name: "crashes, unnumbered", crashes: true, unnumbered: true},
	} {
		seeds, steps := uint64(8), 4000
		if testing.Short() {
			seeds, steps = 1, 1000
		}
		for seed := range seeds {
			t.Run(fmt.Sprintf("%s/%d", kind.name, seed), func(t *testing.T) {
				e := newEnsemble(seed, 8)
				e.crashes, e.gentle, e.prompt, e.unnumbered = kind.crashes, kind.gentle, kind.prompt, kind.unnumbered
				h := e.run(steps)
				opt := Options{
					ExtendedTypes: true, NotificationsUnnumbered: kind.unnumbered, ViolationsMax: 3, Quiesced: !kind.crashes ||
						kind.prompt,
				}
				r := Check(h, opt)
				if !r.OK() || (kind.prompt || !kind.crashes) && r.Undecided > 0 {
					report(t, h, r)
				}
				h.Servers = []history.ServerLog{{Server: 1, Entries: e.log}}
				if r = Check(h, opt); !r.OK() || r.Undecided > 0 || r.Unplaced > 0 {
					report(t, h, r)
				}
			})
		}
	}
}

// TestServerBugsAreFound runs ensembles that make one mistake each.
func TestServerBugsAreFound(t *testing.T) {
	for _, bug := range []struct {
		name   string
		want   []Rule // any of these
		gentle bool
	}{
		{"read claims the newest zxid", []Rule{X1}, true},
		{"sync waits for nothing", []Rule{X9}, true},
		{"reconnect anywhere", []Rule{X7}, true},
		{"request applied twice", []Rule{Twice, X1, Sequence, Result}, true},
		{"events after replies", []Rule{X4}, true},
		{"session's end forgets an ephemeral", []Rule{X8}, true},
		{"sequence numbers count children", []Rule{Sequence}, true},
	} {
		for _, logs := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s/logs %v", bug.name, logs), func(t *testing.T) {
				t.Parallel()
				e := newEnsemble(11, 8)
				e.gentle, e.prompt, e.bug = bug.gentle, true, bug.name
				h := e.run(4000)
				want := bug.want
				if logs {
					h.Servers = []history.ServerLog{{Server: 1, Entries: e.log}}
					if bug.name == "request applied twice" {
						want = []Rule{Twice}
					}
				}
				r := Check(h, Options{ExtendedTypes: true})
				if !slices.ContainsFunc(r.Rules(), func(x Rule) bool { return slices.Contains(want, x) }) {
					t.Errorf("want one of %v, got %v", want, r.Rules())
				}
			})
		}
	}
}
