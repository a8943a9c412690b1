// Package memory is about the memory of a server: an account of what takes how much of
// it with the steps that follow (account.go), how much there is (limit.go), and
// memory outside of Go's heap (offheap.go).
package memory

// A Use says how many bytes each owner of memory takes.
type Use struct {
	Tree, Sessions, Watches, Identities int64
	Input, Output, Unanswered, Peers    int64

	Costliest string // the client address whose connections take most; "" if there is none
	Full      bool   // the tree has no address left for more
}

// Total adds them up.
func (u *Use) Total() int64 {
	return u.Tree + u.Sessions + u.Watches + u.Identities + u.Input + u.Output + u.Unanswered + u.Peers
}

// A Figure is one line of the account as a metric.
type Figure struct {
	Name string
	Read func(u *Use) int64
}

// Figures are the lines of the account.
func Figures() []Figure {
	return []Figure{
		{"memory_used", (*Use).Total},
		{"memory_tree", func(u *Use) int64 { return u.Tree }},
		{"memory_sessions", func(u *Use) int64 { return u.Sessions }},
		{"memory_watches", func(u *Use) int64 { return u.Watches }},
		{"memory_identities", func(u *Use) int64 { return u.Identities }},
		{"memory_input", func(u *Use) int64 { return u.Input }},
		{"memory_output", func(u *Use) int64 { return u.Output }},
		{"memory_unanswered", func(u *Use) int64 { return u.Unanswered }},
		{"memory_peers", func(u *Use) int64 { return u.Peers }},
	}
}

// A Step says what is refused for lack of memory; each includes those before it.
type Step int32

// The steps, in the order in which they are taken.
const (
	RefuseNone      Step = iota
	RefuseCostliest      // new sessions of the client address that takes most
	RefuseGrowth         // what makes the tree larger, or leaves watches
	RefuseSessions       // all new sessions
)

// Shares of the ceiling, in percent, from which the steps are taken; a step ends
// slack below.
const (
	costliestShare = 85
	growthShare    = 95
	sessionsShare  = 100
	slack          = 2
)

// Next returns the step to take at a use of memory, before being in force. Without a
// ceiling, 0, nothing is refused but what a full tree has no address for.
func Next(before Step, u *Use, ceiling int64) Step {
	step, use := RefuseNone, u.Total()
	if u.Full {
		step = RefuseGrowth
	}
	if ceiling <= 0 {
		return step
	}
	for i, percent := range []int64{costliestShare, growthShare, sessionsShare} {
		if Step(i) < before {
			percent -= slack
		}
		if use >= ceiling/100*percent {
			step = max(step, Step(i+1))
		}
	}
	return step
}
