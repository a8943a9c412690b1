package sim

import (
	"slices"

	"github.com/zooid-project/zooid/internal/quorum"
)

// retransmit is the time after which TCP sends a lost packet again.
const retransmit = 200 * millisecond

// A stream is one direction of a TCP connection: data arrives in order, late, or not at
// all because the connection ended. While the path is cut, data waits.
type stream struct {
	w        *World
	from, to int // indexes into World.cuts
	segments []segment
	last     int64 // arrival of the last segment
	running  bool
	dead     bool // nothing more arrives
}

// segment is data that arrives in one piece.
type segment struct {
	at    int64
	bytes int // see waiting
	run   func()
}

// send schedules run at the other end, after everything sent before; sent is
// when it was sent.
func (s *stream) send(sent int64, run func()) {
	if s.dead {
		return
	}
	s.last = max(s.last, sent+s.w.delayTo(s.from, s.to))
	s.segments = append(s.segments, segment{at: s.last, run: run})
	if !s.running {
		s.running = true
		s.w.at(s.last, s.pump)
	}
}

// pump delivers the segments that are due.
func (s *stream) pump() {
	for {
		switch {
		case s.dead || len(s.segments) == 0:
			s.running, s.segments = false, nil
			return
		case s.w.cuts[s.from][s.to] > 0:
			s.w.after(retransmit, s.pump)
			return
		case s.segments[0].at > s.w.now:
			s.w.at(s.segments[0].at, s.pump)
			return
		}
		run := s.segments[0].run
		s.segments[0].run = nil
		s.segments = s.segments[1:]
		run()
	}
}

// delay draws how long a packet travels: the base, jitter, and a retransmission
// for each time it is lost.
func (w *World) delay() int64 {
	d := w.plan.Delay + int64(float64(w.plan.Jitter)*w.netDice.ExpFloat64())
	loss := 0
	for _, l := range w.loss {
		loss += l
	}
	for wait := retransmit; loss > 0 && chance(w.netDice, min(loss, lossMax)); wait *= 2 {
		d += wait
		if wait > 4*retransmit {
			break
		}
	}
	return d
}

// regions is how many regions there are in a plan with Far. Clients are near to each server.
const regions = 3

// delayTo is delay for a packet from a to b, indexes into World.cuts.
func (w *World) delayTo(a, b int) int64 {
	d := w.delay()
	if a != 0 && b != 0 && a%regions != b%regions {
		d += w.plan.Far
	}
	return d
}

// doubled reports whether a message arrives twice.
func (w *World) doubled() bool {
	return slices.ContainsFunc(w.double, func(percent int) bool { return percent > 0 && chance(w.netDice, percent) })
}

// lossMax bounds the percentage of packets lost.
const lossMax = 60

// A link is the connection over which one server sends to another, whether it
// is up or not. It belongs to the dialling server.
type link struct {
	w        *World
	from, to *host
	at       *host // to, or, by mistake, the server with its id of another ensemble
	up       bool
	stream   *stream
	waiting  *waiting // nil before the first connection
	mine     *life    // made the connection
	peer     *life    // accepted the connection
	number   uint64   // of the connection, among those that peer accepted
	backoff  int64
	attempt  int // number of the last attempt
}

const (
	backoffMin   = 20 * millisecond
	backoffMax   = second
	dialPatience = 2 * second
)

// dial tries until it is connected or its server's life is over.
func (l *link) dial() {
	w, mine := l.w, l.from.life
	if mine == nil || l.up || !mine.peers[l.to.id] {
		return
	}
	l.attempt++
	attempt := l.attempt
	way := w.delayTo(l.from.index, l.to.index) + w.delayTo(l.to.index, l.from.index)
	again := func(after int64) {
		l.backoff = min(2*l.backoff, backoffMax)
		w.after(after, func() {
			if l.from.life == mine && !l.up && l.attempt == attempt {
				l.dial()
			}
		})
	}
	to := w.atNameOf(l.to.id)
	if w.cut(l.from.index, l.to.index) || to.paused() || to.dark.on() {
		again(dialPatience)
		w.lastFault = max(w.lastFault, w.now+dialPatience) // the server's data waits that long
		return
	}
	w.after(2*way, func() {
		switch {
		case l.from.life != mine || l.up || l.attempt != attempt:
		case to.life == nil || to.life.loop == nil || w.cut(l.from.index, l.to.index) || !to.life.peers[l.from.id] ||
			l.to.unnamed.on() || !proves(l.from, to):
			again(l.backoff)
		case to.cluster != l.from.cluster:
			w.stats.Strangers++
			again(l.backoff)
		default:
			l.up, l.at, l.mine, l.peer, l.backoff = true, to, mine, to.life, backoffMin
			if old := l.stream; w.plan.Queue > 0 && old != nil && old.running && chance(w.queueDice, 70) {
				old.dead = true // the peer closes the one that is superseded
				w.stats.Superseded++
			}
			l.stream = &stream{w: w, from: l.from.index, to: l.to.index}
			l.waiting = &waiting{l: l, peer: l.peer}
			l.peer.accepted++
			l.number = l.peer.accepted
			// Anything sent before the loop hears of the connection is out of order.
			w.after(between(w.netDice, 0, max(2*millisecond, w.plan.Jitter)), func() {
				mine.hear(quorum.Event{Kind: quorum.EventConnected, From: l.to.id})
				if level := l.peer.level; level > levelFirst {
					mine.hear(quorum.Event{Kind: quorum.EventLevel, From: l.to.id, Level: uint32(level)})
					mine.hear(quorum.Event{Kind: quorum.EventRules, From: l.to.id, Data: l.peer.rules().Append(nil)})
				}
				if d, ok := l.peer.loop.Status().Departed[l.from.id]; ok {
					mine.hear(quorum.Event{Kind: quorum.EventDeparted, From: l.to.id, Data: d.Append(nil)})
				}
				if note := l.peer.skips; note != nil {
					mine.hear(quorum.Event{Kind: quorum.EventSkips, From: l.to.id, Data: note})
				}
			})
		}
	})
}

// cut reports whether packets are lost from a to b or from b to a.
func (w *World) cut(a, b int) bool { return w.cuts[a][b] > 0 || w.cuts[b][a] > 0 }

// send sends a frame, as quorum.Shell specifies.
func (l *link) send(sent int64, kind quorum.FrameKind, payload []byte) bool {
	if !l.up {
		return false
	}
	w, peer := l.w, l.peer
	if peer != l.at.life {
		// That process is gone: the answer is a reset, if there is an answer.
		if l.at.life != nil && !w.cut(l.from.index, l.to.index) {
			w.after(w.delayTo(l.to.index, l.from.index), func() { l.lose(peer) })
		}
		return true
	}
	from, number := l.from.id, l.number
	queued := l.waiting
	bytes, ok := queued.add(kind, payload)
	if !ok {
		return false
	}
	w.stats.Frames++
	w.traceBytes(uint64(kind)<<8|from, payload)
	payload = slices.Clone(payload)
	arrive := func() {
		if l.at.life == peer {
			if e, ok := kind.Event(from, number, payload); ok {
				peer.hear(e)
			}
		}
	}
	if bytes > 0 {
		l.stream.send(sent, func() {
			arrive()
			l.at.awake(func() { queued.read(bytes) })
		})
		l.stream.segments[len(l.stream.segments)-1].bytes = bytes
	} else {
		l.stream.send(sent, arrive)
	}
	// Raft expects lost, late and doubled messages. Clients' requests are never
	// doubled: the transport is TCP.
	if kind == quorum.FrameRaft && w.doubled() {
		w.stats.Doubled++
		l.stream.send(sent+w.delay(), arrive)
	}
	return true
}

// lose ends the connection with that life of the peer on the sender's side, which dials
// again. Data under way may still arrive, even after data sent on the new connection.
func (l *link) lose(peer *life) {
	if !l.up || l.peer != peer || l.from.life != l.mine {
		return
	}
	w, old := l.w, l.stream
	l.up = false
	if chance(w.netDice, 50) {
		old.dead = true
	}
	from := l.from.id
	old.dead = old.dead || peer != l.at.life
	old.segments = l.waiting.cut(old.segments)
	if t := l.mine.sending[l.to.id]; t != nil && w.plan.Stream > 0 && chance(w.queueDice, 50) {
		t.end(errEnded)
	}
	// The peer hears of it after earlier data, or when a reset arrives.
	at := l.at
	w.after(w.delayTo(l.from.index, l.to.index), func() {
		if at.life == peer {
			peer.hear(quorum.Event{Kind: quorum.EventLost, From: from})
		}
	})
	l.backoff = backoffMin
	l.dial()
}

// fallen handles a server's connections when its process ends. A power cut is
// silent: peers find out by themselves, and later.
func (s *host) fallen(silent bool, old *life) {
	w := s.w
	for _, other := range w.servers {
		if other == s {
			continue
		}
		out := w.links[s.index][other.index]
		if out.up {
			out.up = false
			peer, stream, at := out.peer, out.stream, out.at
			stream.segments = out.waiting.cut(stream.segments)
			if silent {
				stream.dead = true
				w.after(between(w.netDice, second, 20*second), func() {
					if at.life == peer {
						peer.hear(quorum.Event{Kind: quorum.EventLost, From: s.id})
					}
				})
			} else {
				stream.send(w.now, func() {
					if at.life == peer {
						peer.hear(quorum.Event{Kind: quorum.EventLost, From: s.id})
					}
				})
			}
		}
		in := w.links[other.index][s.index]
		wait := w.delayTo(s.index, other.index)
		if silent {
			wait = between(w.netDice, 5*second, 15*second)
		}
		w.after(wait, func() { in.lose(old) })
		if w.twin != nil {
			w.after(wait, func() { w.twin.links[other.index][s.index].lose(old) })
		}
	}
}
