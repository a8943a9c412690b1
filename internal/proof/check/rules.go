package check

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
)

// A Rule is the name of a promise. The package comment describes each.
type Rule string

// The rules.
const (
	X1 Rule = "X1" // a read shows the state at its zxid
	X2 Rule = "X2" // a write's reply has the write's zxid
	X3 Rule = "X3" // a notification has the zxid of its change
	X4 Rule = "X4" // zxids never decrease on the wire, events come first
	X5 Rule = "X5" // one zxid, one change
	X6 Rule = "X6" // replies come in request order
	X7 Rule = "X7" // a reconnect never goes back in time
	X8 Rule = "X8" // a session's end removes all its ephemerals
	X9 Rule = "X9" // sync sees everything acknowledged before

	X10 Rule = "X10" // no session is answered long after its end

	W1 Rule = "W1" // an armed watch fires
	W2 Rule = "W2" // events come in the order of the changes
	W3 Rule = "W3" // nothing fires unarmed or twice
	W4 Rule = "W4" // at rest, everything has fired
	W5 Rule = "W5" // setWatches catches up
	W6 Rule = "W6" // persistent watches get every event once
	W7 Rule = "W7" // no events for clients that may not read

	S1 Rule = "S1" // an ephemeral lives as long as its session
	S2 Rule = "S2" // an ended session stays ended
	S3 Rule = "S3" // no expiry before the timeout
	S4 Rule = "S4" // no session outlives its client forever
	S5 Rule = "S5" // an expiry takes effect only in the term that decided it
	S6 Rule = "S6" // a session has one connection at a time

	Result     Rule = "result"     // a write's result follows from the state before it
	RealTime   Rule = "realtime"   // a write is ordered after everything seen before it was sent
	Twice      Rule = "twice"      // no request is applied twice
	FIFO       Rule = "fifo"       // no request is applied if an earlier one of its connection was lost
	Sequence   Rule = "sequence"   // sequence numbers count the parent's creations
	Multi      Rule = "multi"      // a multi has all its effects or none
	Durability Rule = "durability" // acknowledged changes are there at the end
	Agreement  Rule = "agreement"  // servers have the same log
	Origin     Rule = "origin"     // every change has an author
	Form       Rule = "form"       // the history itself makes sense
)

// A Violation is one broken promise.
type Violation struct {
	Rule   Rule
	Events []int  // indexes into History.Events, the offending one first
	Reason string // one sentence
}

// A Report is the verdict on a history.
type Report struct {
	Violations []Violation
	Dropped    int // violations beyond Options.ViolationsMax

	Events, Requests, Answered int
	Writes, Reads              int // answered and checked against the model
	Acknowledged               int // writes answered with a place in the order, whatever their code
	Notifications              int
	Sessions, Conns            int
	Placed                     int // unanswered writes and session ends shown to have happened
	Unplaced                   int // unanswered writes that nothing shows
	Undecided                  int // mismatches that an unanswered write may explain; their znodes aren't checked further
	Exact                      bool
	Stale                      Staleness
	Took                       time.Duration
}

// Staleness has percentiles of the age of the states that reads showed: the time from the first acknowledgement of a
// newer write to the sending of the read, in nanoseconds; 0 for a read that wasn't stale.
type Staleness struct{ P50, P99, Max int64 }

func (s *Staleness) fill(samples []int64, reads int) {
	if len(samples) == 0 {
		return
	}
	slices.Sort(samples)
	at := func(q float64) int64 {
		fresh := reads - len(samples)
		if i := int(q*float64(reads)) - fresh; i >= 0 {
			return samples[min(i, len(samples)-1)]
		}
		return 0
	}
	s.P50, s.P99, s.Max = at(0.50), at(0.99), samples[len(samples)-1]
}

// OK reports whether no rule was violated.
func (r *Report) OK() bool { return len(r.Violations) == 0 }

// Rules returns the violated rules, sorted and without duplicates.
func (r *Report) Rules() []Rule {
	var names []Rule
	for _, v := range r.Violations {
		names = append(names, v.Rule)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// Print writes the report for people. h must be the history that was checked.
func (r *Report) Print(w io.Writer, h *history.History) {
	mode := "clients' view"
	if r.Exact {
		mode = "clients' view and servers' logs"
	}
	fmt.Fprintf(w, "history      %d events, %d sessions, %d connections, %d requests (%s)\n", r.Events, r.Sessions, r.Conns,
		r.Requests, mode)
	fmt.Fprintf(w, "checked      %d writes, %d reads, %d notifications\n", r.Writes, r.Reads, r.Notifications)
	fmt.Fprintf(w, "unanswered   %d requests; %d writes and session ends shown to have happened, %d writes undecided\n",
		r.Requests-r.Answered, r.Placed, r.Unplaced)
	if r.Undecided > 0 {
		fmt.Fprintf(w, "undecided    %d replies may be wrong or may show unanswered writes; their znodes were not checked further\n",
			r.Undecided)
	}
	fmt.Fprintf(w, "stale reads  p50 %v, p99 %v, max %v\n", time.Duration(r.Stale.P50), time.Duration(r.Stale.P99),
		time.Duration(r.Stale.Max))
	fmt.Fprintf(w, "took         %v, %.0f requests/s\n", r.Took.Round(time.Millisecond),
		float64(r.Requests)/max(r.Took.Seconds(), 1e-9))
	if r.OK() {
		fmt.Fprintf(w, "verdict      no violation\n")
		return
	}
	names := make([]string, 0, 8)
	for _, rule := range r.Rules() {
		names = append(names, string(rule))
	}
	fmt.Fprintf(w, "verdict      %d violations of %s\n", len(r.Violations)+r.Dropped, strings.Join(names, ", "))
	for _, v := range r.Violations {
		fmt.Fprintf(w, "\n%s: %s\n", v.Rule, v.Reason)
		for _, i := range v.Events {
			if i >= 0 && i < len(h.Events) {
				fmt.Fprintf(w, "    %s\n", describe(h, i))
			}
		}
	}
	if r.Dropped > 0 {
		fmt.Fprintf(w, "\n%d more are not shown.\n", r.Dropped)
	}
}
