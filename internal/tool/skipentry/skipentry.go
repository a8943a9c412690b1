// Package skipentry lets an operator decide, on the machine of a stopped server, that the ensemble skips a log entry at
// which servers panic, and take the decision back (docs/decisions/026-skipped-entries.md).
package skipentry

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/storage"
)

// reportLinesShown is how many lines of a report are shown; the rest is in its file.
const reportLinesShown = 60

// List prints the decisions that are recorded in a log's directory.
func List(dir string, w io.Writer) error {
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

// A Decision is one run of the command on a stopped server.
type Decision struct {
	LogDir  string        // the directory of the server's log
	By, Why string        // who decides, and for what reason, for the audit; at most storage.SkipTextMax bytes each
	Yes     bool          // decide without a question
	Named   *storage.Skip // the entry, if it isn't the last one at which this server stopped
	In      io.Reader     // the answer to the question
	Out     io.Writer
}

// Decide stores the decision to skip the entry.
func (d *Decision) Decide() error {
	lock, err := storage.OS{}.Lock(d.LogDir)
	if err != nil {
		return fmt.Errorf("%w: stop the server first", err)
	}
	defer lock.Close()
	r, err := d.entry()
	if err != nil {
		return err
	}
	skips, err := storage.Skips(storage.OS{}, d.LogDir, r.Cluster)
	if err != nil {
		return err
	}
	skip := storage.Skip{
		Cluster: r.Cluster, Index: r.Index, Term: r.Term, Hash: r.Hash, At: time.Now(), By: d.By, Why: d.Why,
	}
	for i := range skips {
		switch old := &skips[i]; {
		case old.SamePlace(&skip) && old.Agreed:
			fmt.Fprintf(d.Out, "all members have decided to skip entry %d: nothing is left to decide. Start the server. If it stops again, it names the entry, and writes a report if that is a different one: then run this again\n",
				skip.Index)
			return nil
		case old.SamePlace(&skip):
			fmt.Fprintf(d.Out, "this server has already decided to skip entry %d, and waits for the others. Make the same decision on every other server of the ensemble, including observers (SHA-256 %v), and start all: they continue once all have decided\n",
				skip.Index, skip.Hash)
			return nil
		case old.Index == skip.Index:
			fmt.Fprintf(d.Out, "this decision replaces the one above, which is about another entry %d, of term %d\n",
				old.Index, old.Term)
		}
	}
	d.show(r)
	if !d.Yes && !d.asked(fmt.Sprintf("This entry's change is lost permanently once all servers have decided. Skip entry %d?",
		skip.Index)) {
		return errors.New("nothing was decided")
	}
	if err := storage.WriteSkip(storage.OS{}, d.LogDir, skip); err != nil {
		return err
	}
	fmt.Fprintf(d.Out, "entry %d of term %d is to be skipped here. Make the same decision on every other server of the ensemble, including observers (SHA-256 %v), and start all: they continue once all have decided. Where there is no report: -entry %s\n",
		skip.Index, skip.Term, skip.Hash, skip.Place())
	return nil
}

// entry returns the report of the entry to skip. For an entry that the operator names, the report holds only what is
// known.
func (d *Decision) entry() (*storage.Report, error) {
	if d.Named != nil {
		cluster, err := storage.ReadIdentity(storage.OS{}, d.LogDir, d.LogDir)
		if err != nil {
			return nil, err
		}
		return &storage.Report{
			Cluster: cluster, Index: d.Named.Index, Term: d.Named.Term, Hash: d.Named.Hash,
			Text: "This server has not stopped at this entry. The decision is void if its log gets another one there.\n",
		}, nil
	}
	reports, err := storage.Reports(storage.OS{}, d.LogDir)
	if err != nil {
		return nil, err
	}
	if len(reports) == 0 {
		return nil, runbook.Errorf("ZD-3421", "there is no report of an entry in %s: this server has not stopped at one. Start it together with the servers that have decided. If it stops at the same entry as the others, run this again. If it applies the entry, run its version on the others (first there: zooid skip-entry -withdraw), and nothing is lost. If it does neither, because it never gets the entry, stop it, and name the entry here by -entry, as this command has printed it on the others. To go on without an entry that this server has applied, stop all servers, keep a copy of this one's data and log directories, and replace their content, but for myid and server.kept, by that of the one of the others whose log reaches furthest (zooid log -files: the highest term, then the highest index)",
			d.LogDir)
	}
	return &reports[len(reports)-1], nil
}

// Withdraw removes the decisions that not all members have made.
func (d *Decision) Withdraw() error {
	lock, err := storage.OS{}.Lock(d.LogDir)
	if err != nil {
		return fmt.Errorf("%w: stop the server first", err)
	}
	defer lock.Close()
	skips, err := storage.Skips(storage.OS{}, d.LogDir, 0)
	if err != nil {
		return err
	}
	skips = slices.DeleteFunc(skips, func(s storage.Skip) bool { return s.Agreed })
	if len(skips) == 0 {
		fmt.Fprintln(d.Out, "no decision waits for others, so there is nothing to withdraw")
		return nil
	}
	if !d.Yes && !d.asked("Only if a server has applied the entry (ZD-3411 in its log) is it certain that none skips it. Take the decision back?") {
		return errors.New("nothing was taken back")
	}
	for i := range skips {
		if err := storage.RemoveSkip(storage.OS{}, d.LogDir, skips[i].Index); err != nil {
			return err
		}
		fmt.Fprintf(d.Out, "entry %d of term %d is no longer skipped here. Do the same on every other server that has decided, and start all with the version that has applied the entry\n",
			skips[i].Index, skips[i].Term)
	}
	return nil
}

// show prints the report, without characters that control a terminal.
func (d *Decision) show(r *storage.Report) {
	fmt.Fprintf(d.Out, "entry %d of term %d, SHA-256 %v, cluster %016x\n\n", r.Index, r.Term, r.Hash, r.Cluster)
	lines := strings.SplitAfter(r.Text, "\n")
	for _, line := range lines[:min(len(lines), reportLinesShown)] {
		fmt.Fprint(d.Out, strings.Map(func(c rune) rune {
			if c == '\n' || c == '\t' || unicode.IsPrint(c) {
				return c
			}
			return '?'
		}, line))
	}
	if len(lines) > reportLinesShown {
		fmt.Fprintf(d.Out, "… (%d more lines in the report's file)\n", len(lines)-reportLinesShown)
	}
}

// asked asks the operator for confirmation, and reports whether the answer is yes.
func (d *Decision) asked(question string) bool {
	fmt.Fprintf(d.Out, "\n%s Type yes: ", question)
	answer, _ := bufio.NewReader(d.In).ReadString('\n')
	return strings.TrimSpace(answer) == "yes"
}
