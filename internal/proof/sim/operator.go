package sim

import (
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/jute"
)

// The operator asks for changes of membership.

// operatorUser may change the membership.
const operatorUser = "super:secret"

// newOperator returns the client that asks for changes of membership. Its
// requests aren't in the history: the checker doesn't know reconfig.
func newOperator(w *World) *client {
	c := newClient(w, w.plan.Clients)
	c.mix, c.user, c.silent, c.asksRO = nil, operatorUser, true, false
	return c
}

// asksTimeout is the session timeout that a client asks for. A change may wait for new servers for a part of the
// operator's: it is long, except if the plan is Hurried.
func (c *client) asksTimeout() int64 {
	switch {
	case c == c.w.operator && c.w.plan.Hurried:
		return hurriedTicks * c.w.plan.Tick
	case c.silent:
		return 40 * c.w.plan.Tick
	}
	return c.w.plan.Timeout
}

// hurriedTicks is the timeout, in ticks, of an operator in a hurry: a quarter of it is left for new servers.
const hurriedTicks = 2

// superDigest returns the operator's digest as servers are configured with it.
func superDigest() string { return traffic.DigestID(operatorUser).ID }

// busy reports whether a change has been asked for and not answered yet.
func (c *client) busy() bool { return c.w.now < c.unsure }

// asking returns the membership that the unanswered change asks for, nil if there is none or it isn't possible.
func (c *client) asking() []quorum.Member {
	if !c.busy() || len(c.commands) == 0 {
		return nil
	}
	next := c.commands[0]
	req := jute.ReconfigRequest{Joining: &next.joining, Leaving: &next.leaving}
	text, code := changeMembers(c.w.wantedText(), &req, true)
	if code != jute.OK {
		return nil
	}
	return c.w.parsed(text)
}

// command is a change of membership to ask for. If retire is set, the servers
// that it removes are stopped for good when it is answered.
type command struct {
	joining, leaving string
	retire, wipe     bool
	joins            []int // of each server, at that time: a server that joins again since then isn't stopped
}

// reconfigure acts as an operator and changes the membership.
func (w *World) reconfigure(f Fault, s *host) {
	m, _ := find(w.wanted, s.id)
	switch f.Kind {
	case Join:
		if w.plan.Absent && f.Arg == 2 {
			s.addedFirst()
			return
		}
		s.installed, s.stopped = true, false
		s.joins++
		s.configure(f.Arg == 1)
		after := second
		if f.Arg == 2 {
			after = guestTime
		}
		w.after(after, func() {
			w.lastFault = max(w.lastFault, w.now+f.aftermath())
			s.joinsNow(f.Arg == 1)
			w.operator.asks(command{joining: serverLine(s.id, role(f.Arg == 1))})
		})
	case Role:
		s.joinsNow(!m.Observer) // a server that has left becomes a member again
		w.operator.asks(command{joining: serverLine(s.id, role(!m.Observer))})
	case Swap:
		w.swap(uint64(f.Arg))
	case Leave:
		w.operator.asks(
			command{leaving: strconv.FormatUint(s.id, 10), retire: f.Arg != 1, wipe: f.Arg == 2, joins: w.joins()})
		if f.Arg != 1 {
			joins := s.joins
			w.after(leavePause, func() {
				if s.joins == joins {
					s.retire(f.Arg == 2)
				}
			})
		}
	}
}

// addedFirst acts as an operator: it adds a server and starts it some time later.
func (s *host) addedFirst() {
	w := s.w
	s.joins++
	joins := s.joins
	w.operator.asks(command{joining: serverLine(s.id, role(false))})
	w.after(between(w.faultDice, second/2, addedFirstMax), func() {
		if s.life == nil && (s.joins == joins || w.healed) { // the change may be named after the World was healed
			s.installed, s.stopped = true, false
			s.configure(false)
		}
	})
}

// addedFirstMax is how long after it was added a server is started at the latest.
const addedFirstMax = 12 * second

// guestTime is how long an operator without hurry lets a new server follow before making
// it a member.
const guestTime = 12 * second

// swap asks, in one change, for exactly the voters whose bits are set.
func (w *World) swap(voters uint64) {
	var joining, leaving []string
	for _, s := range w.servers {
		m, in := find(w.wanted, s.id)
		switch wanted := voters&(1<<(s.id-1)) != 0; {
		case wanted && (!in || m.Observer):
			joining = append(joining, serverLine(s.id, role(false)))
			if s.installed, s.stopped = true, false; !in {
				s.joins++
				s.configure(false)
			}
		case !wanted && in:
			leaving = append(leaving, strconv.FormatUint(s.id, 10))
		}
	}
	if len(joining)+len(leaving) > 0 {
		joins := w.joins()
		w.after(second, func() {
			for _, s := range w.servers {
				if slices.Contains(joining, serverLine(s.id, role(false))) {
					s.joinsNow(false)
				}
			}
			w.operator.asks(command{
				joining: strings.Join(joining, ","), leaving: strings.Join(leaving, ","), retire: true, joins: joins,
			})
		})
	}
}

// joins returns, for each server, how often an operator has begun to make it a member.
func (w *World) joins() (counts []int) {
	for _, s := range w.servers {
		counts = append(counts, s.joins)
	}
	return counts
}

// joinsNow makes sure that a server runs before the operator asks to add it. A change that
// removed it, asked for since it was set up, may have stopped it, or may be answered later.
func (s *host) joinsNow(observer bool) {
	s.joins++
	if stopped := !s.installed || s.stopped; stopped && !s.w.healed {
		s.installed, s.stopped = true, false
		s.configure(observer)
	}
}

// leavePause is how long an operator waits before it stops a server that left.
const leavePause = 8 * second

// retire stops a server that is no longer a member, and takes its disk if wipe is set.
func (s *host) retire(wipe bool) {
	w := s.w
	if _, in := find(w.wanted, s.id); in || slices.Contains(w.voters, s.id) || slices.Contains(w.leaving, s.id) ||
		w.healed || w.operator.busy() {
		return
	}
	s.end(false)
	s.disk.reboot()
	s.stopped = true
	if wipe {
		s.wipe()
		s.installed = false
	}
}

// asks appends a change to the operator's list.
func (c *client) asks(next command) {
	if !c.w.healed {
		c.commands = append(c.commands, next)
		c.work()
	}
}

// operate sends the next command. A change that would take votes away waits until all voters
// are healthy.
func (c *client) operate() {
	if len(c.commands) == 0 || len(c.pending) > 0 || c.thinking {
		return
	}
	next := c.commands[0]
	for _, id := range c.w.voters {
		if s := c.w.servers[id-1]; s.unfit() {
			c.later(second, c.operate)
			return
		}
	}
	current := int64(-1)
	q := jute.ReconfigRequest{
		Joining: &next.joining, Leaving: &next.leaving, NewMembers: new(string), CurConfigID: current,
	}
	c.unsure = c.w.now + 30*second
	c.send(jute.OpReconfig, 0, q.Append(nil))
}

// later calls run after a while. If the connection is another one by then, it
// calls work instead.
func (c *client) later(d int64, run func()) {
	k := c.conn
	c.thinking = true
	c.w.after(d, func() {
		c.thinking = false
		if c.conn == k && k != nil {
			run()
		} else {
			c.work()
		}
	})
}

// operated handles the answer to a command. A change that was refused is given
// up; an unexpected code fails the World.
func (c *client) operated(code jute.Code) {
	c.unsure = 0
	var asked command
	if len(c.commands) > 0 {
		asked, c.commands = c.commands[0], c.commands[1:]
	}
	switch code {
	case jute.OK:
		if asked.retire && c.w.strict {
			c.w.remove(asked)
		}
	case jute.ErrBadArguments, jute.ErrNewConfigNoQuorum, jute.ErrThrottledOp, jute.ErrReconfigInProgress:
	default:
		c.w.fail("the operator's reconfig is answered %s", code)
	}
}

// remove stops the servers that a change has removed, for good and at once: the
// remaining ones have a quorum. A server that the operator is already adding again
// keeps running: otherwise the ensemble would admit a server that isn't started.
func (w *World) remove(done command) {
	for _, text := range strings.Split(done.leaving, ",") {
		id, err := strconv.ParseUint(text, 10, 64)
		if _, in := find(w.wanted, id); err != nil || in || w.healed || w.servers[id-1].joins != done.joins[id-1] {
			continue
		}
		s := w.servers[id-1]
		s.end(false)
		s.disk.reboot()
		s.stopped = true
		if done.wipe {
			s.wipe()
			s.installed = false
		}
	}
}
