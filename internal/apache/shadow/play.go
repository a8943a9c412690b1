package shadow

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// lookEvery is how often the player checks for timeouts.
const lookEvery = 200 * time.Millisecond

// play plays exchanges to the shadow until ctx ends, or until all have been played and no more can come. It runs on
// one goroutine.
func (p *Proxy) play(ctx context.Context) {
	tick := time.NewTicker(lookEvery)
	defer tick.Stop()
	for ctx.Err() == nil {
		if batch := p.next(); len(batch) > 0 {
			p.playBatch(ctx, batch)
			p.mu.Lock()
			p.flying -= len(batch)
			p.mu.Unlock()
			select {
			case <-tick.C:
				p.overdue(ctx)
			default:
			}
			continue
		}
		if p.finished() {
			return
		}
		select {
		case <-ctx.Done():
		case <-p.wake:
		case <-tick.C:
			p.overdue(ctx)
		}
	}
}

// A flight is an exchange that has been sent to the shadow.
type flight struct {
	*exchange
	l    *link
	call *call
}

// playBatch plays one exchange, or several reads together.
func (p *Proxy) playBatch(ctx context.Context, batch []*exchange) {
	switch first := batch[0]; first.kind {
	case detached:
		p.reattach(ctx, first.s)
		return
	case expired:
		p.expire(ctx, first.s)
		return
	}
	var flights []flight
	for _, x := range batch {
		l, err := p.linkOf(ctx, x.s)
		var record []byte
		if err == nil {
			record, err = p.record(x)
		}
		if err != nil {
			p.unplayed(ctx, x, err)
			continue
		}
		flights = append(flights, flight{x, l, l.send(x.op, record, false)})
	}
	answered := flights[:0]
	for _, f := range flights {
		if err := f.l.wait(ctx, f.call); err != nil {
			p.unplayed(ctx, f.exchange, err)
			continue
		}
		answered = append(answered, f)
	}
	for _, f := range answered {
		p.settle(ctx, f)
	}
}

// reattach gives the shadow's session a new connection. The watches of the old one are gone, as they are at the
// primary.
func (p *Proxy) reattach(ctx context.Context, s *session) {
	l, err := p.linkOf(ctx, s)
	if err != nil {
		return
	}
	l.drop()
	p.mu.Lock()
	defer p.mu.Unlock()
	if s.ended {
		return
	}
	s.watched, s.link = watched{}, nil
	s.ready = make(chan struct{})
	go p.connect(s,
		jute.ConnectRequest{
			Timeout: int32(l.timeout.Milliseconds()), SessionID: s.shadowID, Passwd: s.passwd, HasReadOnly: true,
		}, s.ready)
}

var (
	errReconfig = errors.New("a reconfig applies to one ensemble only, and isn't replayed")
	errOldZxid  = errors.New("it sets watches relative to a zxid that is no longer remembered")
)

// record returns a request's record in the form that the shadow must get.
func (p *Proxy) record(x *exchange) ([]byte, error) {
	switch x.op {
	case jute.OpReconfig:
		return nil, errReconfig
	case jute.OpSetWatches, jute.OpSetWatches2:
	default:
		return x.request, nil
	}
	var r jute.SetWatches
	d := jute.NewDecoder(x.request)
	if r.Decode(d, x.op); d.Err() != nil {
		return x.request, nil // the shadow decides
	}
	p.mu.Lock()
	zxid, ok := p.zxids.at(r.RelativeZxid)
	p.mu.Unlock()
	if !ok {
		return nil, errOldZxid
	}
	r.RelativeZxid = zxid
	return r.Append(nil, x.op), nil
}

// unplayed skips an exchange. It also ends the shadowing of the session, unless the error concerns only this request.
func (p *Proxy) unplayed(ctx context.Context, x *exchange, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.skipped(x.op, x.request)
	x.c.release(x)
	if !errors.Is(err, errReconfig) {
		p.failed(ctx, x.s, err)
		return
	}
	if p.counts.Reconfigs++; p.counts.Reconfigs == 1 {
		p.say(err.Error())
	}
}

// skipped notes a request that isn't played. The caller holds p.mu.
func (p *Proxy) skipped(op jute.Op, request []byte) {
	if !op.IsWrite() {
		return
	}
	p.counts.Unplayed++
	p.doubts.write(op, request, "a write that wasn't replayed")
}

// settle compares the replies to an exchange.
func (p *Proxy) settle(ctx context.Context, f flight) {
	j := judge{ignored: p.o.Ignored, owner: p.shadowOf}
	events := f.call.events
	fields := j.compare(f.exchange, f.call.header.Err, f.call.body)
	if fields != nil && p.expireSuspects(ctx, f, f.paths()) && (!f.op.IsWrite() || refused(f.op, f.call)) {
		if again := f.l.send(f.op, f.request, false); f.l.wait(ctx, again) == nil {
			f.call = again
			events = append(events, again.events...)
			fields = j.compare(f.exchange, again.header.Err, again.body)
		}
	}
	p.mu.Lock()
	p.counts.op(f.op.String()).Played++
	p.noted(f.exchange)
	p.zxids.add(f.zxid, f.call.header.Zxid)
	f.c.release(f.exchange)
	var doubt string
	if fields != nil {
		if doubt = p.doubt(f.exchange, f.paths(), f.wide()); doubt == "" && p.aclLags(f) {
			doubt = aclLag
		}
		if doubt != "" { // the doubt explains a difference
			p.doubts.write(f.op, f.request, doubt)
		}
	}
	p.mu.Unlock()
	if fields != nil {
		path := ""
		if all := f.paths(); len(all) > 0 {
			path = all[0]
		}
		p.told(&Difference{
			Op: f.op.String(), Path: path, Xid: f.xid, Session: f.s.id, Zxid: f.zxid, Fields: fields, Doubt: doubt,
		})
	}
	p.watch(ctx, f, events)
	if f.op == jute.OpCloseSession && f.code == jute.OK {
		p.mu.Lock()
		p.forget(f.s)
		p.mu.Unlock()
	}
}

// paths returns the paths that an exchange is about.
func (x *exchange) paths() []string {
	paths := pathsOf(x.op, x.request)
	for _, path := range createdBy(x) {
		if !slices.Contains(paths, path) {
			paths = append(paths, path)
		}
	}
	return paths
}

// wide reports whether the reply covers everything below the path.
func (x *exchange) wide() bool {
	return x.op == jute.OpGetEphemerals || x.op == jute.OpGetAllChildrenNumber
}

// refused reports whether the shadow rejected a request, and so has changed nothing.
func refused(op jute.Op, c *call) bool {
	if op != jute.OpMulti || c.header.Err != jute.OK {
		return c.header.Err != jute.OK
	}
	results, err := jute.DecodeMultiResponse(jute.NewDecoder(c.body))
	return err == nil && len(results) > 0 && results[0].Op == jute.OpError
}

// shadowOf returns the shadow's session that corresponds to a session of the primary.
func (p *Proxy) shadowOf(primary int64) (int64, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.sessions[primary]
	if s == nil {
		return 0, false
	}
	return s.shadowID, s.shadowID != 0
}

// doubt returns why a reply may differ, "" if there is no known reason. The caller holds p.mu.
func (p *Proxy) doubt(x *exchange, paths []string, wide bool) string {
	if x.late {
		return "the primary's zxids went back, so the order isn't known"
	}
	for _, path := range paths {
		if why := p.doubts.why(path, wide); why != "" {
			return why
		}
	}
	return ""
}

// aclLag is why a write may be refused on one side only: Apache may check it against the ACL from before a setACL that
// was still being logged when the write arrived.
const aclLag = "a write that arrived while a setACL was being logged"

// aclLags reports whether aclLag may explain the reply to a write. The caller holds p.mu.
func (p *Proxy) aclLags(f flight) bool {
	if !f.op.IsWrite() || !noAuth(f.op, f.code, f.reply) && !noAuth(f.op, f.call.header.Err, f.call.body) {
		return false
	}
	for _, path := range f.paths() {
		if p.acls[path] > f.stamp || p.acls[parentOf(path)] > f.stamp {
			return true
		}
	}
	return false
}

// noAuth reports whether a request, or a part of it, was refused with NoAuth.
func noAuth(op jute.Op, code jute.Code, reply []byte) bool {
	if op != jute.OpMulti || code != jute.OK {
		return code == jute.ErrNoAuth
	}
	results, _ := jute.DecodeMultiResponse(jute.NewDecoder(reply))
	return slices.ContainsFunc(results, func(r jute.MultiResult) bool { return r.Err == jute.ErrNoAuth })
}

// aclsMax bounds the remembered paths of setACLs. Only recent ones matter.
const aclsMax = 10_000

// ephemeralsMax bounds the tracked ephemeral znodes of all sessions.
const ephemeralsMax = 100_000

// noted tracks the znodes that may disappear without a request. The caller holds p.mu.
func (p *Proxy) noted(x *exchange) {
	if !x.write() {
		return
	}
	changes, created := changesOf(x.op, x.request), createdBy(x)
	if x.op == jute.OpSetACL && len(changes) > 0 {
		if len(p.acls) >= aclsMax {
			clear(p.acls)
		}
		p.acls[changes[0].Path] = x.came
	}
	if x.op == jute.OpMulti && len(created) == 0 &&
		slices.ContainsFunc(changes, func(o jute.MultiOp) bool { return o.Op.IsCreate() }) {
		return // the operation failed
	}
	for _, o := range changes {
		if owner := p.ephemerals[o.Path]; o.Op == jute.OpDelete && owner != nil {
			delete(p.ephemerals, o.Path)
			delete(owner.ephemerals, o.Path)
		}
		if !o.Op.IsCreate() || len(created) == 0 {
			continue
		}
		path := created[0]
		created = created[1:]
		switch {
		case o.Flags.Ephemeral() && len(p.ephemerals) >= ephemeralsMax:
			p.end(x.s, "there are too many ephemeral znodes")
			return
		case o.Flags.Ephemeral():
			p.ephemerals[path] = x.s
			x.s.ephemerals[path] = true
		case o.Flags.TTL(), o.Flags == jute.ModeContainer, o.Op == jute.OpCreateContainer:
			p.doubts.one(path, doubtChildren, "a znode that each side removes by its own clock")
			p.doubts.one(parentOf(path), doubtChildren, "a child that each side removes by its own clock")
		}
	}
}

// createdBy returns the paths of the znodes that an exchange has made at the primary.
func createdBy(x *exchange) (paths []string) {
	d := jute.NewDecoder(x.reply)
	switch {
	case x.code != jute.OK:
	case x.op.IsCreate():
		paths = append(paths, d.String())
	case x.op == jute.OpMulti:
		results, _ := jute.DecodeMultiResponse(d)
		for _, r := range results {
			if r.Op.IsCreate() {
				paths = append(paths, r.Path)
			}
		}
	}
	return paths
}

// expireSuspects closes at the shadow the sessions that the primary may have expired unseen and that own ephemeral
// znodes at the paths. It reports whether there were any.
func (p *Proxy) expireSuspects(ctx context.Context, f flight, paths []string) bool {
	p.mu.Lock()
	suspects := map[*session]bool{}
	for _, s := range p.sessions {
		if s == f.s || !s.mayHaveExpired(f.zxid) {
			continue
		}
		for at := range s.ephemerals {
			for _, path := range paths {
				if path == at || path == parentOf(at) || at == parentOf(path) || f.wide() && isBelow(at, path) {
					suspects[s] = true
				}
			}
		}
	}
	p.mu.Unlock()
	for s := range suspects {
		p.expire(ctx, s)
	}
	return len(suspects) > 0
}

// watch compares the notifications that came before both replies to an exchange.
func (p *Proxy) watch(ctx context.Context, f flight, events []jute.WatcherEvent) {
	s := f.s
	if len(s.watched) == 0 && len(f.events) == 0 && len(events) == 0 {
		return
	}
	p.mu.Lock()
	p.counts.op("watch").Played += len(f.events)
	p.mu.Unlock()
	for _, d := range s.watched.add(f.events, events) {
		p.tellWatch(f, d)
	}
	paths := s.watched.aged(f.op == jute.OpCloseSession)
	if len(paths) > 0 && f.op != jute.OpCloseSession && p.expireSuspects(ctx, f, paths) {
		if ping := f.l.send(jute.OpPing, nil, false); f.l.wait(ctx, ping) == nil {
			for _, d := range s.watched.add(nil, ping.events) {
				p.tellWatch(f, d)
			}
		}
	}
	for _, path := range paths {
		if u := s.watched[path]; u != nil {
			delete(s.watched, path)
			p.tellWatch(f, u.difference(path))
		}
	}
	if s.watched.count() > eventsMax {
		p.mu.Lock()
		p.end(s, "too many unmatched notifications")
		p.mu.Unlock()
	}
}

// tellWatch reports a difference of notifications.
func (p *Proxy) tellWatch(f flight, d *Difference) {
	d.Xid, d.Session, d.Zxid = f.xid, f.s.id, f.zxid
	p.mu.Lock()
	d.Doubt = p.doubt(f.exchange, []string{d.Path}, false)
	p.mu.Unlock()
	p.told(d)
}
