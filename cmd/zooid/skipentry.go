//go:build unix

package main

import (
	"bufio"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/user"
	"strings"
	"time"
	"unicode"

	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/storage"
)

const skipEntryHelp = `usage: zooid skip-entry [-yes] [-by NAME] -why REASON zoo.cfg
       zooid skip-entry -list zoo.cfg

Decides that an ensemble goes on without a log entry that servers can't apply because
they panic. Run it on the machine of each server, including observers, while the server
is stopped, with the server's zoo.cfg or its log directory. It shows the report of the
entry, asks, and stores the decision beside the log, with NAME (the user by default) and
REASON. Then start all servers. Once all have decided, every server skips the entry;
until then, no server applies anything after it. The changes of that entry are lost; no
other write is.

-yes decides without a question. -list shows the decisions and changes nothing.
`

// reportLinesShown is how many lines of a report are shown; the rest is in its file.
const reportLinesShown = 60

// runSkipEntry records the decision to skip a log entry.
func runSkipEntry(args []string, stdout, stderr io.Writer) int {
	return skipEntry(args, os.Stdin, stdout, stderr)
}

func skipEntry(args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("skip-entry", flag.ContinueOnError)
	yes, list := flags.Bool("yes", false, ""), flags.Bool("list", false, "")
	by, why := flags.String("by", userName(), ""), flags.String("why", "", "")
	if code, done := parseFlags(flags, skipEntryHelp, args, stdout, stderr); done {
		return code
	}
	if flags.NArg() != 1 || !*list && strings.TrimSpace(*why) == "" {
		fmt.Fprint(stderr, skipEntryHelp)
		return 2
	}
	dir, err := logDirectory(flags.Arg(0))
	if err != nil {
		fmt.Fprintln(stderr, "zooid skip-entry:", errorText(err))
		return 2
	}
	err = listSkips(dir, stdout)
	if err == nil && !*list {
		d := decision{dir: dir, by: *by, why: *why, yes: *yes, in: stdin, out: stdout}
		err = d.decide()
	}
	if err != nil {
		fmt.Fprintln(stderr, "zooid skip-entry:", errorText(err))
		return 1
	}
	return 0
}

func userName() string {
	u, err := user.Current()
	if err != nil {
		return "unknown"
	}
	return u.Username
}

// listSkips prints the decisions recorded next to a log.
func listSkips(dir string, w io.Writer) error {
	all, err := storage.Skips(storage.OS{}, dir, 0)
	if err != nil {
		return err
	}
	for _, s := range all {
		state := "waits until all members have decided the same"
		if s.Agreed {
			state = "all members have decided the same"
		}
		fmt.Fprintf(w, "entry %d of term %d, SHA-256 %v: skipped by %q on %s: %q; %s\n", s.Index, s.Term, s.Hash, s.By,
			s.At.Format(time.RFC3339), s.Why, state)
	}
	return nil
}

// A decision is one run of skip-entry.
type decision struct {
	dir, by, why string
	yes          bool
	in           io.Reader
	out          io.Writer
}

func (d *decision) decide() error {
	lock, err := storage.OS{}.Lock(d.dir)
	if err != nil {
		return fmt.Errorf("%w: stop the server first", err)
	}
	defer lock.Close()
	reports, err := storage.Reports(storage.OS{}, d.dir)
	if err != nil {
		return err
	}
	if len(reports) == 0 {
		return runbook.Errorf("ZD-3421", "there is no report of an entry in %s: this server has not stopped at one. Start it together with the servers that have decided. If it stops at the same entry as the others, run this again. If it applies the entry, run its version on the others, and nothing is lost. To go on without the entry nevertheless, stop all servers, keep a copy of this one's data and log directories, and replace their content, but for myid, by that of the one of the others whose log reaches furthest (zooid log -files: the highest term, then the highest index)",
			d.dir)
	}
	r := reports[len(reports)-1]
	skips, err := storage.Skips(storage.OS{}, d.dir, r.Cluster)
	if err != nil {
		return err
	}
	skip := storage.Skip{
		Cluster: r.Cluster, Index: r.Index, Term: r.Term, Hash: r.Hash, At: time.Now(), By: d.by, Why: d.why,
	}
	for i := range skips {
		switch old := &skips[i]; {
		case old.SamePlace(&skip) && old.Agreed:
			fmt.Fprintf(d.out, "entry %d is the last at which this server stopped, and all members have decided to skip it: nothing is left to decide. Start the server. If it stops again, it names the entry, and writes a report if that is a different one: then run this again\n",
				skip.Index)
			return nil
		case old.SamePlace(&skip):
			fmt.Fprintf(d.out, "this server has already decided to skip entry %d, the last at which it stopped, and waits for the others. Make the same decision on every other server of the ensemble, including observers (SHA-256 %v), and start all: they go on once all have decided\n",
				skip.Index, skip.Hash)
			return nil
		case old.Index == skip.Index:
			fmt.Fprintf(d.out, "this decision replaces the one above, which is about another entry %d, of term %d\n",
				old.Index, old.Term)
		}
	}
	d.show(&r)
	if !d.yes && !d.asked(&skip) {
		return errors.New("nothing was decided")
	}
	if err := storage.WriteSkip(storage.OS{}, d.dir, skip); err != nil {
		return err
	}
	fmt.Fprintf(d.out, "entry %d of term %d is to be skipped here. Make the same decision on every other server of the ensemble, including observers (SHA-256 %v), and start all: they go on once all have decided\n",
		skip.Index, skip.Term, skip.Hash)
	return nil
}

// show prints the report, without characters that control a terminal.
func (d *decision) show(r *storage.Report) {
	fmt.Fprintf(d.out, "entry %d of term %d, SHA-256 %v, cluster %016x\n\n", r.Index, r.Term, r.Hash, r.Cluster)
	lines := strings.SplitAfter(r.Text, "\n")
	for _, line := range lines[:min(len(lines), reportLinesShown)] {
		fmt.Fprint(d.out, strings.Map(func(c rune) rune {
			if c == '\n' || c == '\t' || unicode.IsPrint(c) {
				return c
			}
			return '?'
		}, line))
	}
	if len(lines) > reportLinesShown {
		fmt.Fprintf(d.out, "… (%d more lines in the report's file)\n", len(lines)-reportLinesShown)
	}
}

// asked asks the operator for confirmation, and reports whether the answer is yes.
func (d *decision) asked(skip *storage.Skip) bool {
	fmt.Fprintf(d.out, "\nThis entry's change is lost for good once all servers have decided. Skip entry %d? Type yes: ",
		skip.Index)
	answer, _ := bufio.NewReader(d.in).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}
