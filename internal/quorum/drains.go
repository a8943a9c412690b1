package quorum

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
)

// A drained server turns clients away until it is restarted. If all three servers drain, none
// serves. So a server asks the leader before it drains, and the leader grants that only if a
// majority of the voters stays: voters that are known to serve and that neither drain nor are
// allowed to.
//
// None of this is in the log. Each server knows whether it drains, and reports that to the leader
// several times a second:
//
//	report   term(8) ask(8) flags(1)
//	answer   ask(8) reason; an empty reason grants
//
// A server with a stuck disk asks the same question without wanting to drain: it sends new clients to the others,
// unless no majority serves without it (Status.Needed). A leader of an earlier version doesn't answer that question.
//
// A leader relies only on reports of its own term that are no older than drainAgeTicks. A server
// without such a report doesn't count as staying, whatever the cause.
//
// Two drains can't both be granted if only one may be:
//
//   - Within a term the leader decides one after the other. It remembers a grant until that server
//     reports that it serves, or asks again.
//   - A server that hears of another leader or term gives its open ask a new number and ignores answers to the former
//     one. So the leader of an earlier term can no longer grant it a drain, and its report says truly whether it
//     drains.
//   - Of the grants that took effect, consider the last one of the latest term. Each voter that counted as staying had
//     reported in that term that it doesn't drain, and has been granted nothing since. These voters are a majority.
//
// A server of an earlier version doesn't know these frames, as a leader or as a follower. It gets none, and doesn't
// count as staying.

const (
	// drainTicks is the pause between two reports.
	drainTicks = 4
	// drainAgeTicks is how long a report is valid.
	drainAgeTicks = 20
	// drainReasonMax bounds the reason in an answer, in bytes.
	drainReasonMax  = 512
	drainReportSize = 8 + 8 + 1
	drainAskSize    = 8
)

// The flags of a report.
const (
	drainAsks  = 1 << iota // it asks to drain
	drainDoes              // it drains
	drainStuck             // its disk is stuck, and it asks whether the others serve without it
)

// A DrainWish is what a server wants about draining.
type DrainWish uint8

const (
	DrainNot   DrainWish = iota // serve
	DrainAsk                    // drain if the leader grants it
	DrainForce                  // drain even if others drain
)

// Draining says whether a server drains.
type Draining struct {
	Drained bool   // it may turn clients away
	Wish    uint64 // number of the wish that this is about
	// Refusal is why the leader refused the open ask, or why it couldn't be asked; "" if the leader hasn't answered yet.
	// The server keeps asking. Final says that asking again is useless as long as others drain.
	Refusal string
	Final   bool
}

// ErrAlone refuses the drain of a standalone server, because no other server would take over.
var ErrAlone = errors.New("drain this server: it is alone, and no other could take over; stop it, its sessions wait for it until their timeouts")

// A DrainRefusedError says that a server may not drain, because too few others would still serve.
type DrainRefusedError struct{ Why string }

func (e *DrainRefusedError) Error() string {
	return "drain this server: refused: " + e.Why +
		". It serves on. Start the drained servers again, or undo their drains (zooid drain -undo); with -force and a reason (-why) it drains all the same"
}

// A drainReport is a follower's report, as the leader got it.
type drainReport struct {
	conn, tick uint64
	ask        uint64
	flags      byte
}

// drains holds what a server knows about drains.
type drains struct {
	*view
	levels *levels
	tasks  *tasks
	orders drainOrders

	wishNumber uint64 // number of the last wish that tick has carried out

	drained bool
	asking  bool
	ask     uint64 // number of the last ask, which no other run of any server has used
	refusal string
	final   bool

	inquires     bool   // its disk is stuck, and it asks whether the others serve without it
	answeredAt   uint64 // the tick of the newest answer to that
	refusedSince uint64 // tick since which all answers say that they don't; 0 if the newest says that they do

	told    map[uint64]drainReport // on a leader: the newest report of this term, by server
	granted map[uint64]uint64      // on a leader: the number of the ask that was granted, by server
}

// drainOrders holds the wish of the last call of Drain.
type drainOrders struct {
	mu     sync.Mutex
	wish   DrainWish
	number uint64 // of wish
}

// Drain sets whether this server drains, and returns the number of that wish. Status().Draining
// says what has become of it. Drain may be called from any goroutine.
func (l *Loop) Drain(w DrainWish) (number uint64) { return l.drains.orders.give(w) }

func (o *drainOrders) give(w DrainWish) (number uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.wish = w
	o.number++
	return o.number
}

func (o *drainOrders) last() (w DrainWish, number uint64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.wish, o.number
}

// tick carries out the wish and reports to the leader.
func (d *drains) tick() {
	wish, number := d.orders.last()
	changed := number != d.wishNumber
	if changed {
		d.wishNumber = number
		d.refusal, d.final = "", false
		d.ask++
		d.drained = d.drained && wish == DrainAsk || wish == DrainForce
		d.asking = wish == DrainAsk && !d.drained
	}
	if stuck := d.tasks.stuck(); stuck != d.inquires {
		d.inquires, d.refusedSince = stuck, 0
		changed = true
	}
	if !changed && d.ticks%drainTicks != 0 {
		return
	}
	lead := d.lastLead.Leader
	switch {
	case d.lastLead.IsLeader:
		if d.asking || d.inquires {
			refusal, final := d.decide(d.id)
			d.took(refusal, final)
		}
	case lead != 0 && d.levels.frames[lead] >= FrameDrainAnswer && d.shell.Connected(lead):
		d.shell.Send(lead, FrameDrain, d.report())
	case !d.asking:
	case lead == 0:
		d.refusal = "there is no leader to ask"
	case d.levels.known[lead] != 0:
		d.refusal = fmt.Sprintf("server %d leads and runs an earlier version, which doesn't know which servers drain", lead)
	default:
		d.refusal = fmt.Sprintf("server %d leads and isn't reached", lead)
	}
}

// report returns this server's report to the leader.
func (d *drains) report() []byte {
	flags := flagIf(d.asking, drainAsks) | flagIf(d.drained, drainDoes) | flagIf(d.inquires, drainStuck)
	b := binary.BigEndian.AppendUint64(nil, d.lastLead.Term)
	return append(binary.BigEndian.AppendUint64(b, d.ask), flags)
}

// led handles a change of leader or term.
func (d *drains) led() {
	d.told, d.granted = map[uint64]drainReport{}, map[uint64]uint64{}
	d.refusedSince = 0
	if d.asking {
		d.ask++ // ignores a late grant by the former leader
	}
}

// reported handles a server's report, and answers if it asks.
func (d *drains) reported(e Event) {
	if len(e.Data) != drainReportSize || !d.lastLead.IsLeader || !contains(d.conf, e.From) ||
		binary.BigEndian.Uint64(e.Data) != d.lastLead.Term || e.Conn < d.told[e.From].conn {
		return
	}
	r := drainReport{conn: e.Conn, tick: d.ticks, ask: binary.BigEndian.Uint64(e.Data[8:]), flags: e.Data[16]}
	d.told[e.From] = r
	if was, ok := d.granted[e.From]; ok && (was != r.ask || r.flags&(drainAsks|drainDoes) == 0) {
		delete(d.granted, e.From)
	}
	if r.flags&(drainAsks|drainStuck) == 0 || d.levels.frames[e.From] < FrameDrainAnswer {
		return
	}
	reason, final := d.decide(e.From)
	if reason == "" && r.flags&drainAsks != 0 {
		d.granted[e.From] = r.ask
	}
	answer := binary.BigEndian.AppendUint64(nil, r.ask)
	if final {
		reason = drainFinal + reason
	}
	d.shell.Send(e.From, FrameDrainAnswer, append(answer, reason[:min(len(reason), drainReasonMax)]...))
}

// drainFinal begins the reason of a final refusal.
const drainFinal = "!"

// answered handles the leader's answer.
func (d *drains) answered(e Event) {
	if len(e.Data) < drainAskSize || len(e.Data) > drainAskSize+drainReasonMax || !d.asking && !d.inquires ||
		e.From != d.lastLead.Leader || binary.BigEndian.Uint64(e.Data) != d.ask {
		return
	}
	reason, final := strings.CutPrefix(string(e.Data[drainAskSize:]), drainFinal)
	d.took(reason, final)
}

// took handles the decision on this server's ask.
func (d *drains) took(refusal string, final bool) {
	d.answeredAt = d.ticks
	if refusal == "" {
		d.refusedSince = 0
	} else if d.refusedSince == 0 {
		d.refusedSince = d.ticks
	}
	if !d.asking {
		return
	}
	d.refusal, d.final = refusal, final
	if refusal == "" {
		d.drained, d.asking = true, false
	}
}

// needed returns what Status.Needed says.
func (d *drains) needed() bool {
	lasts, fresh := d.ticks-d.refusedSince >= drainAgeTicks, d.ticks-d.answeredAt <= drainAgeTicks
	return d.inquires && d.refusedSince > 0 && lasts && fresh
}

// decide returns why a server may not drain, or "". final says that servers whose state is unknown now make no
// difference.
func (d *drains) decide(id uint64) (refusal string, final bool) {
	if _, ok := d.granted[id]; ok {
		return "", false // the answer was lost
	}
	for _, voters := range [][]uint64{d.conf.GetVoters(), d.conf.GetVotersOutgoing()} {
		var missing []string
		staying, unknown := 0, 0
		for _, v := range slices.Sorted(slices.Values(voters)) {
			if v == id {
				continue
			}
			why, certain := d.absent(v)
			switch {
			case why == "":
				staying++
				continue
			case !certain:
				unknown++
			}
			missing = append(missing, fmt.Sprintf("server %d %s", v, why))
		}
		if most := len(voters)/2 + 1; len(voters) > 0 && staying < most {
			refusal = fmt.Sprintf("%d of %d voters would keep serving, and %d are needed", staying, len(voters), most)
			if len(missing) > 0 {
				refusal += "; " + strings.Join(missing, ", ")
			}
			return refusal, staying+unknown < most
		}
	}
	return "", false
}

// absent returns why a voter doesn't count as staying, or "". certain says that it drains, and was connected a moment
// ago.
func (d *drains) absent(id uint64) (why string, certain bool) {
	if id == d.id {
		switch {
		case d.drained:
			return "drains", true
		case d.tasks.stuck():
			return "waits for its disk", false
		}
		return "", false
	}
	r, ok := d.told[id]
	outdated := !ok || d.ticks-r.tick > drainAgeTicks
	switch {
	case d.drains(id):
		return "drains", !outdated // it may be a new process already
	case d.levels.known[id] != 0 && d.levels.frames[id] < FrameDrainAnswer:
		return "runs an earlier version, which doesn't say whether it drains", false
	case outdated:
		return "hasn't said that it serves", false
	case r.flags&drainStuck != 0:
		return "waits for its disk", false
	case !d.node.replicates(id):
		return "has yet to catch up", false
	}
	return "", false
}

// drains reports whether another server drains, or has been allowed to.
func (d *drains) drains(id uint64) bool {
	_, may := d.granted[id]
	return may || d.told[id].flags&drainDoes != 0
}

// known returns the servers known to drain, including this one, in ascending order.
func (d *drains) known() (ids []uint64) {
	if d.drained {
		ids = append(ids, d.id)
	}
	for id := range d.told { // any order: sorted below
		if d.drains(id) {
			ids = append(ids, id)
		}
	}
	slices.Sort(ids)
	return ids
}

// replicates reports whether a follower gets entries as they come.
func (n *Node) replicates(id uint64) bool {
	return slices.ContainsFunc(n.Followers(), func(p Progress) bool { return p.ID == id && p.Synced })
}
