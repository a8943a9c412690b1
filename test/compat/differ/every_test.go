package differ

import (
	"flag"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

var onlyEvery = flag.String("every", "", "a part of the names of the scripts that TestEveryOperation plays; \"\" means all")

// TestThemesCoverTable holds the generators to jute's table of operations, and the skips to the scripts.
func TestThemesCoverTable(t *testing.T) {
	t.Parallel()
	asked := map[jute.Op]bool{}
	for _, theme := range themes() {
		for _, op := range theme.ops {
			asked[op] = true
		}
	}
	for code := jute.Op(-1 << 15); code < 1<<15; code++ {
		if inTable := !strings.HasPrefix(code.String(), "op("); inTable && !asked[code] {
			t.Errorf("themes in every.go has no generator for the operation %v", code)
		} else if asked[code] && !inTable {
			t.Errorf("themes in every.go has a generator for %v, which isn't in jute's table", code)
		}
	}
	scripts, skipped := newVocabulary().every()
	for _, s := range skips() {
		if skipped[s.reason] == 0 {
			t.Errorf("no script is skipped because %s: remove the row", s.reason)
		}
	}
	names := map[string]bool{}
	for _, s := range scripts {
		if names[s.name] {
			t.Errorf("two scripts are called %q", s.name)
		}
		names[s.name] = true
	}
	t.Logf("%d scripts", len(scripts))
}

// TestEveryOperation plays the scripts of every.go on one server of each kind, one after the other, so that the zxids
// of all replies can be compared too.
func TestEveryOperation(t *testing.T) {
	p := startPair(t, rich)
	e := newEveryRun(p.words)
	for side := range 2 {
		e.addrs[side] = []string{p.addrs[side]}
	}
	start := time.Now()
	scripts, _ := e.words.every()
	e.all(t, scripts)
	e.summary(t, start)
	if *onlyEvery != "" {
		return
	}
	for _, k := range boundDifferences() {
		if e.excused[k.name] == 0 {
			t.Errorf("known difference %q was never seen", k.name)
		}
	}
}

// everyRun plays scripts on both sides. Connections 0 and 1 are to the first server of a side.
type everyRun struct {
	pair
	addrs [2][]string
}

func newEveryRun(words *vocabulary) *everyRun {
	return &everyRun{pair: pair{
		words: words, table: slices.Concat(knownDifferences(), boundDifferences()), coverage: coverage{},
		excused: map[string]int{}, different: map[string]int{},
	}}
}

// all plays scripts one after the other, each on both sides at once.
func (e *everyRun) all(t *testing.T, scripts []scenario) {
	t.Helper()
	for _, s := range scripts {
		if !strings.Contains(s.name, *onlyEvery) {
			continue
		}
		for again := true; again; {
			players := e.players()
			a, b := e.part(t, s, players, 0, len(s.steps))
			for _, p := range players {
				p.leave()
			}
			s, again = s.rest(e.compareSeen(t, s, a, b))
		}
	}
}

// rest returns the script of the steps that couldn't be compared, because a known difference or the end of connection
// 0 came before them.
func (s scenario) rest(compared int) (scenario, bool) {
	if compared <= s.begins {
		return s, false
	}
	s.steps = slices.Concat(s.steps[:s.begins], s.steps[compared:])
	return s, slices.ContainsFunc(s.steps[s.begins:], func(s step) bool { return s.conn == 0 })
}

// players returns a script's players.
func (e *everyRun) players() (players [2]*player) {
	root := rootOf(e.roots.Add(1))
	for side := range players {
		players[side] = e.words.player(e.addrs[side][0], root)
		players[side].exact = true
	}
	return players
}

// part plays some of a script's steps on both sides.
func (e *everyRun) part(t *testing.T, s scenario, players [2]*player, from, to int) (a, b []seen) {
	t.Helper()
	var errs [2]error
	var wait sync.WaitGroup
	for side, all := range []*[]seen{&a, &b} {
		wait.Go(func() { *all, errs[side] = players[side].run(s.steps[from:to]) })
	}
	wait.Wait()
	if errs[0] != nil || errs[1] != nil {
		t.Fatalf("%s: on the reference %v, on the subject %v", s.name, errs[0], errs[1])
	}
	return a, b
}

// compareSeen compares what a script showed on the two sides, and returns how many steps it has compared. From the
// first on whose connection isn't open on either side there is nothing to compare.
func (e *everyRun) compareSeen(t *testing.T, s scenario, a, b []seen) (compared int) {
	for i := range s.steps {
		if a[i].err == notConnected && b[i].err == notConnected {
			s.steps, a, b = s.steps[:i], a[:i], b[:i]
			break
		}
	}
	c := comparison{excuse: excuse(e.table), excused: map[string]int{}}
	d := c.compare(s.steps, a, b)
	e.coverage.count(s.steps, a)
	e.played += len(s.steps)
	e.compared += c.compared
	for name, n := range c.excused {
		e.excused[name] += n
	}
	if d == nil {
		return c.compared
	}
	if e.different[d.key]++; e.different[d.key] == 1 {
		t.Errorf("%s: %s\n%s", s.name, d.key, e.ending(outcome{steps: s.steps, a: a, b: b, differs: d}))
	} else {
		t.Errorf("%s: %s", s.name, d.key)
	}
	return c.compared
}

// ending reports the last steps up to a difference.
func (e *everyRun) ending(o outcome) string {
	const enough = 6
	var out strings.Builder
	for i := max(0, o.differs.at-enough); i <= o.differs.at; i++ {
		line := fmt.Sprintf("%d %s", o.steps[i].conn, e.words.formatStep(&o.steps[i]))
		fmt.Fprintf(&out, "%s\n#   %s\n", line[:min(len(line), 600)], oneComment(o.a[i].format()))
	}
	fmt.Fprintf(&out, "# differs: %s; the other side:\n#   %s\n", o.differs.what, oneComment(o.b[o.differs.at].format()))
	return out.String()
}

// TestRestOfScript: what follows a known difference, or the end of the connection, is played again.
func TestRestOfScript(t *testing.T) {
	t.Parallel()
	w := newVocabulary()
	steps := []step{w.step(0, "connect", connectNew, everyTimeout)}
	for range 3 {
		steps = append(steps, w.step(0, "auth", 0, "digest", "a:b"), w.step(1, "ping"))
	}
	all := scenario{name: "three logins", steps: steps, begins: 1}
	for _, c := range []struct{ compared, left int }{{2, 6}, {3, 5}, {4, 4}, {5, 3}, {6, 0}, {7, 0}, {1, 0}} {
		rest, again := all.rest(c.compared)
		if again != (c.left > 0) {
			t.Errorf("after %d steps: played again: %v", c.compared, again)
		} else if again && (len(rest.steps) != c.left || rest.steps[0].word != "connect") {
			t.Errorf("after %d steps there are %d left, the first of them %s; want %d after connect", c.compared,
				len(rest.steps), rest.steps[0].word, c.left)
		}
	}
	e := newEveryRun(w)
	login := seen{err: "0"}
	gone := seen{err: notConnected}
	if n := e.compareSeen(t, all, []seen{login, login, login, gone, login, gone, login}, []seen{login, login, login, gone,
		login, gone, login}); n != 3 {
		t.Errorf("%d steps compared, want the 3 before the connection was gone", n)
	}
}
