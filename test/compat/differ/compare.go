package differ

import (
	"cmp"
	"fmt"
	"slices"
	"sort"
)

// difference is the first difference between two recordings of a script.
type difference struct {
	at   int    // the step's index
	what string // a description for humans
	key  string // equal for differences that look alike
}

// twins pairs the values of one side with those of the other.
type twins struct {
	pairs   map[int64]int64
	back    map[int64]int64
	ordered []([2]int64) // sorted by either side's value; nil if the order is irrelevant
	order   bool
}

func newTwins(order bool) *twins {
	return &twins{pairs: map[int64]int64{}, back: map[int64]int64{}, order: order}
}

// match pairs a with b and reports whether that agrees with all earlier pairs. Special values, which aren't positive,
// must be equal.
func (t *twins) match(a, b int64) bool {
	if (t.order && (a <= 0 || b <= 0)) || a == 0 || b == 0 {
		return a == b
	}
	if known, ok := t.pairs[a]; ok {
		return known == b
	}
	if _, ok := t.back[b]; ok {
		return false
	}
	t.pairs[a], t.back[b] = b, a
	if !t.order {
		return true
	}
	i := sort.Search(len(t.ordered), func(i int) bool { return t.ordered[i][0] > a })
	j := sort.Search(len(t.ordered), func(i int) bool { return t.ordered[i][1] > b })
	t.ordered = slices.Insert(t.ordered, i, [2]int64{a, b})
	return i == j
}

// comparison compares recordings. For a step that differs, excuse returns the name of the known difference, or "", and
// whether the rest of the script can't be compared any more.
type comparison struct {
	zxids, sessions *twins
	excuse          func(s *step, a, b *seen) (name string, ends bool)
	excused         map[string]int
	compared        int // steps before the first difference or the end
}

// compare returns the first unexcused difference between the results of two servers, or nil.
func (c *comparison) compare(steps []step, a, b []seen) *difference {
	c.zxids, c.sessions = newTwins(true), newTwins(false)
	for i := range steps {
		s := &steps[i]
		c.compared++
		what := c.step(s, &a[i], &b[i])
		if what == "" {
			continue
		}
		name, ends := c.excuse(s, &a[i], &b[i])
		if name == "" {
			return &difference{at: i, what: what, key: keyOf(s, &a[i], &b[i], what)}
		}
		c.excused[name]++
		if ends {
			return nil
		}
	}
	return nil
}

// keyOf returns a difference's key, without details that vary between its occurrences.
func keyOf(s *step, a, b *seen, what string) string {
	key := s.word + ": " + a.err + " / " + b.err
	if a.err == b.err {
		key += ", " + what
	}
	return key
}

// step returns how the recordings of a step differ, "" if they don't.
func (c *comparison) step(s *step, a, b *seen) string {
	if a.err != b.err {
		return "reply"
	}
	if d := c.fields(a.fields, b.fields); d != "" {
		return d
	}
	if !slices.Equal(a.lost, b.lost) {
		return "connections ended"
	}
	before, after := a.events, b.events
	if s.word == "closeSession" {
		// A session's ephemerals are deleted in the order of a hash table.
		before, after = sorted(before), sorted(after)
	}
	before, after = byConn(before), byConn(after)
	if len(before) != len(after) {
		return "number of events"
	}
	for i := range before {
		if before[i].conn != after[i].conn || c.fields(before[i].fields, after[i].fields) != "" {
			return "events"
		}
	}
	return ""
}

// byConn sorts events by connection, keeping their order on each connection.
func byConn(events []heard) []heard {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(x, y heard) int { return cmp.Compare(x.conn, y.conn) })
	return events
}

func sorted(events []heard) []heard {
	events = slices.Clone(events)
	slices.SortStableFunc(events, func(x, y heard) int { return cmp.Compare(x.fields[0].text, y.fields[0].text) })
	return events
}

// fields returns which field differs, "" if none.
func (c *comparison) fields(a, b []field) string {
	for i := range min(len(a), len(b)) {
		x, y := a[i], b[i]
		same := x.name == y.name && x.kind == y.kind
		switch {
		case same && x.kind == zxid:
			same = c.zxids.match(x.n, y.n)
		case same && x.kind == session:
			same = c.sessions.match(x.n, y.n)
		case same:
			same = x.text == y.text
		}
		if !same {
			return "field " + x.name
		}
	}
	if len(a) != len(b) {
		return fmt.Sprintf("%d fields and %d", len(a), len(b))
	}
	return ""
}

// gather moves all events of a recording to its last step. It is for scripts in which the server acts by itself, so
// that the step at which an event arrives depends on timing.
func gather(all []seen) []seen {
	all = slices.Clone(all)
	var events []heard
	for i := range all {
		events = append(events, all[i].events...)
		all[i].events = nil
	}
	all[len(all)-1].events = events
	return all
}
