package differ

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/test/compat"
)

var (
	sequences = flag.Int("sequences", 0, "scripts to generate; 0 means 2000, 800 with -short")
	ops       = flag.Int("ops", 200, "steps of each")
	seed      = flag.Uint64("seed", 1, "what they are generated from")
	script    = flag.String("script", "", "a script's file to run on both servers instead")
	parallel  = flag.Int("scripts", 16, "scripts played at the same time")
	wanted    = flag.Int("differences", 20, "kinds of differences after which to stop")
)

func TestMain(m *testing.M) { compat.Main(m) }

// Every server of a comparison has these.
var (
	config = map[string]string{"minSessionTimeout": "60000", "maxSessionTimeout": "600000"}
	// rich servers can all that is off by default; plain ones are as they come.
	rich = compat.Options{
		Config: map[string]string{"enforceQuota": "true", "reconfigEnabled": "true"},
		Properties: map[string]string{
			"zookeeper.extendedTypesEnabled":                     "true",
			"znode.container.checkIntervalMs":                    "86400000",
			"zookeeper.DigestAuthenticationProvider.superDigest": digestID(superUser),
		},
	}
	plainly = compat.Options{Properties: map[string]string{
		"zookeeper.extendedTypesEnabled":  "false", // Zooid's default is true
		"znode.container.checkIntervalMs": "86400000",
	}}
)

// pair is a server of each kind.
type pair struct {
	words     *vocabulary
	addrs     [2]string
	roots     atomic.Int64
	table     []known
	mutex     sync.Mutex
	coverage  coverage
	excused   map[string]int
	different map[string]int
	broken    atomic.Bool // a server is gone
	played    int         // steps
	compared  int         // of them; the rest came after a difference that ends a comparison
}

func startPair(t *testing.T, options compat.Options) *pair {
	t.Helper()
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs a real Apache ZooKeeper: see test/compat/README.md")
	}
	options.Config = maps.Clone(options.Config)
	if options.Config == nil {
		options.Config = map[string]string{}
	}
	maps.Copy(options.Config, config)
	p := &pair{
		words: newVocabulary(), table: knownDifferences(), coverage: coverage{}, excused: map[string]int{},
		different: map[string]int{},
	}
	for i, name := range []string{
		named("ZOOID_COMPAT_REFERENCE", compat.Apache39), named("ZOOID_COMPAT_SUBJECT", compat.Zooid),
	} {
		p.addrs[i] = compat.Start(t, compat.Find(t, name), options).Addr
	}
	return p
}

func named(variable, otherwise string) string {
	if name := os.Getenv(variable); name != "" {
		return name
	}
	return otherwise
}

// play plays a script on both servers at once.
func (p *pair) play(steps []step) (a, b []seen, err error) {
	root := rootOf(p.roots.Add(1))
	var errs [2]error
	var wait sync.WaitGroup
	for i, all := range []*[]seen{&a, &b} {
		wait.Go(func() { *all, errs[i] = p.words.play(p.addrs[i], root, steps) })
	}
	wait.Wait()
	for i, err := range errs {
		if err != nil {
			return nil, nil, fmt.Errorf("playing a script at %s: %w", p.addrs[i], err)
		}
	}
	return a, b, nil
}

// outcome is what the play of one script on both servers came to.
type outcome struct {
	steps    []step
	a, b     []seen
	differs  *difference // the first that isn't known, or nil
	excused  map[string]int
	compared int // steps
}

// compare plays a script.
func (p *pair) compare(steps []step) (outcome, error) {
	a, b, err := p.play(steps)
	if err != nil {
		return outcome{}, err
	}
	c := comparison{excuse: excuse(p.table), excused: map[string]int{}}
	d := c.compare(steps, a, b)
	return outcome{steps, a, b, d, c.excused, c.compared}, nil
}

// judge compares one script, and shrinks and prints a difference of a new kind.
func (p *pair) judge(t *testing.T, name string, steps []step) {
	o, err := p.compare(steps)
	if err != nil {
		p.broken.Store(true)
		t.Errorf("%s: %v", name, err)
		return
	}
	d := o.differs
	p.mutex.Lock()
	p.coverage.count(steps, o.a)
	p.played += len(steps)
	p.compared += o.compared
	for name, n := range o.excused {
		p.excused[name] += n
	}
	first := false
	if d != nil {
		p.different[d.key]++
		first = p.different[d.key] == 1
	}
	p.mutex.Unlock()
	if !first {
		return
	}
	shrink(steps[:d.at+1], 500, func(steps []step) bool {
		again, err := p.compare(steps)
		if err != nil || again.differs == nil || again.differs.key != d.key {
			return false
		}
		o = again
		return true
	})
	t.Errorf("%s: %s\n%s", name, d.key, p.report(o))
}

// report shows a script, step by step, with what the two servers showed where that differs.
func (p *pair) report(o outcome) string {
	var out strings.Builder
	at := o.differs.at
	for i := range at + 1 {
		fmt.Fprintf(&out, "%d %s\n", o.steps[i].conn, p.words.formatStep(&o.steps[i]))
		fmt.Fprintf(&out, "#   %s\n", oneComment(o.a[i].format()))
	}
	fmt.Fprintf(&out, "# differs: %s; the other side:\n#   %s\n", o.differs.what, oneComment(o.b[at].format()))
	return out.String()
}

func oneComment(s string) string {
	const enough = 1500
	s = s[:min(len(s), enough)]
	return strings.ReplaceAll(s, "\n", "\n# ")
}

// summary shows what a run covered.
func (p *pair) summary(t *testing.T, since time.Time) {
	t.Logf("%v, %d of %d steps compared; what came of the steps on the reference:\n%s",
		time.Since(since).Round(time.Second), p.compared, p.played, p.coverage.table())
	for _, name := range slices.Sorted(maps.Keys(p.excused)) {
		t.Logf("known difference %q: %d times", name, p.excused[name])
	}
	for _, key := range slices.Sorted(maps.Keys(p.different)) {
		t.Logf("difference in %d scripts: %s", p.different[key], key)
	}
}

// many runs generated scripts first to last, several at once.
func (p *pair) many(t *testing.T, first, last int) {
	start := time.Now()
	var next, ready atomic.Int64
	next.Store(int64(first))
	var wait sync.WaitGroup
	for range *parallel {
		wait.Go(func() {
			for i := next.Add(1) - 1; i < int64(last) && !p.enough(); i = next.Add(1) - 1 {
				p.judge(t, fmt.Sprintf("script %d of seed %d", i, *seed), p.words.generate(*seed, uint64(i), *ops))
				if n := ready.Add(1); n%200 == 0 {
					t.Logf("%d of %d scripts, %v", n, last-first, time.Since(start).Round(time.Second))
				}
			}
		})
	}
	wait.Wait()
	p.summary(t, start)
}

func (p *pair) enough() bool {
	p.mutex.Lock()
	defer p.mutex.Unlock()
	return len(p.different) >= *wanted || p.broken.Load()
}

// TestSameScript plays generated scripts on both servers, three quarters of them on servers that have everything
// switched on and one on servers as they come.
func TestSameScript(t *testing.T) {
	if *script != "" {
		one := startPair(t, rich)
		text, err := os.ReadFile(*script)
		if err != nil {
			t.Fatal(err)
		}
		steps, err := one.words.parse(string(text))
		if err != nil {
			t.Fatal(err)
		}
		o, err := one.compare(steps)
		if err != nil {
			t.Fatal(err)
		}
		if o.differs != nil {
			t.Fatalf("%s:\n%s", o.differs.key, one.report(o))
		}
		for i := range steps {
			t.Logf("%d %s\n   %s\n   %s", steps[i].conn, one.words.formatStep(&steps[i]), o.a[i].format(), o.b[i].format())
		}
		return
	}
	scripts := *sequences
	if scripts == 0 {
		if scripts = 2000; testing.Short() {
			scripts = 800
		}
	}
	total := coverage{}
	excused := map[string]int{}
	most := scripts * 3 / 4
	for _, part := range []struct {
		name        string
		options     compat.Options
		first, last int
	}{{"rich", rich, 0, most}, {"plain", plainly, most, scripts}} {
		t.Run(part.name, func(t *testing.T) {
			p := startPair(t, part.options)
			p.many(t, part.first, part.last)
			for word, outcomes := range p.coverage {
				for outcome, n := range outcomes {
					if total[word] == nil {
						total[word] = map[string]int{}
					}
					total[word][outcome] += n
				}
			}
			for name, n := range p.excused {
				excused[name] += n
			}
		})
	}
	// A short run needn't have seen everything.
	const long = 100_000
	if os.Getenv("ZOOID_COMPAT") != "1" || scripts**ops < long {
		return
	}
	for _, gap := range total.missing() {
		t.Errorf("no step of the run had the outcome %s", gap)
	}
	for _, k := range knownDifferences() {
		if excused[k.name] == 0 {
			t.Errorf("known difference %q was never seen", k.name)
		}
	}
}

// TestKnownDifferencesAreDocumented holds the table to docs/protocol.md.
func TestKnownDifferencesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range slices.Concat(knownDifferences(), boundDifferences()) {
		if !strings.Contains(string(page), "| "+k.name+" |") {
			t.Errorf("docs/protocol.md has no row %q", k.name)
		}
	}
}
