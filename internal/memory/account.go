// Package memory manages a server's memory: an account of its uses, and the steps that are taken when it runs short
// (account.go), its limit (limit.go), and memory outside Go's heap (offheap.go).
package memory

// A Use says how many bytes each part of a server uses.
type Use struct {
	Tree, Sessions, Watches, Identities int64
	Input, Output, Unanswered, Peers    int64
	Records                             int64 // of failed logins, statistics of namespaces, and audit lines

	Costliest string // the client address whose connections take most; "" if there is none
	Full      bool   // the tree has run out of addresses
}

// Total returns the sum of all parts.
func (u *Use) Total() int64 {
	return u.Tree + u.Sessions + u.Watches + u.Identities + u.Input + u.Output + u.Unanswered + u.Peers + u.Records
}

// A Figure is one line of the account as a metric.
type Figure struct {
	Name string
	Read func(u *Use) int64
}

// Figures returns the lines of the account.
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
		{"memory_records", func(u *Use) int64 { return u.Records }},
	}
}

// A Step says which requests are refused for lack of memory; each step includes those before it.
type Step int32

// The steps, in increasing order.
const (
	RefuseNone      Step = iota
	RefuseCostliest      // new sessions from the client address that uses most
	RefuseGrowth         // requests that make the tree larger, or leave watches
	RefuseSessions       // all new sessions
)

// The shares of the ceiling, in percent, at which steps begin; a step ends slack percent below its share.
const (
	costliestShare = 85
	growthShare    = 95
	sessionsShare  = 100
	slack          = 2
)

// StepAt returns the step that a use of so many bytes calls for, whatever step was in force before.
func StepAt(use, ceiling int64) Step { return stepFrom(RefuseNone, use, ceiling) }

// Next returns the step for a use of memory, given the step in force before. A ceiling of 0 means none: then only a
// full tree refuses anything.
func Next(before Step, u *Use, ceiling int64) Step {
	step := RefuseNone
	if u.Full {
		step = RefuseGrowth
	}
	return max(step, stepFrom(before, u.Total(), ceiling))
}

// stepFrom is Next for a tree that isn't full.
func stepFrom(before Step, use, ceiling int64) (step Step) {
	if ceiling <= 0 {
		return RefuseNone
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
