package check

import (
	"bytes"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// entries returns the positions in the first log that fit.
func (d *mutation) entry(fits func(i int, e *history.Entry) bool) int {
	var list []int
	log := d.h.Servers[0].Entries
	for i := range log {
		if fits(i, &log[i]) {
			list = append(list, i)
		}
	}
	if len(list) == 0 {
		return -1
	}
	return list[d.rng.IntN(len(list))]
}

// onlyLog keeps one server, so that what is wrong with its log is no
// disagreement between logs.
func (d *mutation) onlyLog() *history.ServerLog {
	d.h.Servers = d.h.Servers[:1]
	return &d.h.Servers[0]
}

// answered says whether a client's request was answered.
func (d *mutation) answered(session int64, xid int32) (reply int, ok bool) {
	sessions := map[int32]int64{}
	for i := range d.h.Events {
		switch e := &d.h.Events[i]; {
		case e.Kind == history.KindConnected:
			sessions[e.Conn] = e.Session
		case e.Kind == history.KindReply && e.Xid == xid && sessions[e.Conn] == session && d.req[i] >= 0:
			return i, true
		}
	}
	return 0, false
}

var reads = []jute.Op{jute.OpGetData, jute.OpExists, jute.OpGetChildren2, jute.OpGetACL}

var damages = []damage{
	{"a read answered after its session expired", S2, "logs", nil, (*mutation).ghost},
	{"a ping answered long after its session expired", X10, "logs", nil, func(d *mutation) bool {
		if !d.ghost() {
			return false
		}
		req, rep := &d.h.Events[len(d.h.Events)-2], &d.h.Events[len(d.h.Events)-1]
		req.Xid, req.Num, req.Body, req.Time = jute.XidPing, int32(jute.OpPing), nil, req.Time+2*answerBoundMin
		rep.Xid, rep.Zxid, rep.Body, rep.Time = jute.XidPing, 0, nil, req.Time
		return true
	}},
	{"a read answered without a zxid", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, reads...)
		d.h.Events[i].Zxid = -1
		return true
	}},
	{"a read's error answered without a zxid", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.ErrNoNode, nil, reads...)
		d.h.Events[i].Zxid = -1
		return true
	}},
	{"a read answered at zxid 0", X4, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
			return slices.ContainsFunc(d.h.Events[:i], func(b history.Event) bool { return b.Conn == e.Conn && isReply(&b) })
		}, reads...)
		d.h.Events[i].Zxid = 0
		return true
	}},
	{"the first read of a session answered at zxid 0", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
			return !slices.ContainsFunc(d.h.Events[:i], func(b history.Event) bool { return b.Conn == e.Conn && b.Zxid > 0 })
		}, reads...)
		if i < 0 {
			return false
		}
		d.h.Events[i].Zxid = 0
		return true
	}},
	{"a write acknowledged without a zxid", X2, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpCreate, jute.OpSetData, jute.OpDelete, jute.OpMulti)
		d.h.Events[i].Zxid = 0
		return true
	}},
	{"a sync answered without a zxid", X9, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpSync)
		d.h.Events[i].Zxid = -1
		return true
	}},
	{"two replies swapped", X6, "calm", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool {
			j := d.next(i, isReply)
			return isReply(e) && j >= 0
		})
		j := d.next(i, isReply)
		a, b := &d.h.Events[i], &d.h.Events[j]
		a.Xid, b.Xid, a.Num, b.Num, a.Body, b.Body = b.Xid, a.Xid, b.Num, a.Num, b.Body, a.Body
		return true
	}},
	{"a reply lost in the middle", X6, "calm", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool { return isReply(e) && d.next(i, isReply) >= 0 })
		d.remove(i)
		return true
	}},
	{"a reply to a request never sent", X6, "calm", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool { return isReply(e) })
		e := d.h.Events[i]
		e.Xid += 100000
		d.insert(i+1, e)
		return true
	}},
	{"a reply sent twice", X6, "calm", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool { return isReply(e) })
		d.insert(i+1, d.h.Events[i])
		return true
	}},
	{"bodies of two reads swapped", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpGetData)
		j := d.pickReply(jute.OK, func(j int, e *history.Event) bool { return d.path(j) != d.path(i) }, jute.OpGetData)
		a, b := &d.h.Events[i], &d.h.Events[j]
		a.Body, b.Body = b.Body, a.Body
		return true
	}},
	{"a stale read", X1, "calm", nil, func(d *mutation) bool { return d.otherBody(true) }},
	{"a read of the future", X1, "calm", nil, func(d *mutation) bool { return d.otherBody(false) }},
	{"a byte of data flipped", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return len(e.Body) > jute.StatSize+4 }, jute.OpGetData)
		d.body(i)[4] ^= 1
		return true
	}},
	{"a read of a missing znode succeeds", X1, "calm", nil, func(d *mutation) bool {
		from := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return d.stat(i).EphemeralOwner == 0 },
			jute.OpExists)
		i := d.pickReply(jute.ErrNoNode, nil, jute.OpExists)
		if i < 0 || from < 0 {
			return false
		}
		g := d.stat(from)
		d.h.Events[i].Num, d.h.Events[i].Body = 0, g.Append(nil)
		// what never existed can't have gone with its session
		for j := range d.h.Events {
			if d.req[j] >= 0 && j != i && d.path(j) == d.path(i) && d.h.Events[j].Code() == jute.OK &&
				d.stat(j).EphemeralOwner != 0 {
				return false
			}
		}
		return !d.everEphemeral(d.path(i))
	}},
	bend("czxid", 0, 8, X1, reads...), bend("mzxid", 8, 8, X1, reads...),
	bend("ctime", 16, 8, X1, jute.OpGetData), bend("mtime", 24, 8, X1, jute.OpGetData),
	bend("version", 32, 4, X1, reads...), bend("cversion", 36, 4, X1, reads...), bend("aversion", 40, 4, X1, reads...),
	bend("ephemeralOwner", 44, 8, X1, reads...), bend("dataLength", 52, 4, X1, reads...),
	bend("numChildren", 56, 4, X1, reads...), bend("pzxid", 60, 8, X1, reads...),
	bend("version in a setData's reply", 32, 4, Result, jute.OpSetData), bend("numChildren in a create2's reply", 56, 4,
		Result, jute.OpCreate2),
	{"a child that doesn't exist", X1, "calm", nil, func(d *mutation) bool {
		return d.children(func(names []string) []string { return append(names, "zz") }, nil)
	}},
	{"a child listed twice", X1, "calm", nil, func(d *mutation) bool {
		return d.children(func(names []string) []string { return append(names, names[0]) }, nil)
	}},
	{"an ephemeral child left out", S1, "calm", nil, func(d *mutation) bool {
		isSequence := func(n string) bool { return strings.HasPrefix(n, "q-") }
		return d.children(func(names []string) []string { return slices.DeleteFunc(names, isSequence) },
			func(names []string) bool { return slices.ContainsFunc(names, isSequence) })
	}},
	{"an ACL entry lost", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpGetACL)
		e := &d.h.Events[i]
		e.Body = append(jute.AppendACLs(nil, nil), e.Body[len(e.Body)-jute.StatSize:]...)
		return true
	}},
	{"a count of descendants off by one", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpGetAllChildrenNumber)
		if i < 0 {
			return false
		}
		d.body(i)[3]++
		return true
	}},
	{"an ephemeral missing from getEphemerals", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return len(e.Body) > 4 }, jute.OpGetEphemerals)
		if i < 0 {
			return false
		}
		names := jute.NewDecoder(d.h.Events[i].Body).Strings()
		d.h.Events[i].Body = jute.AppendStrings(nil, names[1:])
		return true
	}},
	{"a wrong result in a multiRead", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpMultiRead)
		results, _ := jute.DecodeMultiResponse(jute.NewDecoder(d.h.Events[i].Body))
		for j := range results {
			if r := &results[j]; r.Op == jute.OpGetData && r.Stat.EphemeralOwner == 0 {
				r.Stat.Version++
				d.h.Events[i].Body = encodeResults(results)
				return true
			}
		}
		return false
	}},
	{"an ephemeral of a live session not found", S1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
			return d.stat(i).EphemeralOwner != 0 && d.usedLater(i, d.stat(i).EphemeralOwner)
		}, jute.OpGetData, jute.OpExists)
		if i < 0 {
			return false
		}
		d.h.Events[i].Num, d.h.Events[i].Body = int32(jute.ErrNoNode), nil
		return true
	}},
	{"an ephemeral outlives its session", X8, "calm", nil, func(d *mutation) bool { return d.undead() }},
	{"an ephemeral child outlives its session", X8, "calm", nil, func(d *mutation) bool { return d.undeadChild() }},

	{"a setData acknowledged under another zxid", X2, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool {
			j := d.next(i, isReply)
			return j >= 0 && d.h.Events[j].Zxid > e.Zxid
		}, jute.OpSetData, jute.OpCreate2)
		d.h.Events[i].Zxid++
		return true
	}},
	{"a create acknowledged under the next write's zxid", X5, "calm", nil, func(d *mutation) bool {
		writes := map[int64]bool{}
		for i := range d.h.Events {
			if e := &d.h.Events[i]; d.req[i] >= 0 && d.op(i).IsWrite() {
				writes[e.Zxid] = true
			}
		}
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return writes[e.Zxid+1] }, jute.OpCreate,
			jute.OpDelete)
		d.h.Events[i].Zxid++
		return true
	}},
	{"two writes exchange their places in the order", RealTime, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpDelete, jute.OpCreate)
		a := &d.h.Events[i]
		for j := i + 1; j < len(d.h.Events); j++ {
			b := &d.h.Events[j]
			if b.Conn != a.Conn && d.req[j] > i && d.op(j).IsWrite() && (d.op(j) == jute.OpDelete || d.op(j) == jute.OpCreate) &&
				b.Zxid > a.Zxid {
				a.Zxid, b.Zxid = b.Zxid, a.Zxid
				return true
			}
		}
		return false
	}},
	{"a read at a zxid below the connection's last", X4, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return e.Zxid > 100 }, jute.OpGetData)
		d.h.Events[i].Zxid -= 90
		return d.firstOn(i) < i
	}},
	{"a sync too old", X9, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return d.before(i) < d.acked(d.req[i]) }, jute.OpSync)
		if i < 0 {
			return false
		}
		d.h.Events[i].Zxid = d.acked(d.req[i]) - 1
		return true
	}},
	{"a sync echoes another path", X1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpSync)
		d.h.Events[i].Body = jute.AppendString(nil, "/other")
		return true
	}},

	{"a successful setData reported as failed", Result, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpSetData)
		d.h.Events[i].Num, d.h.Events[i].Body = int32(jute.ErrBadVersion), nil
		return true
	}},
	{"a failed delete reported as successful", Result, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.ErrNoNode, nil, jute.OpDelete)
		d.h.Events[i].Num = 0
		return true
	}},
	{"a wrong error", Result, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.ErrNodeExists, nil, jute.OpCreate, jute.OpCreate2)
		d.h.Events[i].Num = int32(jute.ErrNoNode)
		return true
	}},
	{"a wrong path of a create", Result, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return !strings.HasSuffix(d.path(i), "/q-") },
			jute.OpCreate)
		d.h.Events[i].Body = jute.AppendString(nil, "/t/wrong")
		return true
	}},
	{"a sequence number skipped", Sequence, "calm", nil, func(d *mutation) bool { return d.sequence(1) }},
	{"a sequence number used before", Sequence, "calm", nil, func(d *mutation) bool { return d.sequence(-1) }},
	{"a failed multi with a success after the failure", Multi, "calm", nil, func(d *mutation) bool {
		return d.multi(func(results []jute.MultiResult) bool {
			last := &results[len(results)-1]
			if last.Err != jute.ErrRuntimeInconsistency {
				return false
			}
			last.Err = jute.OK
			return true
		})
	}},
	{"a successful multi reported as failed", Multi, "calm", nil, func(d *mutation) bool {
		return d.multi(func(results []jute.MultiResult) bool {
			if results[0].Op == jute.OpError {
				return false
			}
			for i := range results {
				results[i] = jute.MultiResult{Op: jute.OpError, Err: jute.ErrRuntimeInconsistency}
			}
			return true
		})
	}},
	{"a multi one result short", Multi, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpMulti)
		results, _ := jute.DecodeMultiResponse(jute.NewDecoder(d.h.Events[i].Body))
		d.h.Events[i].Body = encodeResults(results[:len(results)-1])
		return true
	}},
	{"a wrong Stat in a multi", Multi, "calm", nil, func(d *mutation) bool {
		return d.multi(func(results []jute.MultiResult) bool {
			for i := range results {
				if results[i].Op == jute.OpSetData {
					results[i].Stat.Version++
					return true
				}
			}
			return false
		})
	}},
	{"a multi shown in part", Multi, "calm", nil, func(d *mutation) bool { return d.partialMulti() }},

	{"an event lost", W1, "calm", nil, func(d *mutation) bool { return d.dropEvent(false) }},
	{"an event of a persistent watch lost", W6, "calm", nil, func(d *mutation) bool { return d.dropEvent(true) }},
	{"an event told twice", W3, "calm", nil, func(d *mutation) bool {
		i := d.notification(false)
		if i < 0 {
			return false
		}
		d.insert(i+1, d.h.Events[i])
		return true
	}},
	{"an event told twice to a persistent watch", W6, "calm", nil, func(d *mutation) bool {
		i := d.notification(true)
		if i < 0 {
			return false
		}
		d.insert(i+1, d.h.Events[i])
		return true
	}},
	{"an event after the reply that shows it", X4, "calm", nil, func(d *mutation) bool { return d.lateEvent() }},
	{"an unnumbered event after the reply that shows it", X4, "unnumbered", nil,
		func(d *mutation) bool { return d.lateEvent() }},
	{"an event with another change's zxid", X3, "calm", nil, func(d *mutation) bool {
		i := d.notification(false)
		j := d.next(i, func(e *history.Event) bool { return e.Zxid > 0 })
		if i < 0 || j < 0 || d.h.Events[j].Zxid <= d.h.Events[i].Zxid {
			return false
		}
		d.h.Events[i].Zxid++
		return true
	}},
	{"an event without a zxid", X3, "calm", nil, func(d *mutation) bool {
		i := d.notification(false)
		if i < 0 {
			return false
		}
		d.h.Events[i].Zxid = -1
		return true
	}},
	{"an event of the wrong type", W1, "calm", nil, func(d *mutation) bool {
		i := d.notification(false)
		if i < 0 {
			return false
		}
		b := d.body(i)
		b[3] = b[3]%4 + 1
		return true
	}},
	{"an event of a path nobody watched", W3, "calm", nil, func(d *mutation) bool {
		i := d.notification(false)
		if i < 0 {
			return false
		}
		w := jute.WatcherEvent{Type: jute.EventNodeCreated, State: jute.StateSyncConnected, Path: "/t/nowhere"}
		e := d.h.Events[i]
		e.Body = w.Append(nil)
		d.insert(i, e)
		return true
	}},
	{"two events in the wrong order", W2, "unnumbered", nil, func(d *mutation) bool { return d.swapEvents() }},
	{"an event told to one who may not read", W7, "calm", nil, func(d *mutation) bool { return d.leak() }},
	{"an event still missing at rest", W4, "calm", func(o *Options) { o.Quiesced = true },
		func(d *mutation) bool { return d.mute() }},
	{"a catch-up event lost", W5, "gentle", nil,
		func(d *mutation) bool { return d.catchUpEvent(func(i int) { d.remove(i) }) }},
	{"a catch-up event with a zxid", W5, "gentle", nil, func(d *mutation) bool {
		return d.catchUpEvent(func(i int) {
			d.h.Events[i].Zxid = d.h.Events[d.next(i, isReply)].Zxid
		})
	}},
	{"removeWatches finds no watch where one is", W1, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, nil, jute.OpRemoveWatches)
		if i < 0 {
			return false
		}
		d.h.Events[i].Num = int32(jute.ErrNoWatcher)
		return true
	}},
	{"removeWatches finds a watch where none is", W3, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.ErrNoWatcher, nil, jute.OpRemoveWatches)
		if i < 0 {
			return false
		}
		d.h.Events[i].Num = 0
		return true
	}},

	{"a reconnect served by a server behind", X7, "gentle", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool {
			return e.Kind == history.KindConnect && d.next(i, isReply) >= 0 && d.next(i, hasZxid) == d.next(i, isReply)
		})
		d.h.Events[i].Zxid = d.h.Events[d.next(i, isReply)].Zxid + 1
		return true
	}},
	{"a new session instead of the one asked for", S2, "gentle", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool { return e.Kind == history.KindConnect && e.Session == 0 && i > 100 })
		d.h.Events[i].Session = 0x100
		return true
	}},
	{"a closed session resumed", S2, "calm", nil, func(d *mutation) bool {
		i := d.pickReply(jute.OK, func(i int, e *history.Event) bool { return e.Time > 0 }, jute.OpCloseSession)
		if i < 0 {
			return false
		}
		var session int64
		for j := range d.h.Events[:i] {
			if e := &d.h.Events[j]; e.Kind == history.KindConnected && e.Conn == d.h.Events[i].Conn {
				session = e.Session
			}
		}
		j := i
		for j++; j < len(d.h.Events) && d.h.Events[j].Kind != history.KindConnect; j++ {
		}
		k := d.next(j, func(e *history.Event) bool { return e.Kind == history.KindConnected })
		if k < 0 {
			return false
		}
		d.h.Events[j].Session, d.h.Events[k].Session = session, session
		return true
	}},
	{"a session expired early", S3, "crashes", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool {
			return e.Kind == history.KindConnected && e.Session == 0
		})
		if i < 0 {
			return false
		}
		asked := d.h.Events[i-1].Session
		for j := range d.h.Events {
			if e := &d.h.Events[j]; e.Kind == history.KindConnected && e.Session == asked {
				e.Num = 1000 * simTimeout
			}
		}
		return true
	}},
	{"an ephemeral whose client is long gone", S4, "calm", func(o *Options) { o.ExpirySlack = 1e10 },
		func(d *mutation) bool { return d.silence() }},
	{"a write over a connection the session had left", S6, "crashes", nil, func(d *mutation) bool { return d.moved() }},

	{"an acknowledged write missing from the logs", Durability, "logs", nil, func(d *mutation) bool {
		i := d.entry(func(i int, e *history.Entry) bool {
			_, ok := d.answered(e.Session, e.Xid)
			return ok && e.Xid > 0
		})
		z := d.h.Servers[0].Entries[i].Zxid
		for s := range d.h.Servers {
			l := &d.h.Servers[s]
			l.Entries = slices.DeleteFunc(l.Entries, func(e history.Entry) bool { return e.Zxid == z })
		}
		return true
	}},
	{"a request in the log twice", Twice, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool { return e.Xid > 0 })
		again := l.Entries[i]
		again.Zxid = l.Entries[len(l.Entries)-1].Zxid + 1
		l.Entries = append(l.Entries, again)
		return true
	}},
	{"a request in the log that nobody sent", Origin, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool { return e.Xid > 0 })
		e := l.Entries[i]
		e.Zxid, e.Xid = l.Entries[len(l.Entries)-1].Zxid+1, 1<<30
		l.Entries = append(l.Entries, e)
		return true
	}},
	{"a request altered in the log", Origin, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool { return e.Op == jute.OpSetData })
		l.Entries[i].Body = bytes.Clone(l.Entries[i].Body)
		l.Entries[i].Body[6] ^= 1
		return true
	}},
	{"two servers with different requests", Agreement, "logs", nil, func(d *mutation) bool {
		i := d.entry(func(i int, e *history.Entry) bool { return e.Op == jute.OpSetData })
		d.h.Servers[1].Entries[i].Xid++
		return true
	}},
	{"two servers with different digests", Agreement, "logs", nil, func(d *mutation) bool {
		i := d.entry(func(i int, e *history.Entry) bool { return true })
		d.h.Servers[2].Entries[i].Digest++
		return true
	}},
	{"a server that skipped an entry", Agreement, "logs", nil, func(d *mutation) bool {
		i := d.entry(func(i int, e *history.Entry) bool { return i > 0 && i < len(d.h.Servers[0].Entries)-1 })
		d.h.Servers[1].Entries = slices.Delete(d.h.Servers[1].Entries, i, i+1)
		return true
	}},
	{"a zxid used twice in the log", X5, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool { return i > 0 })
		l.Entries[i].Zxid = l.Entries[i-1].Zxid
		return true
	}},
	{"an acknowledged zxid that isn't the log's", X2, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		for i := range l.Entries {
			l.Entries[i].Zxid++
		}
		return true
	}},
	{"a write lost and a later one of its connection kept", FIFO, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool {
			_, ok := d.answered(e.Session, e.Xid)
			return e.Xid > 0 && !ok &&
				slices.ContainsFunc(l.Entries[i+1:], func(x history.Entry) bool { return x.Session == e.Session && x.Cnx == e.Cnx })
		})
		if i < 0 {
			return false
		}
		l.Entries = slices.Delete(l.Entries, i, i+1)
		return true
	}},
	{"two writes of a connection in the wrong order", FIFO, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool {
			return i+1 < len(l.Entries) && e.Xid > 0 && l.Entries[i+1].Xid > 0 && l.Entries[i+1].Cnx == e.Cnx
		})
		if i < 0 {
			return false
		}
		l.Entries[i], l.Entries[i+1] = l.Entries[i+1], l.Entries[i]
		l.Entries[i].Zxid, l.Entries[i+1].Zxid = l.Entries[i+1].Zxid, l.Entries[i].Zxid
		return true
	}},
	{"an entry of an ended session", S2, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool { return e.Op == jute.OpCloseSession })
		e := l.Entries[i]
		e.Op, e.Body, e.Zxid, e.Cnx, e.Xid = jute.OpDelete, jute.AppendInt(jute.AppendString(nil, "/t/x"), -1),
			l.Entries[len(l.Entries)-1].Zxid+1, 0, 0
		l.Entries = append(l.Entries, e)
		return true
	}},
	{"an expiry before its time", S3, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool { return e.Op == jute.OpCloseSession && e.Cnx == 0 })
		l.Entries[i].Time -= 2 * simTimeout
		return true
	}},
	{"an expiry in a later term", S5, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool { return e.Op == jute.OpCloseSession && e.Cnx == 0 })
		l.Entries[i].Term, l.Entries[i].Body = 5, jute.AppendLong(nil, 4)
		return true
	}},
	{"an entry over a connection the session had left", S6, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		first := map[int64]int64{}
		i := d.entry(func(i int, e *history.Entry) bool {
			if e.Cnx != 0 && first[e.Session] == 0 {
				first[e.Session] = e.Cnx
			}
			return e.Cnx != 0 && e.Cnx != first[e.Session] &&
				slices.ContainsFunc(l.Entries[i+1:], func(x history.Entry) bool { return x.Cnx == e.Cnx })
		})
		l.Entries[i+1+slices.IndexFunc(l.Entries[i+1:],
			func(x history.Entry) bool { return x.Cnx == l.Entries[i].Cnx })].Cnx = first[l.Entries[i].Session]
		return true
	}},
	{"a server's own result is wrong", Result, "logs", nil, func(d *mutation) bool {
		l := d.onlyLog()
		i := d.entry(func(i int, e *history.Entry) bool {
			_, ok := d.answered(e.Session, e.Xid)
			return e.Xid > 0 && !ok
		})
		l.Entries[i].Err--
		return true
	}},
	{"a znode missing in the end", Durability, "dumps", nil, func(d *mutation) bool {
		d.remove(d.pick(func(i int, e *history.Event) bool {
			return e.Kind == history.KindDump && strings.HasPrefix(firstPath(e), "/t/")
		}))
		return true
	}},
	{"other data in the end", Durability, "dumps", nil, func(d *mutation) bool {
		i := d.pick(func(i int, e *history.Event) bool {
			return e.Kind == history.KindDump && strings.HasPrefix(firstPath(e), "/t/")
		})
		b := d.body(i)
		b[len(b)-jute.StatSize-1] ^= 1
		return true
	}},
	{"an acknowledged write not reached in the end", Durability, "dumps", nil, func(d *mutation) bool {
		for i := range d.h.Events {
			if e := &d.h.Events[i]; e.Kind == history.KindDump && e.Conn == 1 {
				e.Zxid -= 5
			}
		}
		return true
	}},
}
