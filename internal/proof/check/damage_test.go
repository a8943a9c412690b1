package check

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// A damage is one kind of lie told by a server, planted in a good history.
type damage struct {
	name string
	want Rule
	on   string // kind of history it needs: "calm", "gentle", "crashes", "logs", "unnumbered", "dumps"
	opt  func(*Options)
	do   func(d *mutation) bool // false: this history offers no place for it
}

// A mutation is a copy of a history about to be damaged.
type mutation struct {
	h   *history.History
	rng *rand.Rand
	opt *Options
	req []int // for each event that is a reply, the index of its request, else -1
}

func newMutation(h *history.History, rng *rand.Rand, opt *Options) *mutation {
	d := &mutation{h: &history.History{WallStart: h.WallStart, Events: slices.Clone(h.Events)}, rng: rng, opt: opt}
	for _, s := range h.Servers {
		d.h.Servers = append(d.h.Servers, history.ServerLog{Server: s.Server, Entries: slices.Clone(s.Entries)})
	}
	open := map[[2]int32]int{}
	d.req = make([]int, len(h.Events))
	for i := range h.Events {
		d.req[i] = -1
		switch e := &h.Events[i]; e.Kind {
		case history.KindRequest:
			open[[2]int32{e.Conn, e.Xid}] = i
		case history.KindReply:
			if j, ok := open[[2]int32{e.Conn, e.Xid}]; ok {
				d.req[i] = j
			}
		}
	}
	return d
}

func (d *mutation) op(i int) jute.Op { return d.h.Events[d.req[i]].Op() }

func (d *mutation) path(i int) string {
	return jute.NewDecoder(d.h.Events[d.req[i]].Body).String()
}

// pick returns the index of a random event that fits, -1 if none does.
func (d *mutation) pick(fits func(i int, e *history.Event) bool) int {
	var list []int
	for i := range d.h.Events {
		if fits(i, &d.h.Events[i]) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return -1
	}
	return list[d.rng.IntN(len(list))]
}

// pickReply picks an answered request of one of ops with the given code.
func (d *mutation) pickReply(code jute.Code, fits func(i int, e *history.Event) bool, ops ...jute.Op) int {
	return d.pick(func(i int, e *history.Event) bool {
		return e.Kind == history.KindReply && d.req[i] >= 0 && e.Code() == code && slices.Contains(ops, d.op(i)) &&
			(fits == nil || fits(i, e))
	})
}

func (d *mutation) remove(i int) {
	d.h.Events = slices.Delete(d.h.Events, i, i+1)
}

func (d *mutation) insert(i int, e history.Event) {
	e.Time = d.h.Events[min(i, len(d.h.Events)-1)].Time
	d.h.Events = slices.Insert(d.h.Events, i, e)
}

// body gives an event a body of its own to write into.
func (d *mutation) body(i int) []byte {
	e := &d.h.Events[i]
	e.Body = bytes.Clone(e.Body)
	return e.Body
}

// next returns the next event on i's connection that fits.
func (d *mutation) next(i int, fits func(e *history.Event) bool) int {
	for j := i + 1; j < len(d.h.Events); j++ {
		if e := &d.h.Events[j]; e.Conn == d.h.Events[i].Conn && fits(e) {
			return j
		}
	}
	return -1
}

func (d *mutation) stat(i int) jute.Stat {
	g, _ := lastStat(d.op(i), d.h.Events[i].Body)
	return g
}

// bend returns a damage to one field of the Stat of a read.
func bend(name string, offset, size int, rule Rule, ops ...jute.Op) damage {
	return damage{name: "wrong " + name, want: rule, on: "calm", do: func(d *mutation) bool {
		seen := map[int64]int{}
		for i := range d.h.Events {
			if d.req[i] >= 0 && d.h.Events[i].Code() == jute.OK && d.op(i) == jute.OpGetData {
				seen[d.stat(i).Mzxid]++
			}
		}
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
			return strings.HasPrefix(d.path(i), "/t/") && (offset < 16 || seen[d.stat(i).Mzxid] > 2)
		}, ops...)
		if i < 0 {
			return false
		}
		b := d.body(i)
		field := b[len(b)-jute.StatSize+offset:]
		if size == 8 {
			binary.BigEndian.PutUint64(field, binary.BigEndian.Uint64(field)+1)
		} else {
			binary.BigEndian.PutUint32(field, binary.BigEndian.Uint32(field)+1)
		}
		return true
	}}
}

func isReply(e *history.Event) bool { return e.Kind == history.KindReply && e.Zxid > 0 }

// notification picks a numbered notification that a later reply on its
// connection shows, for a persistent watch or for a one-shot one.
func (d *mutation) notification(persistent bool) int {
	c := d.swept()
	return d.pick(func(i int, e *history.Event) bool {
		if e.Kind != history.KindNotification || e.Zxid <= 0 ||
			d.next(i, func(r *history.Event) bool { return isReply(r) && r.Zxid >= e.Zxid }) < 0 {
			return false
		}
		var w jute.WatcherEvent
		w.Decode(jute.NewDecoder(e.Body))
		alone := 0
		stays := false
		for _, x := range c.conns[e.Conn].expected {
			if x.zxid == e.Zxid {
				alone++
				stays = stays || x.stays
			}
		}
		return alone == 1 && stays == persistent
	})
}

func TestEveryDamageIsFound(t *testing.T) {
	if testing.Short() {
		t.Skip("in a run that isn't short")
	}
	kinds := map[string][]*history.History{}
	for seed := range uint64(4) {
		e := newEnsemble(seed+50, 8)
		e.crashes = false
		kinds["calm"] = append(kinds["calm"], e.run(2500))

		e = newEnsemble(seed+60, 8)
		kinds["crashes"] = append(kinds["crashes"], e.run(2500))

		e = newEnsemble(seed+65, 8)
		e.gentle, e.prompt = true, true
		kinds["gentle"] = append(kinds["gentle"], e.run(2500))

		e = newEnsemble(seed+70, 8)
		h := e.run(2500)
		for i, r := range e.replicas {
			h.Servers = append(h.Servers, history.ServerLog{Server: int32(i), Entries: slices.Clone(e.log[:r.applied])})
		}
		kinds["logs"] = append(kinds["logs"], h)

		e = newEnsemble(seed+80, 8)
		e.crashes, e.unnumbered = false, true
		kinds["unnumbered"] = append(kinds["unnumbered"], e.run(2500))

		e = newEnsemble(seed+90, 8)
		e.crashes = false
		e.run(1500)
		e.dump()
		kinds["dumps"] = append(kinds["dumps"], e.h)
	}
	for _, x := range damages {
		t.Run(x.name, func(t *testing.T) {
			t.Parallel()
			done := 0
			for n := range 16 {
				h := kinds[x.on][n%4]
				opt := Options{ExtendedTypes: true, NotificationsUnnumbered: x.on == "unnumbered", ViolationsMax: 1000}
				if x.opt != nil {
					x.opt(&opt)
				}
				d := newMutation(h, rand.New(rand.NewPCG(uint64(n), 3)), &opt)
				if !x.do(d) {
					continue
				}
				done++
				r := Check(d.h, opt)
				if !slices.Contains(r.Rules(), x.want) {
					r.Violations = r.Violations[:min(3, len(r.Violations))]
					t.Errorf("history %d: want %s, got %v", n, x.want, r.Rules())
					report(t, d.h, r)
				}
			}
			if done < 3 {
				t.Errorf("only %d of 16 histories offered a place for it", done)
			}
		})
	}
}

// dump records every replica's znodes.
func (e *ensemble) dump() {
	for i, r := range e.replicas {
		r.applyAll()
		paths := make([]string, 0, len(r.m.nodes))
		for p, n := range r.m.nodes {
			if n.now() != nil {
				paths = append(paths, p)
			}
		}
		slices.Sort(paths)
		for _, p := range paths {
			s := r.m.nodes[p].now()
			g := s.stat()
			e.record(history.Event{
				Kind: history.KindDump, Conn: int32(i), Zxid: r.zxid, Body: g.Append(jute.AppendBuffer(jute.AppendString(nil, p),
					s.data)),
			})
		}
	}
}
