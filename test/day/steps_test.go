package day

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"
)

// A step is a line that somebody types, and what they expect.
type step struct {
	do    string   // by sh; "N& COMMAND" starts COMMAND in the background as job N, "kill [-9] N" ends it
	says  []string // each is in the output, whose white space is taken for one space
	hides []string // none is in the output
	code  int
	most  int  // lines of output; 0 for linesMost
	until bool // it is tried for up to a minute: servers need a moment
}

const (
	linesMost = 25 // of a terminal that has them, one is left for the prompt
	patience  = time.Minute
)

var (
	// alarming is what no output may hold: traces of a crash, and values that were printed by mistake.
	alarming = regexp.MustCompile(`\bUnknown\b|(?i)\bunknown (?:argument|command|error|field|flag|key|name|op|operation|option|property|scheme|word)\b|goroutine \d|\bpanic(?:ked)?[:(]|runtime error|\w\.go:\d+|%!|<nil>|0xc000|stack trace`)
	// advises is what an error holds that says what to do next.
	advises = regexp.MustCompile(`hint: |\bdo: |ZD-\d{4}|zooid [A-Za-z-]+|[.;:,] (?:set|add|give|run|start|use|try|say)\b|reconfig -add`)
)

// A person types steps in a folder of their own.
type person struct {
	t         *testing.T
	dir       string
	env       []string
	jobs      map[string]*exec.Cmd
	table     strings.Builder
	surprises int
}

func newPerson(t *testing.T) *person {
	if os.Getenv(inside) == "" {
		t.Skip("it needs namespaces of its own (unshare, as root or as a user who may)")
	}
	p := &person{t: t, dir: t.TempDir(), jobs: map[string]*exec.Cmd{}}
	p.env = append(os.Environ(), "HOME="+p.dir, "PATH="+os.Getenv(inside)+":"+os.Getenv("PATH"))
	t.Cleanup(func() {
		for _, cmd := range p.jobs {
			cmd.Process.Kill()
			cmd.Wait()
		}
	})
	return p
}

// types types the steps, and judges what comes of each.
func (p *person) types(steps ...step) {
	p.t.Helper()
	for _, s := range steps {
		began := time.Now()
		out, found := p.try(&s)
		for s.until && len(found) > 0 && time.Since(began) < patience {
			time.Sleep(50 * time.Millisecond)
			out, found = p.try(&s)
		}
		p.surprises += len(found)
		what := "as expected"
		if len(found) > 0 {
			what = "SURPRISE: " + strings.Join(found, "; ")
			p.t.Errorf("%s\n%s\n%s", s.do, what, out)
		}
		fmt.Fprintf(&p.table, "%-100.100s %3d lines %5d ms  %s\n", s.do, strings.Count(out, "\n"),
			time.Since(began).Milliseconds(), what)
	}
}

// ends prints the table.
func (p *person) ends() {
	p.t.Helper()
	p.t.Logf("%d surprises\n%s", p.surprises, p.table.String())
}

// try does a step once, and returns its output and what is surprising about it.
func (p *person) try(s *step) (out string, found []string) {
	out, code := p.run(s.do)
	surprise := func(format string, v ...any) { found = append(found, fmt.Sprintf(format, v...)) }
	if code != s.code {
		surprise("exit code %d, not %d", code, s.code)
	}
	folded := strings.Join(strings.Fields(out), " ")
	for _, want := range s.says {
		if !strings.Contains(folded, want) {
			surprise("it doesn't say %q", want)
		}
	}
	for _, not := range s.hides {
		if strings.Contains(folded, not) {
			surprise("it says %q", not)
		}
	}
	if n, most := strings.Count(out, "\n"), s.most; n > linesMost && most == 0 || most > 0 && n > most {
		surprise("%d lines", n)
	}
	if bad := alarming.FindString(out); bad != "" {
		surprise("it says %q", bad)
	}
	if code != 0 && !advises.MatchString(out) {
		surprise("no next step")
	}
	return out, found
}

// run runs a line.
func (p *person) run(line string) (out string, code int) {
	p.t.Helper()
	if job, command, ok := strings.Cut(line, "& "); ok && len(job) == 1 {
		return p.start(job, command)
	}
	if rest, ok := strings.CutPrefix(line, "kill "); ok {
		if job, hard := strings.CutPrefix(rest, "-9 "); hard {
			return p.kill(job, syscall.SIGKILL)
		}
		return p.kill(rest, syscall.SIGTERM)
	}
	cmd := exec.Command("sh", "-c", line)
	cmd.Dir, cmd.Env = p.dir, p.env
	text, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		p.t.Fatal(err)
	}
	return string(text), cmd.ProcessState.ExitCode()
}

// start starts a job, whose output goes to the file JOB.log.
func (p *person) start(job, command string) (string, int) {
	file, err := os.Create(filepath.Join(p.dir, job+".log"))
	if err != nil {
		p.t.Fatal(err)
	}
	defer file.Close()
	cmd := exec.Command("sh", "-c", "exec "+command)
	cmd.Dir, cmd.Env, cmd.Stdout, cmd.Stderr = p.dir, p.env, file, file
	if err := cmd.Start(); err != nil {
		p.t.Fatal(err)
	}
	p.jobs[job] = cmd
	return "", 0
}

// kill ends a job and returns what it has printed since the signal, and its exit code; 0 if it was killed.
func (p *person) kill(job string, signal syscall.Signal) (string, int) {
	cmd := p.jobs[job]
	if cmd == nil {
		p.t.Fatalf("there is no job %s", job)
	}
	delete(p.jobs, job)
	file := filepath.Join(p.dir, job+".log")
	before, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	cmd.Process.Signal(signal)
	if err := cmd.Wait(); err != nil {
		if ended, ok := errors.AsType[*exec.ExitError](err); !ok || signal != syscall.SIGKILL {
			p.t.Logf("job %s: %v, %v", job, err, ended)
		}
	}
	after, err := os.ReadFile(file)
	if err != nil {
		p.t.Fatal(err)
	}
	return string(bytes.TrimPrefix(after, before)), max(cmd.ProcessState.ExitCode(), 0)
}

// TestSurprises: a step that goes otherwise than expected is a surprise, of each kind.
func TestSurprises(t *testing.T) {
	p := newPerson(t)
	for what, s := range map[string]step{
		"exit code 3, not 0":   {do: "exit 3"},
		"no next step":         {do: "echo it failed; exit 1", code: 1},
		`it doesn't say "b"`:   {do: "echo a", says: []string{"b"}},
		`it says "a"`:          {do: "echo a", hides: []string{"a"}},
		"26 lines":             {do: "seq 26"},
		"2 lines":              {do: "seq 2", most: 1},
		`it says "Unknown`:     {do: "echo version Unknown"},
		`it says "x.go:17"`:    {do: "echo at x.go:17"},
		`it says "goroutine 1`: {do: "echo goroutine 1"},
	} {
		if _, found := p.try(&s); !strings.Contains(strings.Join(found, "; "), what) {
			t.Errorf("%s: %q, want %q", s.do, found, what)
		}
	}
	s := step{do: "echo 'it failed; run zooid doctor'; exit 1", code: 1, says: []string{"it failed"}}
	if _, found := p.try(&s); len(found) > 0 {
		t.Errorf("%s: %q", s.do, found)
	}
}
