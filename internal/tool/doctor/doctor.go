package doctor

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const help = `usage: zooid doctor [-json] [-strict] [-no-disk] [TLS flags] zoo.cfg

Examines a server: its configuration, directories, secrets and certificates, its machine,
and the other servers of its ensemble. Run it on the server's machine as the server's user,
before the first start and whenever something seems wrong. It doesn't disturb a running
server, except by a few small writes that measure its disk (-no-disk leaves them out). It
reads the data of a stopped server as a start does, which takes as long.

  fault    the server doesn't start, loses data, or is open to others
  warning  the server works, but the cause can become a fault

For other servers that accept only TLS, it uses the key and trust stores that the file names,
or the flags of zooid cli, such as -tls-ca, -tls-cert and -profile.

Each fault and warning says what to do. -json prints them as one JSON object. -strict treats
warnings as faults.

exit code: 0 no fault; 1 a fault was found; 2 wrong arguments
`

// The levels of findings.
const (
	Fault   = "fault"
	Warning = "warning"
)

// A Finding is one thing that is wrong.
type Finding struct {
	Check string `json:"check"` // what was examined: one of the names of Checks
	Level string `json:"level"`
	What  string `json:"what"`
	Do    string `json:"do"`
}

// A Report is what an examination has found.
type Report struct {
	Config   string    `json:"config"`
	Running  bool      `json:"running"`           // a server runs on the data directory
	Waits    bool      `json:"waits,omitempty"`   // it runs and belongs to no ensemble yet, so it has not opened its data
	Lineage  string    `json:"lineage,omitempty"` // id of the history that its data belongs to
	Faults   int       `json:"faults"`
	Warnings int       `json:"warnings"`
	Checks   []string  `json:"checks"` // what was examined
	Findings []Finding `json:"findings"`
	Clocks   []Clock   `json:"clocks,omitempty"`   // of the other servers that were asked
	Turnings []Turning `json:"turnings,omitempty"` // of the servers that were asked and tell
}

// check is one examination.
type check struct {
	name string
	run  func(e *examination)
}

// checks are all checks, in the order in which their findings are printed.
var checks = []check{
	{"configuration", (*examination).configuration},
	{"keys", (*examination).riskyKeys},
	{"addresses", (*examination).addresses},
	{"names", (*examination).names},
	{"ports", (*examination).ports},
	{"directories", (*examination).directories},
	{"data", (*examination).data},
	{"secrets", (*examination).secrets},
	{"certificates", (*examination).certificates},
	{"disk", (*examination).disk},
	{"space", (*examination).space},
	{"descriptors", (*examination).descriptors},
	{"memory", (*examination).memory},
	{"huge pages", (*examination).hugePages},
	{"hangs", (*examination).hangs},
	{"clocks", (*examination).clocks},
	{"versions", (*examination).versions},
	{"membership", (*examination).membership},
}

// An examination is one run over all checks.
type examination struct {
	world   *World
	file    string
	cfg     *config.Config // nil if it can't be read at all
	err     error          // of reading it as this server
	noDisk  bool
	running bool
	// noAccess says that denied has reported files.
	noAccess bool
	told     map[int64]answers // by server: what its client port answered; see ask
	at       string            // the check that is running
	report   Report
}

func (e *examination) fault(do, format string, args ...any) {
	e.report.Faults++
	e.report.Findings = append(e.report.Findings, Finding{e.at, Fault, fmt.Sprintf(format, args...), do})
}

func (e *examination) warn(do, format string, args ...any) {
	e.report.Warnings++
	e.report.Findings = append(e.report.Findings, Finding{e.at, Warning, fmt.Sprintf(format, args...), do})
}

// Examine runs all checks. It blocks for some seconds if servers or names don't answer.
func Examine(w *World, file string, noDisk bool) Report {
	e := &examination{world: w, file: file, noDisk: noDisk, report: Report{Config: file, Findings: []Finding{}}}
	if e.cfg, e.err = config.Load(file, nil); e.err != nil {
		e.cfg, _ = config.LoadAny(file, nil)
	}
	if e.cfg != nil {
		e.running = w.Running(e.cfg.Storage.DataDir, e.cfg.Storage.DataLogDir)
		e.ask()
	}
	e.report.Running, e.report.Waits = e.running, e.cfg != nil && e.waits()
	for _, c := range checks {
		if e.cfg == nil && c.name != "configuration" {
			break
		}
		e.at = c.name
		c.run(e)
		e.report.Checks = append(e.report.Checks, c.name)
	}
	slices.SortStableFunc(e.report.Findings, func(a, b Finding) int {
		switch {
		case a.Level == b.Level:
			return 0
		case a.Level == Fault:
			return -1
		}
		return 1
	})
	return e.report
}

// Main runs the command zooid doctor.
func Main(args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("doctor", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { fmt.Fprint(stderr, help) }
	asJSON, strict, noDisk := flags.Bool("json", false, ""), flags.Bool("strict", false, ""), flags.Bool("no-disk", false,
		"")
	world := Here()
	args, err := world.Reach.TakeAll(args)
	if err == nil {
		err = world.Reach.Check()
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid doctor:", terminal.OneLine(err.Error()))
		return 2
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return 0
	} else if err != nil {
		return 2
	}
	if flags.NArg() != 1 {
		fmt.Fprint(stderr, help)
		return 2
	}
	r := Examine(world, flags.Arg(0), *noDisk)
	if *asJSON {
		enc := json.NewEncoder(stdout)
		enc.SetIndent("", "  ")
		err = enc.Encode(r)
	} else {
		err = r.print(stdout)
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid doctor: write the findings:", err)
		return 1
	}
	if r.Faults > 0 || *strict && r.Warnings > 0 {
		return 1
	}
	return 0
}

// counted says how many there are.
func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}

func (r *Report) print(w io.Writer) error {
	state := "stopped"
	switch {
	case r.Running:
		state = "running"
	case r.Waits:
		state = "running, without an ensemble"
	}
	_, err := fmt.Fprintf(w, "%s (%s): %s, %s in %d checks\n", r.Config, state, counted(r.Faults, "fault"),
		counted(r.Warnings, "warning"), len(r.Checks))
	if err == nil && r.Lineage != "" {
		_, err = fmt.Fprintf(w, "its data is of lineage %s\n", r.Lineage)
	}
	for _, f := range r.Findings {
		if err == nil {
			_, err = fmt.Fprintf(w, "\n%s (%s): %s\n    do: %s\n", f.Level, f.Check, f.What, f.Do)
		}
	}
	if err == nil && len(r.Clocks) > 0 {
		_, err = fmt.Fprint(w, "\nclocks of the other servers, against this machine's:\n")
	}
	for _, c := range r.Clocks {
		if err == nil {
			_, err = fmt.Fprintf(w, "    %s\n", c.String())
		}
	}
	if err == nil && len(r.Turnings) > 0 {
		_, err = fmt.Fprint(w, "\nwhat the servers are doing now:\n")
	}
	for _, t := range r.Turnings {
		if err == nil {
			_, err = fmt.Fprintf(w, "    %s\n", t.String())
		}
	}
	return err
}
