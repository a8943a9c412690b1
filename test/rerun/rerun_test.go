package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// planted are the packages of a module whose tests do what rerun is for.
var planted = map[string]string{
	"steady": `
func TestGood(t *testing.T)   { t.Log("fine") }
func TestNeeds(t *testing.T)  { t.Skip("there is no strace") }
func TestPart(t *testing.T)   { t.Run("one", func(t *testing.T) { t.Skip("no root") }) }
`,
	"unsteady": `
// every second run fails
func TestEverySecond(t *testing.T) {
	if _, err := os.Stat(os.Getenv("PLANTED")); err != nil {
		os.WriteFile(os.Getenv("PLANTED"), nil, 0o600)
		t.Fatal("the first run fails")
	}
}
func TestGood(t *testing.T) {}
`,
	"permanent": `
func TestWrong(t *testing.T) { t.Run("sub", func(t *testing.T) { t.Error("always wrong") }) }
func TestGood(t *testing.T)  {}
`,
	"digest": `
func TestDigest(t *testing.T) {
	t.Run("sub", func(t *testing.T) { t.Attr("final", "a digest"); t.Error("digests differ") })
}
func TestLater(t *testing.T) { time.Sleep(time.Hour) }
`,
	"excused": ` // marked, and passed
func TestMarked(t *testing.T) { t.Attr("final", "a digest") }
`,
	"broken":  "func TestNothing(t *testing.T) { undefined() }",
	"outside": "func TestMain(m *testing.M) { println(\"nothing works\"); os.Exit(3) }",
	"panics":  "func TestPanics(t *testing.T) { go panic(\"planted\"); time.Sleep(time.Minute) }",
	"races": ` // fails as the race detector has it
func TestRaces(t *testing.T) { println("WARNING: DATA RACE"); t.Error("race detected during execution of test") }
`,
	"slow": `
func TestA(t *testing.T) {}
func TestB(t *testing.T) {
	c := exec.Command("sleep", "3600") // in the same group: it must end, too
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.Run()
}
func TestC(t *testing.T) {}
`,
}

// module writes the packages and makes them the working directory.
func module(t *testing.T, packages ...string) {
	t.Helper()
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", "module planted\n\ngo 1.26\n")
	for _, name := range packages {
		write(name+"/a_test.go", "package "+name+"\n\nimport (\n\t\"os\"\n\t\"os/exec\"\n\t\"testing\"\n\t\"time\"\n)\n\n"+
			"var (\n\t_ = os.Stat\n\t_ = exec.Command\n\t_ = time.Now\n)\n"+planted[name])
	}
	t.Chdir(dir)
	t.Setenv("PLANTED", filepath.Join(dir, "ran-once"))
}

func TestRun(t *testing.T) {
	for _, c := range []struct {
		packages []string
		flags    []string
		change   func(*options)
		short    bool   // the time ends while TestB of slow runs
		err      string // "": none
		final    bool
		want     []string // lines of the closing lists
		wrong    string   // what they must not have
	}{
		{packages: []string{"steady", "excused"}, want: []string{
			"skipped:", "  planted/steady TestNeeds: a_test.go:17: there is no strace",
			"  planted/steady TestPart/one: a_test.go:18: no root", "3 passed, 0 failed, 2 skipped"}},
		{packages: []string{"unsteady", "steady"}, want: []string{
			"unsteady:", "  planted/unsteady TestEverySecond", "    |     a_test.go:20: the first run fails",
			"4 passed, 0 failed, 2 skipped"}},
		{packages: []string{"permanent"}, err: "planted/permanent TestWrong failed twice", want: []string{
			"failed:", "  planted/permanent TestWrong", "    |     a_test.go:16: always wrong",
			"1 passed, 1 failed, 0 skipped"}},
		{packages: []string{"permanent", "unsteady"}, err: "failed twice",
			want: []string{"failed:", "unsteady:", "3 passed, 1 failed, 0 skipped"}},
		{packages: []string{"permanent", "unsteady"}, change: func(o *options) { o.most = 1 }, err: "2, none was run again"},
		{packages: []string{"unsteady"}, change: func(o *options) { o.again = false }, err: "1, none was run again",
			want: []string{"failed:"}},
		{packages: []string{"unsteady"}, change: func(o *options) { o.once = []string{"none", "unsteady"} },
			err: "planted/unsteady, whose tests are not run again", want: []string{"failed:"}},
		{packages: []string{"digest", "unsteady"}, err: "planted/digest TestDigest/sub, found by a digest", final: true,
			want: []string{"final:", "  planted/digest TestDigest"}},
		{packages: []string{"races"}, err: "a data race", final: true, want: []string{"final:"}},
		{packages: []string{"broken", "steady"}, err: "outside of any test",
			want: []string{"failed:", "  planted/broken (all of its tests)"}},
		{packages: []string{"outside"}, err: "outside of any test", want: []string{"failed:"}},
		{packages: []string{"panics"}, err: "a panic", want: []string{"failed:"}},
		{packages: []string{"slow", "steady"}, flags: []string{"-p", "1"}, short: true,
			want: []string{"not run:", "  planted/slow TestB", "  planted/slow TestC", "  planted/steady (all of its tests)",
				"1 passed, 0 failed, 0 skipped"}},
		{packages: []string{"steady"}, flags: []string{"-run", "TestGood/x"},
			change: func(o *options) { o.until = time.Now() },
			want:   []string{"not run:", "  planted/steady (all of its tests)"}},
		{packages: []string{"unsteady", "slow"}, flags: []string{"-p", "1"}, short: true,
			err: "no time is left", want: []string{"failed:", "not run:"}, wrong: "unsteady:"},
		{packages: []string{"unsteady", "slow"}, flags: []string{"-p", "1"}, short: true,
			change: func(o *options) { o.grace = time.Hour }, want: []string{"unsteady:", "not run:"}, wrong: "failed:"},
	} {
		name := strings.Join(append(slices.Clone(c.packages), c.flags...), " ")
		if c.change != nil {
			name += ", changed"
		}
		t.Run(name, func(t *testing.T) {
			module(t, c.packages...)
			o := options{again: true, most: 6, record: filepath.Join(t.TempDir(), "record")}
			if c.change != nil {
				c.change(&o)
			}
			var packages []string
			for _, p := range c.packages {
				packages = append(packages, "./"+p)
			}
			if c.short {
				o.until = time.Now().Add(time.Second + 5*compileTime(t, packages))
			}
			began := time.Now()
			err := run(o, packages, c.flags)
			if got := fmt.Sprint(err); (c.err == "") != (err == nil) || !strings.Contains(got, c.err) {
				t.Errorf("it says %v, want %q", err, c.err)
			}
			if errors.Is(err, errFinal) != c.final {
				t.Errorf("final is %t: %v", !c.final, err)
			}
			if took := time.Since(began); took > 10*time.Minute {
				t.Errorf("it took %v", took)
			}
			var lists strings.Builder
			if err := writeClosing(&lists, o.record); err != nil {
				t.Fatal(err)
			}
			for _, want := range c.want {
				if !strings.Contains(lists.String(), want+"\n") {
					t.Errorf("the lists lack %q:\n%s", want, lists.String())
				}
			}
			if c.wrong != "" && strings.Contains(lists.String(), c.wrong) {
				t.Errorf("the lists have %q:\n%s", c.wrong, lists.String())
			}
		})
	}
}

// compileTime compiles the packages and returns how long this machine needs now to compile and to start them.
func compileTime(t *testing.T, packages []string) time.Duration {
	t.Helper()
	began := time.Now()
	cmd := exec.Command("go", append([]string{"test", "-run", "^TestA$"}, packages...)...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return time.Since(began)
}

// TestElsewhere: a test that one run skips and another one runs is not named as skipped.
func TestElsewhere(t *testing.T) {
	r := record{file: filepath.Join(t.TempDir(), "record")}
	if err := r.write(result{Package: "a", Test: "TestX", Result: resultSkipped, Text: "set ZOOID_X"},
		result{Package: "b", Test: "TestX", Result: resultSkipped, Text: "no root"}); err != nil {
		t.Fatal(err)
	}
	if err := r.write(result{Package: "a", Test: "TestX", Result: resultPassed}); err != nil {
		t.Fatal(err)
	}
	var lists strings.Builder
	if err := writeClosing(&lists, r.file); err != nil {
		t.Fatal(err)
	}
	if want := "\nskipped:\n  b TestX: no root\n\n1 passed, 0 failed, 1 skipped\n"; lists.String() != want {
		t.Errorf("got %q\nwant %q", lists.String(), want)
	}
}

// TestCommand: exit codes and usage, as scripts see them.
func TestCommand(t *testing.T) {
	program := filepath.Join(t.TempDir(), "rerun")
	if out, err := exec.Command("go", "build", "-o", program, ".").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	module(t, "steady", "permanent", "digest")
	for _, c := range []struct {
		args []string
		code int
	}{
		{nil, exitUsage}, {[]string{"-run", "TestX"}, exitUsage},
		{[]string{"./steady"}, 0}, {[]string{"./permanent", "-run", "TestWrong"}, exitFailed},
		{[]string{"./digest"}, exitFinal},
		{[]string{"-close", "none"}, 0},
	} {
		cmd := exec.Command(program, c.args...)
		out, err := cmd.CombinedOutput()
		if code := cmd.ProcessState.ExitCode(); code != c.code {
			t.Errorf("%q: exit code %d (%v), want %d\n%s", c.args, code, err, c.code, out)
		}
	}
}
