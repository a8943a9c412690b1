package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

var rewrite = flag.Bool("rewrite", false, "write testdata/small.txt anew")

// core are the packages whose mutants make nightly runs; docs/mutation.md has their figures.
var core = []string{
	"jute", "internal/auth", "internal/expiry", "internal/policy", "internal/proposals", "internal/quorum",
	"internal/replica", "internal/storage", "internal/tree",
	"internal/watch",
}

// TestSmall holds what becomes of each mutant of a small package to a transcript: one that turns in circles ends, one
// that waits for ever ends, and a test that fails anyway kills nothing.
func TestSmall(t *testing.T) {
	pkg, err := load("./testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	r := &report{pkg: pkg}
	if err := r.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, m := range slices.Concat(r.chosen, r.unreached) {
		how := "unreached"
		switch e, ran := r.ended[m]; {
		case ran && (e.spun || e.late): // which of them depends on how busy the machine is
			how = "late"
		case ran && e.failed:
			how = "killed"
		case ran:
			how = "survived"
		}
		fmt.Fprintf(&got, "%-9s %s:%d %s\n", how, m.function, m.line, m)
	}
	for _, test := range r.tests {
		if test.failed != (test.name == "TestBroken") {
			t.Errorf("%s: failed %v without a mutant", test.name, test.failed)
		}
	}
	const file = "testdata/small.txt"
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if got.String() != string(want) {
		t.Errorf("got:\n%swant:\n%s-rewrite writes the file anew", got.String(), want)
	}
	for _, want := range []string{"late", "killed", "survived", "unreached"} {
		if !strings.Contains(got.String(), want) {
			t.Errorf("no mutant is %s", want)
		}
	}
}

// TestAgain runs only what an earlier run listed as survivors.
func TestAgain(t *testing.T) {
	pkg, err := load("./testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	all := pkg.find()
	file := filepath.Join(t.TempDir(), "earlier.txt")
	printed := "survived\t" + line(all[3]) + "\nunreached\t" + line(all[4]) + "\nsmall: 20 mutants\n"
	if err := os.WriteFile(file, []byte(printed), 0o600); err != nil {
		t.Fatal(err)
	}
	r := &report{pkg: pkg}
	if r.again, err = survivorsOf(file); err != nil {
		t.Fatal(err)
	}
	if err := r.make(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(r.chosen) != 1 || line(r.chosen[0]) != line(all[3]) {
		t.Errorf("%d are chosen, %v", len(r.chosen), r.chosen)
	}
	if _, err := survivorsOf(file + "x"); err == nil {
		t.Error("a file that isn't there lists survivors")
	}
}

// TestMarks holds that each mark of an equivalent mutant still fits one, and that the mutants of the core compile.
func TestMarks(t *testing.T) {
	marks, err := parseMarks(marksText)
	if err != nil {
		t.Fatal(err)
	}
	for m := range marks {
		if at := strings.LastIndex(m.file, "/"); at < 0 || !slices.Contains(core, m.file[:at]) {
			t.Errorf("%q: no package of the core", m)
		}
	}
	for _, name := range core {
		pkg, err := load("../../" + name)
		if err != nil {
			t.Fatal(err)
		}
		found := pkg.find()
		for _, m := range stale(marks, pkg, found) {
			t.Errorf("no mutant is the marked %q; go run ./test/mutate -list ./%s lists them", m, name)
		}
		w, err := pkg.weave(found, t.TempDir())
		if err != nil {
			t.Fatal(err)
		}
		if w.out*100 > len(found) {
			t.Errorf("%s: %d of %d mutants don't compile", name, w.out, len(found))
		}
	}
}

// TestStale sees a mark of a line that has changed.
func TestStale(t *testing.T) {
	pkg, err := load("./testdata/small")
	if err != nil {
		t.Fatal(err)
	}
	const dir = "test/mutate/testdata/small/"
	marks, err := parseMarks("# for people\n\n" + dir + "small.go (*Box).Dec\n\tb.n--\n\tdropped: b.n--\n\tof\n\tno use\n\n" +
		dir + "small.go (*Box).Dec\n\tb.n -= 1\n\tdropped: b.n -= 1\n\tof no use\n\n" +
		"other/small.go (*Box).Dec\n\tb.n -= 1\n\tdropped: b.n -= 1\n\tof no use\n")
	if err != nil || len(marks) != 3 {
		t.Fatal(marks, err)
	}
	hint, gone := mark{dir + "small.go", "(*Box).Dec", "*", "*"}, mark{dir + "small.go", "(*Box).Gone", "*", "*"}
	wrong := stale(map[mark]string{hint: "a hint", gone: "a hint"}, pkg, pkg.find())
	if len(wrong) != 1 || wrong[0] != gone {
		t.Errorf("stale: %q", wrong)
	}
	wrong = stale(marks, pkg, pkg.find())
	if len(wrong) != 1 || wrong[0] != (mark{dir + "small.go", "(*Box).Dec", "b.n -= 1", "dropped: b.n -= 1"}) {
		t.Errorf("stale: %q", wrong)
	}
	for mark, reason := range marks {
		if mark.source == "b.n--" && reason != "of no use" {
			t.Errorf("the reason is %q", reason)
		}
	}
}

// TestBadMarks refuses a mark without a reason, and one that is there twice.
func TestBadMarks(t *testing.T) {
	const whole = "a/b.go f\nx > y\nboundary: x >= y\nbecause\n"
	for _, text := range []string{"a/b.go f\nx > y\nboundary: x >= y\n", whole + "\n" + whole} {
		if marks, err := parseMarks(text); err == nil {
			t.Errorf("%q: %v", text, marks)
		}
	}
}

// TestFigures counts what is marked apart, and calls a mark wrong of which a test knows better.
func TestFigures(t *testing.T) {
	var all []*mutant
	for n := range 7 {
		all = append(all, &mutant{id: n, text: fmt.Sprint(n), nth: 1})
	}
	r := &report{chosen: all, marks: map[mark]string{all[3].mark(): "why", all[4].mark(): "why"}}
	r.ended = map[*mutant]ended{
		all[0]: {failed: true}, all[1]: {late: true}, all[2]: {}, all[3]: {}, all[4]: {failed: true}, all[5]: {spun: true},
	}
	f, survivors, wrong := r.figures()
	if f != (figures{killed: 2, spun: 1, late: 1, survived: 1, equivalent: 1, notRun: 1}) {
		t.Errorf("%+v", f)
	}
	if len(survivors) != 1 || survivors[0] != all[2] || len(wrong) != 1 {
		t.Errorf("survivors %v, wrong %q", survivors, wrong)
	}
	if p := f.percent(); p != 50 {
		t.Errorf("%v %%", p)
	}
	if late := r.timedOut(); len(late) != 1 || late[0] != all[1] {
		t.Errorf("timed out: %v", late)
	}
}

// TestEndedBy tells a failure, and a process that turned in circles, from one that only the clock has ended.
func TestEndedBy(t *testing.T) {
	for _, c := range []struct {
		failed, timeUp bool
		used, spin     time.Duration
		want           ended
		noticed        bool
	}{
		{want: ended{}},
		{failed: true, spin: 10 * time.Second, used: time.Second, want: ended{failed: true}, noticed: true},
		{failed: true, want: ended{failed: true}, noticed: true, used: time.Minute}, // no bound on this system
		{failed: true, spin: 10 * time.Second, used: 10 * time.Second, want: ended{spun: true}, noticed: true},
		{used: 10 * time.Second, spin: 10 * time.Second, want: ended{}}, // it just made it
		{failed: true, timeUp: true, spin: 10 * time.Second, used: time.Second, want: ended{late: true}},
		{failed: true, timeUp: true, spin: 10 * time.Second, used: 10 * time.Second, want: ended{spun: true}, noticed: true},
	} {
		if got := endedBy(c.failed, c.timeUp, c.used, c.spin); got != c.want || got.noticed() != c.noticed {
			t.Errorf("%+v: %+v", c, got)
		}
	}
}

// TestPatiently runs once more what the clock has ended, and nothing else.
func TestPatiently(t *testing.T) {
	for first, want := range map[ended]int{{}: 1, {failed: true}: 1, {spun: true}: 1, {late: true}: 2} {
		var limits []time.Duration
		got := patiently(time.Second, func(limit time.Duration) ended {
			if limits = append(limits, limit); len(limits) == 1 {
				return first
			}
			return ended{failed: true}
		})
		if len(limits) != want || limits[want-1] != []time.Duration{time.Second, longer * time.Second}[want-1] {
			t.Errorf("%+v: limits %v", first, limits)
		}
		if want == 2 && !got.noticed() {
			t.Errorf("%+v at last: a test has failed", got)
		}
	}
}

// TestApply nests edits of the same place, and puts what begins at a place behind what ends there.
func TestApply(t *testing.T) {
	around := func(seq, from, to int, before, after string) []edit {
		return []edit{{from, 0, before, opens, to, seq}, {to, 0, after, closes, from, seq}}
	}
	edits := slices.Concat(around(1, 0, 3, "<", ">"), around(2, 0, 3, "{", "}"), around(3, 0, 1, "(", ")"),
		around(4, 2, 3, "[", "]"), []edit{{at: 1, cut: 1, text: ",", place: replaces}})
	for range 20 {
		if got := string(apply([]byte("x>y;"), edits)); got != "<{(x),[y]}>;" {
			t.Fatal(got)
		}
		edits = append(edits[3:], edits[:3]...)
	}
}

// TestDiff finds changed lines, though a line looks like a header.
func TestDiff(t *testing.T) {
	changed := parseDiff(`diff --git a/a/a.go b/a/a.go
--- a/a/a.go
+++ b/a/a.go
@@ -1,2 +3 @@ func f() {
-x
-y
+++ b/z/z.go
@@ -9,0 +10,2 @@
+x
+y
@@ -20,2 +20,0 @@
-x
-y
diff --git a/b/gone.go b/b/gone.go
--- a/b/gone.go
+++ /dev/null
@@ -1,1 +0,0 @@
-x
`)
	want := lines{{"a/a.go", 0}: true, {"a/a.go", 3}: true, {"a/a.go", 10}: true, {"a/a.go", 11}: true}
	if fmt.Sprint(changed) != fmt.Sprint(want) {
		t.Errorf("%v", changed)
	}
}

// TestChoose takes changed lines first, and the same sample for the same seed.
func TestChoose(t *testing.T) {
	defer func(n int) { *sample = n }(*sample)
	var all []*mutant
	for n := range 100 {
		all = append(all, &mutant{id: n, file: "a.go", line: n})
	}
	*sample = 10
	one := choose(all, lines{{"a.go", 7}: true, {"a.go", 70}: true})
	two := choose(all, lines{{"a.go", 7}: true, {"a.go", 70}: true})
	if len(one) != 10 || !slices.Equal(one, two) {
		t.Fatal(len(one), one, two)
	}
	if first := one[0].line + one[1].line; first != 77 {
		t.Errorf("the first are in lines %d and %d", one[0].line, one[1].line)
	}
}
