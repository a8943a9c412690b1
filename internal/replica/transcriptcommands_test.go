package replica

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/proposals"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// The commands of transcripts, but for the requests of clients.

var clientCommands = map[string]func(*theatre, line){
	"connect": (*theatre).connect,
	"drop":    func(s *theatre, l line) { s.cast[l.word(0)].over = true; s.r.Disconnected(s.cast[l.word(0)].Client) },
	"quiet":   func(s *theatre, l line) { s.cast[l.word(0)].Quiet() },
	"pause":   func(s *theatre, l line) { s.cast[l.word(0)].paused = true },
	"crowd": func(s *theatre, l line) {
		for i := range s.int(l.word(0)) {
			s.connect(line{[]string{fmt.Sprint(l.word(1), i)}, l.named})
		}
	},
	"crowdask": func(s *theatre, l line) {
		for i := range s.int(l.word(0)) {
			s.requests(s.cast[fmt.Sprint(l.word(1), i)], l.words[2:])
		}
	},
	"fails": func(s *theatre, l line) {
		for range s.int(l.word(0)) {
			_, err := s.r.Authenticate(s.cast[l.word(1)].address, "doubt", []byte("!"))
			if s.told["fails"] != err.Error() {
				s.printf("%v\n", err)
			}
			s.told["fails"] = err.Error()
		}
	},
	"stick":   func(s *theatre, l line) { s.cast[l.word(0)].stuck = true },
	"unstick": (*theatre).unstick,
	"got":     func(s *theatre, l line) { s.cast[l.word(0)].got += uint64(s.int(l.word(1))) },
	"frame":   (*theatre).frame,
	"until":   func(s *theatre, l line) { s.r.ExpireIdentities(s.int(l.word(0)) * 1e6) },
	"unpause": func(s *theatre, l line) { s.cast[l.word(0)].paused = false },
}

// connect lets a new client ask for a session.
func (s *theatre) connect(l line) {
	a := &actor{s: s, name: l.word(0), asked: map[int32]jute.Op{}}
	from := l.named["from"]
	if from == "" {
		from = "127.0.0.1"
	}
	a.Client = NewClient(s.ids(), a.name, jute.ID{Scheme: "ip", ID: from}, a)
	if l.named["id"] != "" {
		ids := a.identities()
		for text := range strings.SplitSeq(l.named["id"], ",") {
			scheme, id, _ := strings.Cut(text, ":")
			ids = append(slices.Clip(ids), jute.ID{Scheme: scheme, ID: id})
		}
		a.Identify(ids)
	}
	if l.has("itself") {
		a.Identify(append(a.identities(), asSuper()...))
		a.MayRestore()
	}
	req := jute.ConnectRequest{
		Timeout: int32(s.number(l, "timeout", 10_000)), LastZxidSeen: s.number(l, "seen", 0),
		Passwd: make([]byte, jute.PasswdSize), ReadOnly: l.has("readonly"), HasReadOnly: true,
	}
	if was := l.named["session"]; was != "" {
		req.SessionID, req.Passwd = cmp.Or(s.sessions[was], 4242), s.r.secret()
		if b := s.cast[was]; b != nil {
			req.SessionID, req.Passwd = b.session, b.hello.Passwd
			if b.reader.inTable != entered {
				req.Passwd = s.r.secret()
			}
		}
	}
	if l.named["passwd"] != "" {
		req.Passwd = make([]byte, jute.PasswdSize)
		copy(req.Passwd, l.named["passwd"])
	}
	if s.cast[a.name] == nil {
		s.names = append(s.names, a.name)
	}
	s.cast[a.name] = a
	if err := s.r.Connect(a.Client, &req, s.ids); err != nil {
		a.over = true
		s.printf("%s: refused: %v\n", a.name, err)
		s.r.Disconnected(a.Client)
		return
	}
	s.flushOwn(a)
}

// flushOwn does what the reader of a connection does once it has handed in its input.
func (s *theatre) flushOwn(a *actor) {
	begun, ended := a.BeginFlush()
	a.woken = a.woken || begun
	if ended && !a.over {
		s.ends(a)
	}
}

// flushAll writes to each client that was woken, until nothing more happens. Room is granted on goroutines of its own.
func (s *theatre) flushAll() {
	for more := true; more; {
		more = false
		eventually(s.t, "those that don't wait for room aren't parked", func() bool {
			return s.parked() == s.r.rooms.replies.Waiting()
		})
		for _, name := range s.names {
			if a := s.cast[name]; a.woken && !a.paused && !a.over {
				a.woken, more = false, true
				s.flush(a)
			}
		}
	}
}

// parked returns how many clients have a read that waits for room.
func (s *theatre) parked() (n int) {
	for _, c := range s.r.Clients() {
		c.mu.Lock()
		if c.steps.parked && !c.closed {
			n++
		}
		c.mu.Unlock()
	}
	return n
}

// flush does what a flusher does.
func (s *theatre) flush(a *actor) {
	written := a.written
	left := a.TryOutput()
	if at := a.Told(); at != 0 {
		s.printf("%s: told of what happened %d ms ago\n", a.name, s.now-at/1e6)
	}
	out, last := left.Out, left.Last
	if left.Long {
		out, last = a.TakeOutput(nil)
	}
	if s.writes(a, out, last); !a.over && a.left == nil && a.written == written && !a.steps.parked {
		s.printf("%s: woken for nothing\n", a.name)
	}
}

// writes writes what was taken, and what comes after it.
func (s *theatre) writes(a *actor, out []byte, last bool) {
	for out != nil {
		if a.left = nil; a.stuck {
			a.left = out
			return
		}
		a.Try(out)
		out, last = a.TakeOutput(out)
	}
	if last && !a.over {
		s.ends(a)
	}
}

// unstick lets writes to a client go on.
func (s *theatre) unstick(l line) {
	a := s.cast[l.word(0)]
	a.stuck = false
	if a.left != nil && !a.over {
		s.writes(a, a.left, false)
	}
}

// ends ends a connection for the reason that the replica gives.
func (s *theatre) ends(a *actor) {
	a.over = true
	s.printf("%s: closed: %s\n", a.name, a.Ending())
	s.r.Disconnected(a.Client)
}

var quorumCommands = map[string]func(*theatre, line){
	"commit":  func(s *theatre, _ line) { s.forwards(); s.applies() },
	"forward": func(s *theatre, _ line) { s.forwards() },
	"apply":   func(s *theatre, _ line) { s.applies() },
	"lose":    func(s *theatre, _ line) { s.sent = nil },
	"resend":  func(s *theatre, _ line) { s.r.Resend() },
	"others":  (*theatre).others,
	"lead":    (*theatre).leads,
	"synced": func(s *theatre, _ line) {
		if ticket := s.r.Syncs(); ticket != 0 && !s.kickedSync {
			s.printf("the quorum wasn't told of it\n")
		}
		s.kickedSync = false
		s.r.Synced(s.r.syncs.taken)
	},
	"time": func(s *theatre, l line) { s.now += s.int(l.word(0)) },
	"uptodate": func(s *theatre, l line) {
		s.r.freshness.at.Store(0)
		s.r.UpToDate(s.int(l.word(0)) * 1e6)
	},
	"stall": func(s *theatre, l line) {
		s.now += s.int(l.word(0))
		s.r.Expire(s.now, s.now-s.int(l.word(0)))
	},
	"run": func(s *theatre, l line) {
		tick := s.r.expiry.Tick()
		for until := s.now + s.int(l.word(0)); s.now < until; s.r.Expire(s.now, s.now-tick) {
			s.now += tick
		}
	},
	"overdue":   func(s *theatre, _ line) { s.r.EndOverdue(s.now * 1e6) },
	"reach":     func(s *theatre, l line) { s.r.CheckReach(s.int(l.word(0)), 1000) },
	"patience":  func(s *theatre, l line) { s.r.CheckQuorum(s.now, s.int(l.word(0))) },
	"level":     (*theatre).level,
	"supported": func(s *theatre, l line) { s.r.Supported(uint32(s.int(l.word(0)))) },
	"correct":   func(s *theatre, l line) { s.r.Correct(s.int(l.word(0))) },
	"save":      func(s *theatre, _ line) { s.saved = s.r.Znodes(nil) },
	"snapshot":  (*theatre).snapshot,
	"members": func(s *theatre, l line) {
		m, version := s.r.Membership(s.number(l, "known", -1))
		s.printf("version %d staged %q changing %t\n", version, s.r.StagedMembers(), s.r.Changing())
		if m != nil {
			s.printf("members %v change %+v\n", m.Members, m.Change)
		}
	},
	"stepchange": func(s *theatre, l line) {
		change, _ := s.r.tree.Membership().Change()
		s.r.StepChange(change.ID, map[string]quorum.ChangeStep{
			"named": quorum.ChangeNamed, "done": quorum.ChangeDone, "dropped": quorum.ChangeDropped,
		}[l.word(0)])
	},
	"reap": func(s *theatre, l line) {
		paths, next := s.r.Reapable(0, 1000)
		s.printf("reapable %v next %d\n", paths, next)
		for _, path := range paths {
			s.r.Reap(path, 1000)
		}
	},
	"busiest": func(s *theatre, _ line) { s.printf("%+v\n", s.r.Busiest(3)) },
	"announced": func(s *theatre, l line) {
		next := quorum.Announcement{ID: uint64(s.int(l.word(0))), Heard: true}
		s.announced = slices.DeleteFunc(s.announced, func(a quorum.Announcement) bool { return a.ID == next.ID })
		for scheme, name := range l.named { // any order: With sorts
			next.Rules = rulesOf(words(scheme + "=" + name)).Append(nil)
		}
		if l.has("-") {
			next.Heard = false
		}
		s.announced = append(s.announced, next)
		s.r.Announced(s.announced)
	},
	"fill": func(s *theatre, l line) { // with many children
		var ops []jute.MultiOp
		for i := range s.int(l.word(1)) {
			path := fmt.Sprintf("%s/%040d", l.word(0), i)
			ops = append(ops, jute.MultiOp{Op: jute.OpCreate, Path: path, ACL: jute.WorldACL(jute.PermAll)})
		}
		q := tree.Request{Op: jute.OpMulti, Identities: asSuper(), Body: jute.AppendMulti(nil, ops)}
		s.apply(tree.AppendRecord(nil, &q))
	},
	"twice": func(s *theatre, _ line) { s.sent = append(s.sent, slices.Clone(s.sent)...) },
	"steal": func(s *theatre, l line) {
		q := tree.Request{
			Op: jute.OpCreateSession, Session: s.cast[l.word(0)].hello.SessionID, Cnx: s.ids(),
			Body: attachBody(jute.OpCreateSession, 10_000, s.r.secret()),
		}
		s.apply(tree.AppendRecord(nil, &q))
	},
	"report":  func(s *theatre, _ line) { s.printf("report %x\n", s.r.Report()) },
	"reset":   func(s *theatre, _ line) { s.r.ResetStats(); s.r.ResetConnections() },
	"account": func(s *theatre, l line) { s.r.AccountMemory(0, 0, s.int(l.word(0))) },
	"space": func(s *theatre, l line) {
		state := storage.SpaceState{Waits: l.has("waits"), LogRoom: s.number(l, "room", 1<<40)}
		if l.has("refuse") {
			state.Level = storage.SpaceRefuse
		}
		s.r.Space(state, l.has("needed"))
	},
}

// forwards takes what this server has for the log: it forwards it, or proposes it if it leads.
func (s *theatre) forwards() {
	take := s.r.Batch
	if !s.r.leader.IsLeader && !s.r.alone {
		take = func() []byte {
			if b := s.r.Forward(); b != nil {
				return append(proposals.AppendHead(nil, s.now, 0, 0), b...)
			}
			return nil
		}
	}
	for entry := take(); entry != nil; entry = take() {
		var q tree.Request
		for records := tree.RecordsOf(entry[proposals.HeadSize:]); records.Next(&q); {
			s.printf("sent %s\n", s.describe(&q))
		}
		s.sent = append(s.sent, slices.Clone(entry))
		if !s.kicked {
			s.printf("the quorum wasn't told of it\n")
		}
	}
	s.kicked = false
}

// applies puts into the log what was sent.
func (s *theatre) applies() {
	sent := s.sent
	s.sent = nil
	var entries []quorum.Entry
	for _, data := range sent {
		s.index++
		entries = append(entries, quorum.Entry{Term: s.term, Index: s.index, Data: data})
	}
	if err := s.r.Apply(entries); err != nil {
		s.printf("apply: %v\n", err)
	}
}

// describe returns what a record asks for.
func (s *theatre) describe(q *tree.Request) string {
	text := tree.OpName(q.Op)
	for _, name := range s.names {
		if q.Cnx == s.cast[name].id {
			text += " of " + name
		}
	}
	if q.Seq != 0 {
		text += fmt.Sprintf(" seq=%d", q.Seq)
	}
	if path, ok := pathOnly(q.Body); ok && q.Op.HasPath() {
		text += " " + path
	}
	return text
}

// others puts into the log what another server's client asks for, without a session or with a new one.
func (s *theatre) others(l line) {
	switch l.word(0) {
	case "session":
		s.sessions[l.word(1)] = s.begin()
	case "expire":
		id := s.sessions[l.word(1)]
		if a := s.cast[l.word(1)]; a != nil {
			id = a.session
		}
		q := tree.Request{Op: tree.OpExpire, Session: id, Body: jute.AppendLong(nil, int64(s.term))}
		s.apply(tree.AppendRecord(nil, &q))
	case "members":
		s.apply(tree.AppendRecord(nil, &tree.Request{Op: tree.OpMembers, Body: []byte(words(l.word(1)))}))
	case "heard":
		s.r.Reported(binary.BigEndian.AppendUint64(nil, uint64(s.sessions[l.word(1)])))
	default:
		op, record := s.request(l.word(0), line{l.words[1:], l.named})
		s.apply(tree.AppendRecord(nil, &tree.Request{Op: op, Identities: asSuper(), Body: record(nil)}))
	}
}

// level puts a feature level in force, as a leader's entry does.
func (s *theatre) level(l line) {
	settings := tree.DefaultSettings()
	settings.ExtendedTypes, settings.ReconfigEnabled, settings.EnforceQuota = true, true, true
	settings.FeatureLevel = int32(s.int(l.word(0)))
	s.apply(tree.AppendRecord(nil, &tree.Request{Op: tree.OpSettings, Body: settings.Append(nil)}))
}

// leads begins a term of a leader, or one without a leader.
func (s *theatre) leads(l line) {
	if l.word(0) == "none" {
		s.r.Lead(quorum.Leadership{Term: s.term, Lost: quorum.Loss(l.word(1))})
		return
	}
	s.term++
	id := uint64(s.int(l.word(0)))
	s.r.Lead(quorum.Leadership{Leader: id, IsLeader: id == 1, Term: s.term, Lost: quorum.Loss(l.word(1))})
	if l.has("bare") {
		return // the term's first entry comes later
	}
	s.index++
	if err := s.r.Apply([]quorum.Entry{{Term: s.term, Index: s.index}}); err != nil {
		s.t.Fatal(err)
	}
}

var reportCommands = map[string]func(*theatre, line){
	"view": func(s *theatre, _ line) {
		v := s.r.View()
		rules := describeRules(v.Rules)
		v.Digest, v.Memory, v.Rules = 0, memory.Use{}, nil
		lines := fields(v)
		if rules != "" {
			lines["Rules"] = rules
		}
		s.changed("view", lines)
	},
	"cons": func(s *theatre, _ line) {
		lines := map[string]string{}
		for _, c := range s.r.Connections() {
			lines[c.Remote] = strings.TrimPrefix(fmt.Sprint(fields(c)), "map")
		}
		s.changed("cons", lines)
	},
	"metrics": (*theatre).metrics,
	"holds": func(s *theatre, _ line) {
		apply, reads := s.r.LongestHolds()
		s.printf("apply %v reads %v\n", apply, reads)
	},
	"dump": (*theatre).dump,
	"leftovers": func(s *theatre, _ line) {
		list := s.r.Leftovers(func(c *Client) bool { return !s.over(c) })
		slices.Sort(list)
		s.printf("%d leftovers\n", len(list))
		for _, text := range list {
			s.printf("%s\n", text)
		}
	},
}

// over reports whether a client's connection has ended.
func (s *theatre) over(c *Client) bool {
	for _, name := range s.names {
		if a := s.cast[name]; a.Client == c {
			return a.over
		}
	}
	return true
}

// fields returns the fields of a struct that aren't zero.
func fields(of any) map[string]string {
	lines := map[string]string{}
	v := reflect.ValueOf(of)
	for i := range v.NumField() {
		if f := v.Field(i); !f.IsZero() {
			lines[v.Type().Field(i).Name] = fmt.Sprintf("%+v", f.Interface())
		}
	}
	return lines
}

// changed prints the lines that have changed since the report was made last; a line that isn't there is zero.
func (s *theatre) changed(report string, lines map[string]string) {
	for at := range s.told { // any order: sorted below
		if of, key, _ := strings.Cut(at, " "); of == report && lines[key] == "" {
			lines[key] = "0"
		}
	}
	var keys []string
	for key := range lines { // any order: sorted below
		keys = append(keys, key)
	}
	slices.Sort(keys)
	for _, key := range keys {
		if at := report + " " + key; s.told[at] != lines[key] {
			s.told[at] = lines[key]
			s.printf("%s %s\n", key, lines[key])
		}
	}
}

// metrics prints the metrics that have changed.
func (s *theatre) metrics(line) {
	lines := map[string]string{}
	s.r.meters.Registry.Samples(func(m *metrics.Sample) {
		name := m.Name
		if m.Label != "" {
			name += "{" + m.Value + "}"
		}
		switch {
		case m.Count > 0:
			lines[name] = fmt.Sprintf("count %d sum %v", m.Count, m.Sum)
			if n := len(m.Quantiles); n > 0 {
				lines[name] += fmt.Sprintf(" quantiles %d", n)
			}
		case m.Number != 0:
			lines[name] = fmt.Sprint(m.Number)
		}
	})
	s.changed("metrics", lines)
}

// dump prints the lists of sessions, ephemeral znodes and watches.
func (s *theatre) dump(l line) {
	most := int(s.number(l, "limit", 1<<20))
	wall := time.UnixMilli(s.now)
	show := func(what string, list any, more bool) { s.printf("%s %v more %t\n", what, list, more) }
	sessions := func(list []SessionExpiry) (lines []string) {
		for _, e := range list {
			lines = append(lines, fmt.Sprintf("%#x %d in %v", e.Session, e.Timeout, e.Expires.Sub(wall)))
		}
		return lines
	}
	global, more := s.r.SessionExpiries(wall, most)
	show("global", sessions(global), more)
	local, more := s.r.LocalSessionExpiries(wall, most)
	show("local", sessions(local), more)
	ephemerals, more := s.r.Ephemerals(most)
	show("ephemerals", ephemerals, more)
	bySession, more := s.r.WatchesBySession(most)
	show("watches by session", bySession, more)
	byPath, more := s.r.WatchesByPath(most)
	show("watches by path", byPath, more)
	s.printf("watches %+v\n", s.r.WatchSummary())
}

// snapshot takes a snapshot if one is due after some bytes of log, or if it is asked for.
func (s *theatre) snapshot(l line) {
	if l.has("now") {
		s.r.RequestSnapshot()
	}
	due := s.r.SnapshotDue(s.number(l, "log", 0))
	s.printf("due %t\n", due)
	if !due {
		return
	}
	img := s.r.Snapshot()
	meta, size := img.Describe(), 0
	for chunk, more := img.Next(nil); ; chunk, more = img.Next(nil) {
		if size += len(chunk); !more {
			break
		}
	}
	img.Close()
	s.printf("index %d term %d zxid %#x level %d, empty %t\n", meta.Index, meta.Term, meta.Zxid, meta.FeatureLevel,
		size == 0)
	s.now += s.number(l, "takes", 0)
	s.r.SnapshotDone(meta, s.number(l, "size", 0))
}

// frame lets the end of a client's input be a part of a frame: has bytes of size. It may have to wait for room.
func (s *theatre) frame(l line) {
	a, size, has := s.cast[l.word(0)], s.number(l, "size", 0), s.number(l, "has", 4)
	if l.has("room") {
		if s.r.rooms.frames.Waiting() > 0 {
			s.printf("%s: there is no room\n", a.name)
			return
		}
		eventually(s.t, "there is room for a frame", func() bool {
			select {
			case <-a.FrameRoom():
				return true
			default:
				return false
			}
		})
	}
	if size > 0 && !a.TakeFrame(int(size)) {
		s.printf("%s: its frame waits\n", a.name)
		a.AwaitsRoom()
		return
	}
	a.NoteInput(int(size))
	s.printf("%s: frames are short %t, may buffer %t\n", a.name, a.FramesShort(), a.MayBuffer(InputFreeBytes+1))
	rest := binary.BigEndian.AppendUint32(nil, uint32(size))
	a.NoteFrame(append(rest, make([]byte, size)...)[:has], l.has("fresh"), s.now*1e6)
}
