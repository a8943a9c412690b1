package differ

import (
	"reflect"
	"slices"
	"strings"
	"testing"
)

// Tests of the machinery itself; they need nothing installed.

func TestScriptsSurviveTheirTextForm(t *testing.T) {
	t.Parallel()
	w := newVocabulary()
	for i := range 40 {
		steps := w.generate(7, uint64(i), 300)
		text := w.format(steps)
		again, err := w.parse("# a comment\n\n" + text)
		if err != nil {
			t.Fatal(err)
		}
		if got := w.format(again); got != text {
			t.Fatalf("script %d, parsed and written again, reads\n%s\nnot\n%s", i, got, text)
		}
		for j := range steps {
			want := w.body(nil, &steps[j], "/root", func(string) int64 { return 7 })
			if got := w.body(nil, &again[j], "/root", func(string) int64 { return 7 }); !slices.Equal(got, want) {
				t.Fatalf("script %d, step %d, %s: body %x, want %x", i, j, w.formatStep(&steps[j]), got, want)
			}
		}
	}
}

func TestScriptsComeFromTheirSeed(t *testing.T) {
	t.Parallel()
	w := newVocabulary()
	first, again := w.format(w.generate(3, 5, 200)), w.format(w.generate(3, 5, 200))
	if first != again {
		t.Error("one seed gave two scripts")
	}
	if first == w.format(w.generate(4, 5, 200)) || first == w.format(w.generate(3, 6, 200)) {
		t.Error("two seeds gave one script")
	}
}

func TestBadScriptsAreRefused(t *testing.T) {
	t.Parallel()
	for _, script := range []string{"+ delete", "x ping", "0 fly", "0 delete path=x", "0 delete path", `0 delete way="~"`,
		`0 delete path="~`,
		`0 setWatches data=["~"`, `0 sync path="~"*x`, `0 sync path="~"*-1`, `0 delete version=many`} {
		if _, err := newVocabulary().parse(script); err == nil || !strings.Contains(err.Error(), "line 1") {
			t.Errorf("script %q: error %v, want one that names line 1", script, err)
		}
	}
}

// recording is what a small script showed.
func recording() []seen {
	stat := func(czxid, mzxid, owner int64) []field {
		return []field{
			zxidField("czxid", czxid), zxidField("mzxid", mzxid), sessionField("ephemeralOwner", owner), number("version", 1),
		}
	}
	return []seen{
		{err: "0", fields: stat(10, 10, 77)},
		{err: "0", fields: stat(10, 12, 77), events: []heard{
			{0, []field{text("event", "1 /a"), zxidField("zxid", 12)}},
			{1, []field{text("event", "4 /"), zxidField("zxid", 12)}}}},
		{err: "-101"},
		{err: "0", fields: stat(14, 14, 78), lost: []int{1}},
	}
}

func TestComparison(t *testing.T) {
	t.Parallel()
	steps := make([]step, 4)
	for _, c := range []struct {
		name string
		edit func(s []seen)
		at   int // -1: no difference
	}{
		{"nothing", func([]seen) {}, -1},
		{"other zxids in the same order", func(s []seen) {
			for i, f := range []int{0, 1, 3} {
				s[f].fields[0].n, s[f].fields[1].n = []int64{5, 5, 900}[i], []int64{5, 600, 900}[i]
			}
			s[1].events[0].fields[1].n, s[1].events[1].fields[1].n = 600, 600
		}, -1},
		{"other sessions", func(s []seen) { s[0].fields[2].n, s[1].fields[2].n, s[3].fields[2].n = 9, 9, 3 }, -1},
		{"an error", func(s []seen) { s[2].err = "-102" }, 2},
		{"a value", func(s []seen) { s[0].fields[3].text = "2" }, 0},
		{"a field", func(s []seen) { s[0].fields = s[0].fields[:3] }, 0},
		{"two zxids for one", func(s []seen) { s[1].fields[0].n = 11 }, 1},
		{"one zxid for two", func(s []seen) { s[3].fields[0].n = 12 }, 3},
		{"zxids in another order", func(s []seen) { s[3].fields[0].n, s[3].fields[1].n = 11, 11 }, 3},
		{"a zxid for -1", func(s []seen) { s[1].events[0].fields[1].n = -1 }, 1},
		{"one session for two", func(s []seen) { s[3].fields[2].n = 77 }, 3},
		{"no session", func(s []seen) { s[0].fields[2].n = 0 }, 0},
		{"an event less", func(s []seen) { s[1].events = s[1].events[:1] }, 1},
		{"an event elsewhere", func(s []seen) { s[1].events[0].conn = 1 }, 1},
		{"events of two connections swapped", func(s []seen) { slices.Reverse(s[1].events) }, -1},
		{"events of one connection swapped", func(s []seen) { s[1].events[0], s[1].events[1].conn = s[1].events[1], 1 }, 1},
		{"a connection that lives", func(s []seen) { s[3].lost = nil }, 3},
	} {
		b := recording()
		c.edit(b)
		with := comparison{excuse: excuse(nil)}
		at := -1
		if d := with.compare(steps, recording(), b); d != nil {
			at = d.at
		}
		if at != c.at {
			t.Errorf("%s: differs at step %d, want %d", c.name, at, c.at)
		}
	}
}

func TestExcusedDifferencesAreCountedAndMayEndTheComparison(t *testing.T) {
	t.Parallel()
	table := []known{
		{name: "wait", shows: func(_ *step, a, b *seen) bool { return b.err == "-7" }},
		{name: "end", ends: true, shows: func(_ *step, a, b *seen) bool { return b.err == "-8" }},
	}
	for _, c := range []struct {
		second, third string
		at            int
		excused       map[string]int
	}{
		{"-7", "-101", -1, map[string]int{"wait": 1}},
		{"-7", "-9", 2, map[string]int{"wait": 1}},
		{"-8", "-9", -1, map[string]int{"end": 1}},
	} {
		b := recording()
		b[1].err, b[2].err = c.second, c.third
		with := comparison{excuse: excuse(table), excused: map[string]int{}}
		at := -1
		if d := with.compare(make([]step, 4), recording(), b); d != nil {
			at = d.at
		}
		if at != c.at || !reflect.DeepEqual(with.excused, c.excused) {
			t.Errorf("%s then %s: differs at %d, excused %v; want %d, %v", c.second, c.third, at, with.excused, c.at, c.excused)
		}
	}
}

func TestShrinkingKeepsWhatIsNeeded(t *testing.T) {
	t.Parallel()
	w := newVocabulary()
	steps := w.generate(1, 1, 120)
	multi := w.step(0, "multi")
	multi.subs = []step{w.step(0, "delete", "~/a", 3), w.step(0, "check", "~/b", 9), w.step(0, "delete", "~/c", 3)}
	steps = slices.Insert(steps, 50, w.step(5, "setData", "~/x/y", "much", 4))
	steps = slices.Insert(steps, 90, multi)
	original := w.format(steps)
	short := shrink(steps, 5000, func(steps []step) bool {
		text := w.format(steps)
		write := strings.Index(text, "5 setData path=")
		return write >= 0 && strings.Contains(text[write:], "version=9\n")
	})
	want := "5 setData path=\"~\" data=\"\" version=0\n0 multi\n+ check path=\"~\" version=9\n"
	if got := w.format(short); got != want {
		t.Errorf("shrunk to\n%swant\n%s", got, want)
	}
	if w.format(steps) != original {
		t.Error("shrinking changed the script it was given")
	}
}

func TestCoverageNamesItsGaps(t *testing.T) {
	t.Parallel()
	c := coverage{}
	w := newVocabulary()
	steps := []step{w.step(0, "ping"), w.step(0, "delete", "~", -1), w.step(0, "multi")}
	c.count(steps,
		[]seen{{err: "0"}, {err: "-101"}, {err: "0", fields: []field{number("number", 0), number("number", -110)}}})
	gaps := c.missing()
	for _, gap := range []string{"delete 0", "delete -102", "sync 0", "(multi) 0"} {
		if !slices.Contains(gaps, gap) {
			t.Errorf("no gap %q", gap)
		}
	}
	for _, gap := range []string{"ping 0", "delete -101", "multi 0", "(multi) -110"} {
		if slices.Contains(gaps, gap) {
			t.Errorf("gap %q, though it was seen", gap)
		}
	}
	if table := c.table(); !strings.Contains(table, "NoNode 1") {
		t.Errorf("the table doesn't show what was counted:\n%s", table)
	}
}
