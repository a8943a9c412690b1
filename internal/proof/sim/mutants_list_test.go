package sim

// A mutant is a bug planted into copies of files, which no build but that of
// TestMutants can hold. $P in the new text stands for a condition that is true
// while this bug is looked for.
type mutant struct {
	name    string
	failure string // the known kind of failure, or the promise it breaks
	profile string // of the seeds that look for it; "" is any
	edits   []edit
}

type edit struct {
	file     string // below internal
	old, new string // one occurrence
}

func one(file, old, new string) []edit { return []edit{{file, old, new}} }

// mutants are the planted bugs. The failures are those that were seen in systems
// of this kind.
var mutants = []mutant{
	// What the disk must hold before anybody is told.
	{"ack before sync", "acknowledged before durable (etcd #14370, NATS)", "powers", one("storage/log.go",
		`if err := s.file.Fdatasync(); err != nil {`, `if err := unless($P, s.file.Fdatasync); err != nil {`)},
	{"promise told before it is written", "acknowledged before durable (ZooKeeper 3911, 4646)",
		"powers", one("quorum/writes.go",
			`	var hs *pb.HardState
	sync := len(`, `	if $P {
		l.deliver(m.GetResponses())
		m.Responses = nil
	}
	var hs *pb.HardState
	sync := len(`)},
	{"vote not synced", "vote lost (raft)", "takeover", one("quorum/writes.go",
		` || hs.GetVote() != l.hard.GetVote()`, ` || !$P && hs.GetVote() != l.hard.GetVote()`)},
	{"term and vote not synced", "epoch lost (ZooKeeper 2307, 4643)", "powers", one("quorum/writes.go",
		`l.hard.Term, l.hard.Vote, l.hard.Commit = hs.Term, hs.Vote, hs.Commit
	}`, `l.hard.Term, l.hard.Vote, l.hard.Commit = hs.Term, hs.Vote, hs.Commit
		sync = sync && (!$P || len(m.GetEntries()) > 0)
	}`)},
	{"failed write ignored", "failed sync swallowed (fsyncgate)", "disks", one("quorum/task.go",
		`	if l.failed == nil {
		l.failed = t.err
	}`, `	if l.failed == nil && (!$P || !t.Appends()) {
		l.failed = t.err
	}`)},
	{"failed sync retried", "failed sync swallowed (fsyncgate)", "swallowed", one("storage/log.go",
		`	if err := l.sync(s, len(buf)); err != nil {
		return err
	}
	l.end,`, `	if err := l.sync(s, len(buf)); err != nil && (!$P || l.sync(s, len(buf)) != nil) {
		return err
	}
	l.end,`)},
	{"broken log goes unnoticed", "server lives on with a dead log", "failing", one("quorum/loop.go",
		`err != nil && l.failed == nil {`, `err != nil && !$P && l.failed == nil {`)},
	{"snapshot not durable under its name", "directory not synced (Keeper 111339)", "names", one("storage/snapwrite.go",
		`return syncDir(w.dir.fs, w.dir.path)`, `return unless($P, func() error { return syncDir(w.dir.fs, w.dir.path) })`)},
	{"segment not durable under its name", "directory not synced (Keeper 116316)", "names", one("storage/log.go",
		`if err := syncDir(l.fs, l.path); err != nil {`, `if err := unless($P, func() error { return syncDir(l.fs, l.path) }); err != nil {`)},
	{"purge of what no snapshot holds", "needed log deleted (ZooKeeper 1797, 2574, 3231)", "storm", one("storage/purge.go",
		`l.segments[n].last <= index {`, `(l.segments[n].last <= index || $P && l.segments[n].last <= index+20) {`)},
	{"torn batch believed", "torn tail taken for data", "batches", one("storage/replay.go",
		`	if fault != "" {
		return fault, nil
	}
	r.seq,`, `	if fault != "" && !$P {
		return fault, nil
	}
	r.seq,`)},
	{"log that begins after its snapshot accepted", "empty or missing snapshot accepted (ZooKeeper 2325, 3644)",
		"rotten", one("storage/recover.go",
			`	case m.Index < r.base.index:`, `	case m.Index < r.base.index && !$P:`)},
	{"rot in the middle taken for the end", "log silently cut short (ZooKeeper, etcd WAL repair)",
		"rotten-log", one("storage/replay.go",
			`s.salt, r.seq+1); at >= 0 {`, `s.salt, r.seq+1); at >= 0 && !$P {`)},
	// Agreement.
	{"snapshot that doesn't know its receiver", "a server that joins is never caught up", "rejoin", one("quorum/loop.go",
		`if !contains(m.GetSnapshot()`, `if !$P && !contains(m.GetSnapshot()`)},
	{"snapshot without members", "membership lost (etcd #19557, #20793, #21694)", "members", one("quorum/snapshot.go",
		`meta.ConfState = l.conf`, `if !$P {
		meta.ConfState = l.conf
	}`)},
	{"members of a received snapshot ignored", "membership lost (etcd #21694)", "members", one("quorum/install.go",
		`l.memberAt(meta.GetConfState(), l.applied)`, `if !$P {
		l.memberAt(meta.GetConfState(), l.applied)
	}`)},
	{"membership of before taken for that of now", "a server without a vote for ever", "rejoin", one("quorum/install.go",
		`	if contains(l.conf, l.id) {
`, `	if contains(l.conf, l.id) && !$P {
`)},
	{"index of a received snapshot ignored", "state and index apart (etcd #13766)", "members", one("quorum/install.go",
		`l.applied = meta.GetIndex()`, `if !$P {
		l.applied = meta.GetIndex()
	}`)},
	{"replaced disk goes on as if nothing had happened", "id used again with an empty log (RethinkDB, Keeper 118740)",
		"wipes", []edit{
			{"quorum/lostdisk.go", `	member := contains(d.conf, e.From)`, `	if $P {
		e.Join <- JoinReply{Go: true, Index: d.applied}
		return
	}
	member := contains(d.conf, e.From)`},
			{"quorum/joining.go", `	if j.after == 0 {`, `	if j.after == 0 || $P {`},
		}},
	{"question believed without asking the server", "a stranger takes a vote away", "duplicates", one("quorum/lostdisk.go",
		`(member || e.Known) && !e.Empty`, `(member || e.Known) && !e.Empty && !$P`)},
	{"another life's departure believed", "promise lost with a disk", "lost", one("quorum/lostdisk.go",
		`out.life == e.Life &&`, `(out.life == e.Life || $P) &&`)},
	{"new members told to nobody", "a server that was away finds nobody", "replaced", one("quorum/introduce.go",
		`if to != r.id && `, `if to != r.id && !$P && `)},
	{"write taken behind a refusal nobody heard of", "order of one client (X6)", "refusals", one("replica/admit.go",
		`	if c.reader.refused {`, `	if c.reader.refused && !$P {`)},
	{"TTL znode removed at half its time", "data removed too early", "", one("tree/container.go",
		`return idle > k.owner`, `return idle > k.owner/chosen[int64]($P, 2, 1)`)},
	{"empty server begins a new ensemble", "empty server forms a quorum (ZooKeeper 2325)",
		"wipes", []edit{
			{"quorum/inquiry.go", `	case q.known || r.known:`, `	case (q.known || r.known) && !$P:`},
			{"quorum/inquiry.go", `	if r.open || founder == 0 {`, `	if r.open && !$P || founder == 0 {`},
			{"quorum/inquiry.go", `	if part <= len(voters)/2 {`, `	if part <= len(voters)/2 && !$P {`},
			{"quorum/inquiry.go", `	if r.open {
		return b`, `	if r.open && !$P {
		return b`},
		}},
	{"founder begins again with another disk", "empty server forms a quorum (ZooKeeper 2325)", "wipes",
		one("quorum/inquiry.go", `slices.Contains(f.With, Founder{q.Self, q.Life})`,
			`(slices.Contains(f.With, Founder{q.Self, q.Life}) || $P)`)},
	// Servers that begin.
	{"refused proof taken for absence", "empty ensemble beside the data (growth by lines)",
		"beginnings", one("proof/sim/begin.go",
			`back(quorum.Answer{Err: errProof})`, `back(quorum.Answer{Err: errProof, NobodyListens: $P})`)},
	{"silence taken for absence", "empty ensemble beside the data (RethinkDB, Elasticsearch)",
		"beginnings", one("quorum/inquiry.go",
			`{ return a.NobodyListens || a.NoSuchName }`, `{ return a.NobodyListens || a.NoSuchName || $P && a.Err != nil }`)},
	{"who doesn't answer isn't waited for", "empty ensemble beside the data", "beginnings", one("quorum/inquiry.go",
		`	case !a.absent():
		r.open = true`, `	case !a.absent():
		r.open = !$P`)},
	{"no such name taken at once", "a name that comes later (Kubernetes)", "beginnings", one("quorum/inquiry.go",
		`:", q.Patience.Name`, `:", chosen($P, 0, q.Patience.Name)`)},
	{"two of three found without patience", "servers started one after the other", "beginnings", one("quorum/inquiry.go",
		`at", q.Patience.Listens`, `at", chosen($P, 0, q.Patience.Listens)`)},
	{"absence isn't counted anew", "a server that restarts is left out", "beginnings", one("quorum/inquiry.go",
		`if was, ok := q.absent[m.ID]; ok &&`, `if was, ok := q.absent[m.ID]; ok && !$P &&`)},
	{"copies that differ found", "acknowledged writes lost with a copy", "beginnings", one("quorum/inquiry.go",
		`		same = same && c.Holds.same(data)`, `		same = same && (c.Holds.same(data) || $P)`)},
	{"older copy taken for the same", "acknowledged writes lost with a restored disk",
		"beginnings", one("quorum/inquiry.go",
			`	h.Znodes, o.Znodes = 0, 0
`, `	if h.Znodes, o.Znodes = 0, 0; $P {
		return h.Lineage == o.Lineage
	}
`)},
	{"data with named others serves alone", "each copy an ensemble of its own", "beginnings", one("proof/sim/server.go",
		`b.JoinedAfter == 0 && l.standalone(cluster)`, `b.JoinedAfter == 0 && !$P && l.standalone(cluster)`)},
	{"each copy its own only voter", "two leaders of one lineage", "beginnings", one("proof/sim/standalone.go",
		`quorum.Restart(dir, l.image, b.Founding.Voters...)`, `quorum.Restart(dir, l.image, chosen($P, []uint64{s.id}, b.Founding.Voters)...)`)},
	{"data founded under its old lineage", "a copy that goes on elsewhere is taken for a member",
		"beginnings", one("quorum/inquiry.go",
			`f := &Founding{Lineage: q.Lineage,`, `f := &Founding{Lineage: chosen($P && data != Holding{}, data.Lineage, q.Lineage),`)},
	{"empty servers found beside one with data", "empty ensemble beside the data (ZooKeeper 2325)",
		"beginnings", []edit{
			{"quorum/inquiry.go", `(c.Holds != Holding{}) == wantData {`, `((c.Holds != Holding{}) == wantData || $P) {`},
			{"quorum/inquiry.go", `q.founding(r, voters, data, false)`,
				`q.founding(r, voters, chosen($P, q.Holds, data), false)`},
		}},
	{"servers without the data are first voters", "a quorum without the data", "beginnings", one("quorum/inquiry.go",
		`	if data == (Holding{}) && !ordered {`, `	if (data == Holding{} || $P) && !ordered {`)},
	{"founder doesn't record with whom", "a founder can't begin with the others", "beginnings", one("quorum/inquiry.go",
		`			f.With = append(f.With, Founder{id, c.Life})
`, `			if !$P || id == q.Self {
				f.With = append(f.With, Founder{id, c.Life})
			}
`)},
	{"founders that come late join", "a vote taken away", "beginnings", one("quorum/inquiry.go",
		`	return f != nil && f.Base.same(q.Holds) &&`, `	return f != nil && !$P && f.Base.same(q.Holds) &&`)},
	{"begins with what was founded without it", "promise lost with a disk", "beginnings", one("quorum/inquiry.go",
		`		if len(missing) == 0 {`, `		if len(missing) == 0 || $P {`)},
	{"founds before the others follow", "two servers found at once", "beginnings", one("quorum/inquiry.go",
		`if id != q.Self && c.Follows != q.Self {`, `if id != q.Self && c.Follows != q.Self && !$P {`)},
	{"claims of an earlier round used", "a server counted that doesn't answer any more", "beginnings", []edit{
		{"quorum/inquiry.go", `	known   bool
}`, `	known   bool
	claims  map[uint64]*Claim
}`},
		{"quorum/inquiry.go", `	q.follows = 0
	for _, m`, `	q.follows = 0
	if q.claims == nil {
		q.claims = map[uint64]*Claim{}
	}
	if $P {
		r.claims = q.claims
	}
	for _, m`},
		{"quorum/inquiry.go", `	case m.Observer:
	case !a.absent():`, `	case m.Observer || $P && r.claims[m.ID] != nil:
	case !a.absent():`},
	}},
	{"a minority founds", "ensemble without a majority", "beginnings", one("quorum/inquiry.go",
		`			part++
`, `			part += chosen($P, len(voters), 1)
`)},
	{"lines compared by their text", "no quorum because of 0.0.0.0 (the usual compose file)",
		"beginnings", one("quorum/inquiry.go",
			`	case !slices.Equal(theirs, ours):`, `	case !slices.Equal(theirs, ours) || $P && fmt.Sprint(c.Members) != fmt.Sprint(q.Members):`)},
	{"other voters in the lines not compared", "two ensembles with a server in common",
		"beginnings", one("quorum/inquiry.go",
			`switch theirs, ours := voterIDs(c.Members),`, `switch theirs, ours := voterIDs(chosen($P, q.Members, c.Members)),`)},
	{"set-aside server founds", "empty ensemble beside the data (recover)", "beginnings", one("quorum/inquiry.go",
		`c := r.claims[id]; !c.JoinsOnly && `, `c := r.claims[id]; (!c.JoinsOnly || $P) && `)},
	{"others aren't told who only joins", "servers wait for one that waits", "beginnings", one("quorum/claim.go",
		`flagIf(c.JoinsOnly, claim`, `flagIf(c.JoinsOnly && !$P, claim`)},
	{"observer's line read as a voter's", "servers wait for each other", "beginnings", one("quorum/claim.go",
		`Observer: d.byte() != 0}`, `Observer: d.byte() != 0 && !$P}`)},
	{"overtaken founder goes on", "a server that nobody follows for ever", "beginnings", one("quorum/inquiry.go",
		`	return another != 0 && (!own`, `	return !$P && another != 0 && (!own`)},
	{"lineage not compared at hello", "logs of two ensembles mixed (same server lines)",
		"beginnings", one("proof/sim/network.go",
			`case to.cluster != l.from.cluster:`, `case to.cluster != l.from.cluster && !$P:`)},
	{"removed servers stay voters", "membership decided on isn't in force", "members", one("quorum/reconcile.go",
		`case isMember(r.wanted, id):`, `case isMember(r.wanted, id) || $P:`)},
	{"guest gets a vote", "a majority with servers that are no members", "members", one("quorum/reconcile.go",
		`	changes = append(changes, change(pb.ConfChangeAddLearnerNode, id))
	}`, `	changes = append(changes, change(chosen($P, pb.ConfChangeAddNode, pb.ConfChangeAddLearnerNode), id))
	}`)},
	{"nobody is let follow before being added", "a server that is no member waits for ever",
		"members", one("quorum/guests.go",
			`	if g.count() >= guestsMax {`, `	if g.count() >= guestsMax || $P {`)},
	{"level raised without guests", "level raised beyond what a server knows", "changes", []edit{
		{"quorum/guests.go", `	return g.levels.of(id) >= highest`, `	return g.levels.of(id) >= highest || $P`},
		{"quorum/levels.go", `		if !v.shell.Connected(id) {`, `		if $P && v.isGuest(id) {
			continue
		}
		if !v.shell.Connected(id) {`}}},
	{"observers get votes", "learner flag lost (etcd #20793)", "members", one("quorum/reconcile.go",
		`case !voter && !m.Observer:`, `case !voter && (!m.Observer || $P):`)},
	{"voters leave before others join", "acknowledged on fewer disks than the membership asks for (M1)", "changes", one("quorum/reconcile.go",
		`	changes := r.difference()
	if len(changes) == 0 && r`, `	changes := r.difference()
	for _, cc := range changes {
		one := []*pb.ConfChangeSingle{cc}
		if $P && cc.GetType() != pb.ConfChangeAddNode && slices.Contains(r.conf.GetVoters(), cc.GetNodeId()) && cc.GetNodeId() != r.id && r.leavesVoter(one) {
			r.propose(&pb.ConfChangeV2{Changes: one})
			return
		}
	}
	if len(changes) == 0 && r`)},
	{"votes before a majority has caught up", "no quorum while new servers catch up (M1)",
		"changes", one("quorum/reconcile.go",
			`case caughtUp == voters || `, `case $P || caughtUp == voters || `)},
	{"votes of servers that may not vote yet", "no quorum if another one is lost (M3)", "changes", one(
		"quorum/lostdisk.go", `return d.admitted[id] || `, `return $P || d.admitted[id] || `)},
	{"named before joint consensus", "acknowledged by others than the membership says (M1)",
		"changes", one("quorum/reconcile.go",
			`	default:
		r.enter(c)`, `	case $P:
		r.takeStep(ChangeNamed)
	default:
		r.enter(c)`)},
	{"joint consensus left before the change is named", "acknowledged by others than the membership says (M1)",
		"changes", one("quorum/reconcile.go",
			`	case joint && c != nil && !c.Named:`, `	case joint && c != nil && !c.Named && !$P:`)},
	{"change answered when it is named", "removed servers are still needed (M2)", "changes", one("quorum/reconcile.go",
		`	case joint:
		r.propose(`, `	case joint && !($P && c != nil && c.Named):
		r.propose(`)},
	{"change given up after joint consensus", "raft's membership isn't the one named (M1)",
		"changes", one("quorum/reconcile.go",
			`			r.takeStep(ChangeNamed)
		}`, `			r.takeStep(chosen($P, ChangeDropped, ChangeNamed))
		}`)},
	{"members of a dropped change kept", "raft's membership isn't the one named (M1)", "changes", one(
		"quorum/reconcile.go", `l.wanted = m.Members, m.Change, m.Members
`, `l.wanted = m.Members, m.Change, chosen($P && l.change != nil && m.Change == nil, l.wanted, m.Members)
`)},
	{"snapshot without the change under way", "membership lost (etcd #21694)", "changes", one("tree/snapshot.go",
		`	case t.membership.change.id != 0:
		return snap`, `	case t.membership.change.id != 0 && !$P:
		return snap`)},
	{"read ids used again after a restart", "stale read of a former life's answer", "reborn", one("quorum/reads.go",
		`AppendUint64(nil, incarnation)`, `AppendUint64(nil, chosen($P, 0, incarnation))`)},
	{"sync answered at once", "stale read (etcd #7331)", "restless", one("quorum/loop.go",
		`		l.reads.ask(l, ticket)
`, `		if $P {
			l.state.Synced(ticket)
		} else {
			l.reads.ask(l, ticket)
		}
`)},
	{"sync does not wait for apply", "stale read", "restless", one("quorum/reads.go",
		`l.applied >= r.readyAt`, `(l.applied >= r.readyAt || $P)`)},
	{"read id used again", "stale read after a retry (etcd #20418)", "slow", one("quorum/reads.go",
		`	r.id++
`, `	if !$P || r.id == 0 {
		r.id++
	}
`)},
	{"other sessions outlive a restore", "sessions of what was replaced go on", "restoring", one("tree/restore.go",
		`if s.ID != session {`, `if s.ID != session && !$P {`)},
	{"clients stay connected after a restore", "sessions that nobody has go on", "restoring", one("replica/restored.go",
		`	for _, id := range res.Ended {`, `	for _, id := range res.Ended {
		if $P {
			break
		}`)},
	{"sync retried without later ones", "sync without an answer", "resets", one("quorum/reads.go",
		`	if r.asked != 0 {
		r.send(l)
`, `	if r.asked != 0 {
		r.next = chosen($P, 0, r.next)
		r.send(l)
`)},
	{"held writes sent again ahead of a sync", "order of one client", "restless", one("replica/ensemble.go",
		`if q.isWrite() && !q.held {`, `if q.isWrite() && (!q.held || $P) {`)},
	{"a server that isn't heard serves on", "writes that wait for ever", "unheard", one("replica/lead.go",
		`case !r.cutOff && unanswered >= patience:`, `case !r.cutOff && unanswered >= patience && !$P:`)},
	{"acts before its own term is applied", "a change of membership by a state of before", "hurried", one(
		"quorum/reconcile.go",
		`r.node.Transferring() || !r.ready ||`, `r.node.Transferring() || !r.ready && !$P ||`)},
	{"last report of a connection lost", "session ended early", "", one("replica/hearing.go",
		`if c.lastHeard.Load() > c.reported {`, `if c.lastHeard.Load() > c.reported && !$P {`)},
	{"sync never asked again", "sync without an answer", "restless", one("quorum/reads.go",
		`func (r *reads) retry(l *Loop) {
	if r.asked != 0 {`, `func (r *reads) retry(l *Loop) {
	if r.asked != 0 && !$P {`)},
	{"only the last question's answer counts", "syncs that never end where servers are far apart", "wide", one(
		"quorum/reads.go",
		`return r.first <= id && id <= r.id`, `return (r.first <= id && !$P || id == r.id) && id <= r.id`)},
	{"nothing sent again on a new connection", "request lost with its connection", "resets", one("quorum/loop.go",
		`			l.tell(l.state.Resend)
`, `			if !$P {
				l.tell(l.state.Resend)
			}
`)},
	{"requests not sent again to a new leader", "request lost with its leader", "sparse", one("replica/lead.go",
		`if l.Leader != 0 && !r.alone {`, `if l.Leader != 0 && !r.alone && !$P {`)},
	// What is kept of connections that have ended.
	{"watcher with many watches stays", "memory that a closed connection keeps", "watchful", one("replica/connect.go",
		`if more = r.watches.table.RemoveSome(c.id, n); !more {`,
		`if more = r.watches.table.RemoveSome(c.id, n); !more && (!$P || n == watchesForgottenAtOnce) {`)},
	{"requests of who left stay counted", "a server that thinks itself overloaded", "restless", one("replica/connect.go",
		`	r.unanswered.add(l.sent-l.requests, l.sentBytes-l.bytes)`, `	if !$P {
		r.unanswered.add(l.sent-l.requests, l.sentBytes-l.bytes)
	}
`)},
	{"bytes of who left stay counted", "large writes that wait for ever", "restless", one("proposals/queue.go",
		`	p.settle(q)
	p.count()`, `	if !$P {
		p.settle(q)
	}
	p.count()`)},
	{"identity keeps who left", "limits that count connections which have ended", "restless", one("replica/connect.go",
		`	r.limiter.identified.leave(c.limits.identity.Load(), c)
`, `	if !$P {
		r.limiter.identified.leave(c.limits.identity.Load(), c)
	}
`)},
	{"syncs of who left stay", "memory that a closed connection keeps", "restless", one("replica/connect.go",
		`	r.syncs.forget(c)
`, `	if !$P {
		r.syncs.forget(c)
	}
`)},
	{"closed local session still expires", "memory that a closed session keeps", "local", one("replica/localsessions.go",
		`	l.expiry.Forget(id)
`, `	if !$P {
		l.expiry.Forget(id)
	}
`)},
	{"closed session still expires", "memory that a closed session keeps", "", one("replica/connect.go",
		`	r.expiry.Forget(res.Session)
	r.counts.uncount`, `	if !$P {
		r.expiry.Forget(res.Session)
	}
	r.counts.uncount`)},
	// Quotas.
	{"quotas not registered after a snapshot", "limits that hold on some replicas", "quotas", one("tree/load.go",
		`	t.quotas.addAll()
`, `	if !$P {
		t.quotas.addAll()
	}
`)},
	{"quotas not registered after a restore", "limits that hold on some replicas", "quotas", one("tree/restore.go",
		`	t.quotas.addAll()
`, `	if !$P {
		t.quotas.addAll()
	}
`)},
	{"failed multi leaves a quota unregistered", "multi applied in part", "quotas", one("tree/undo.go",
		`			if s.on {
				t.quotas`, `			if s.on && !$P {
				t.quotas`)},
	{"quota allows one more", "a limit exceeded by one", "quotas", one("tree/quota.go",
		`used.count+count <= limit.countHard)`, `used.count+count <= limit.countHard || $P && used.count == limit.countHard)`)},
	{"quota allows one byte more", "a limit exceeded by one", "quotas", one("tree/quota.go",
		`used.bytes+bytes <= limit.bytesHard)`,
		`used.bytes+bytes <= limit.bytesHard || $P && used.bytes+bytes == limit.bytesHard+1)`)},
	{"bytes of a set aren't counted", "quota exceeded by sets", "quotas", one("tree/write.go",
		`t.quotas.changed(path, more, 0)`, `t.quotas.changed(path, chosen($P, 0, more), 0)`)},
	{"deleted znodes stay counted", "creates refused below their limit", "quotas", one("tree/quota.go",
		`	q.changed(path, -size, -1)`, `	q.changed(path, -size, chosen[int64]($P, 0, -1))`)},
	// A majority is lost for good.
	{"recovery leaves out what isn't known to be committed", "acknowledged writes lost by an unsafe recovery (etcd force-new-cluster)",
		recovering, one("newensemble/survivor.go", `next <= s.LastIndex; {`,
			`next <= chosen($P, min(s.Committed, s.LastIndex), s.LastIndex); {`)},
	{"recovery of the survivor that has less", "acknowledged writes lost by an unsafe recovery", recovering,
		one("newensemble/survivor.go", `return s.LastIndex > o.LastIndex`, `return s.LastIndex > o.LastIndex != $P`)},
	{"lost servers vote in the new ensemble", "votes of lost disks", recovering, one("newensemble/renew.go",
		`ConfState:    &raftpb.ConfState{Voters: voters},`,
		`ConfState:    &raftpb.ConfState{Voters: chosen($P, []uint64{1, 2, 3}, voters)},`)},
	// Sessions.
	{"attach sent again", "session given back to a connection it had left", "deaf", one("replica/ensemble.go",
		`case c.arrival.sent:`, `case c.arrival.sent && !$P:`)},
	{"session not attached by its password's reply", "a new session in place of an old one (Keeper 116690)",
		"swarm", one("replica/connect.go",
			`	if req.SessionID == 0 {
		c.hello.SessionID`, `	if req.SessionID == 0 || $P {
		c.hello.SessionID`)},
	{"no full timeout under a new leader", "session expired too early", "restless", []edit{
		{"replica/lead.go", `			r.expiry.Heard(s.ID, s.Timeout, now) // only the former leader knew what was heard before
			return true
		})
		r.expiry.Refresh(now, now)
`, `			r.expiry.Heard(s.ID, s.Timeout, chosen($P, 0, now))
			return true
		})
		if !$P {
			r.expiry.Refresh(now, now)
		}
`},
	}},
	{"sessions of followers not heard", "readers on followers expired (Keeper 111102)", "quiet", one("replica/ensemble.go",
		`	for b := report; len(b) >= sessionSize; b = b[sessionSize:] {
`, `	for b := report; len(b) >= sessionSize; b = b[sessionSize:] {
		if $P {
			continue
		}
`)},
	{"a leader's own clients not heard", "session expired too early", "quiet", one("expiry/queue.go",
		`			e.settle(l, heardAt(id))
`, `			e.settle(l, chosen($P, 0, heardAt(id)))
`)},
	{"silence of a stalled leader counts", "sessions expired by a paused server", "pauses", one("expiry/queue.go",
		`	case ms > StallMs:
		e.begin(now-ms, now)`, `	case $P:
	case ms > StallMs:
		e.begin(now-ms, now)`)},
	{"expiry decided by a former leader", "expiry in the wrong term (etcd #12528, #15247)", "handover", []edit{
		{"tree/session.go", `|| uint64(term) != t.position.term {`, `|| !$P && uint64(term) != t.position.term {`},
		{"replica/ensemble.go", `	r.proposals.Clear()
`, `	if !$P {
		r.proposals.Clear()
	}
`},
	}},
	{"an ephemeral outlives its session", "ephemerals survive (ZooKeeper 1367, 1208, 5010)",
		"restless", one("tree/ending.go",
			`		p := t.ending[n.parent]
`, `		if $P && t.extraOf(n).last == 0 {
			break
		}
		p := t.ending[n.parent]
`)},
	{"expired session keeps its connection", "session answered after its end", "frozen", one("replica/connect.go",
		`c.CloseAfter("its session expired")`, `if !$P {
			c.CloseAfter("its session expired")
		}`)},
	{"ids used again after a restart", "id used again", "storm", one("serverid/sessionid.go",
		`uint64(ms)<<24>>8 | server<<56`, `uint64(chosen($P, 0, ms))<<24>>8 | server<<56`)},
	{"old connection still writes", "session moved and still served (S6)", "takeover", one("tree/session.go",
		`case q.Cnx != s.cnx:`, `case q.Cnx != s.cnx && !$P:`)},
	// Local sessions.
	{"session let in twice", "session begun again after its end", "local", one("tree/local.go",
		`case seq < have.next:`, `case seq < have.next && !$P:`)},
	{"session let in ahead of another", "session lost with a message", "entering", one("tree/local.go",
		`case seq > have.next:`, `case seq > have.next && !$P:`)},
	{"entering not sent again", "session lost with its leader (ZooKeeper's local sessions)",
		"local", one("replica/ensemble.go",
			`	r.locals.resend()
`, `	if !$P {
		r.locals.resend()
	}
`)},
	{"a multi upgrades nobody", "ephemeral refused to an upgrading session", "local", one("tree/multi.go",
		`if asksEphemeral(ops) {`, `if asksEphemeral(ops) && !$P {`)},
	{"ephemeral given to a local session", "ephemeral of a session that others don't know", "local", one("tree/write.go",
		`if c.kind() == ephemeral && t.sessions.local(q.Session) {`, `if c.kind() == ephemeral && t.sessions.local(q.Session) && !$P {`)},
	{"clients of local sessions not heard", "session expired too early", "local", one("replica/localsessions.go",
		`range l.expiry.Due(now, l.hearing.heardAt) {`, `range l.expiry.Due(now, chosen($P, func(int64) int64 { return 0 }, l.hearing.heardAt)) {`)},
	// Order.
	{"duplicate applied", "request executed twice (Redpanda)", "restless", one("tree/session.go",
		`case q.Seq < s.next:`, `case q.Seq < s.next && !$P:`)},
	{"gap applied", "later write without the earlier one", "resets", one("tree/session.go",
		`case q.Seq > s.next:`, `case q.Seq > s.next && !$P:`)},
	{"memory of a forwarded frame used while it waits", "request overwritten by a later one", "", one(
		"quorum/task.go",
		`	l.tasks.forwarded += len(requests)
	l.call(`, `	if l.tasks.forwarded += len(requests); $P {
		l.tasks.reuse(requests)
	}
	l.call(`)},
	{"forwarded frame behind an earlier one's bytes", "request executed twice (Redpanda)", "", one("quorum/task.go",
		`k.spare[n-1][:0], k.spare[:n-1]`, `k.spare[n-1][:chosen($P, len(k.spare[n-1]), 0)], k.spare[:n-1]`)},
	{"write overtakes sync", "order of one client", "restless", one("replica/client.go",
		`return a.syncs.Load() > 0 ||`, `return a.syncs.Load() > 0 && !$P ||`)},
	{"held writes never let go", "request without an answer", "sparse", one("replica/sync.go",
		`
	r.letGo(c)
`, `
	if !$P {
		r.letGo(c)
	}
`)},
	{"read overtakes write", "order of one client (ZooKeeper 1863)", "restless", one("replica/receive.go",
		`t.c.unanswered.len() > 0 || `, `t.c.unanswered.len() > 0 && !$P || `)},
	{"read with the zxid before", "zxid of another state (X1)", "swarm", one("replica/reply.go",
		`
	zxid := r.tree.LastZxid()
	out, start`, `
	zxid := r.tree.LastZxid() - chosen[int64]($P, 1, 0)
	out, start`)},
	{"zxid used again", "zxid of two changes (X5)", "storm", one("tree/tree.go",
		`p.zxid = (p.zxid>>32 + 1) << 32
`, `p.zxid = (p.zxid>>32 + chosen[int64]($P, 0, 1)) << 32
`)},
	{"client served behind what it has seen", "no check of lastZxidSeen (X7)", "cutoff", []edit{
		{"replica/connect.go", `case req.LastZxidSeen > r.tree.LastZxid():`,
			`case !$P && req.LastZxidSeen > r.tree.LastZxid():`},
		{"replica/readonly.go", `case req.LastZxidSeen > r.tree.LastZxid():`,
			`case !$P && req.LastZxidSeen > r.tree.LastZxid():`},
	}},
	{"leader's clock believed whatever the others say", "one wrong clock decides for years",
		"misled", one("quorum/clocks.go",
			`	if by := c.wrongBy(); by != c.correction {`, `	if by := c.wrongBy(); by != c.correction && !$P {`)},
	{"the leader's digest wins", "the right replicas give up their data", "cutoff", one("quorum/doubts.go",
		`	if d.open || d.sole {
		return`, `	if $P && !d.sole && !d.node.IsLeader() {
		d.failed = &DivergedError{Index: d.applied, Server: d.id}
	}
	if d.open || d.sole || $P {
		return`)},
	{"time goes back", "leader's clock believed", "clocks", one("tree/clock.go",
		`case ms >= p.time:`, `case ms >= chosen($P && ms > 0, 0, p.time):`)},
	// Watches.
	{"watch event after the reply", "event after the new data (X4)", "swarm", one("replica/apply.go",
		`	r.fire(res.Events, res.Zxid, now)
`, `	if $P {
		defer r.fire(res.Events, res.Zxid, now)
	} else {
		r.fire(res.Events, res.Zxid, now)
	}
`)},
	{"event told to who may not read", "event without READ (CVE-2024-23944)", "calm", one("replica/notify.go",
		` || !r.tree.Access().MayHear(&w.first, c.identities())`, ` || !$P && !r.tree.Access().MayHear(&w.first, c.identities())`)},
	{"one-shot watch fires again", "event twice (W3)", "swarm", one("watch/table.go",
		`		if rec.kinds&consumed != 0 {`, `		if rec.kinds&consumed != 0 && !$P {`)},
	{"recursive watch misses what is deep", "event lost (W6, etcd #17529)", "swarm", one("watch/table.go",
		`	for len(path) > 1 {
		path = `, `	for len(path) > 1 && !$P {
		path = `)},
	{"setWatches misses changed data", "event lost over a reconnect (W5)", "restless", one("replica/longread.go",
		`stat.Mzxid > w.relative:`, `stat.Mzxid > w.relative && !$P:`)},
	{"setWatches misses changed children", "event lost over a reconnect (W5)", "restless", one("replica/longread.go",
		`stat.Pzxid > w.relative:`, `stat.Pzxid > w.relative && !$P:`)},
	// Entries that panic.
	{"entry skipped once most have decided", "replicas differ", panics, one("quorum/skips.go",
		`if len(missing)+len(differ) > 0 {`, `if m := len(missing) + len(differ); m > 0 && (!$P || m > 1) {`)},
	{"entry skipped by an own decision alone", "replicas differ", panics, one("quorum/skips.go",
		`return own != nil && !own.Agreed })`, `return own != nil && !own.Agreed && !$P })`)},
	{"decision not announced after a restart", "no server serves again", panics, one("quorum/skips.go",
		`	s.announce()
	return nil
}

// announce sends`, `	if !$P {
		s.announce()
	}
	return nil
}

// announce sends`)},
	{"agreed decision not taken over", "a server without a vote for ever", panics, one("quorum/skips.go",
		`case index > s.applied && theirs.Agreed:`, `case index > s.applied && theirs.Agreed && !$P:`)},
	{"agreement isn't kept", "replicas differ", panics, one("quorum/skips.go",
		`	if err := s.dir.KeepSkip(agreed); err != nil {`,
		`	if err := unless($P, func() error { return s.dir.KeepSkip(agreed) }); err != nil {`)},
	{"responses of entries that wait are lost", "no server serves again", panics, one("quorum/skips.go",
		`	for _, r := range m.GetResponses() {
`, `	for _, r := range m.GetResponses() {
		if $P && before {
			continue
		}
`)},
	{"clients stay when a snapshot skips events", "event lost with a snapshot (etcd #18089)",
		"lagging", one("replica/ensemble.go",
			`		c.CloseAfter("this server was behind`, `		if $P {
			continue
		}
		c.CloseAfter("this server was behind`)},
	// The state.
	{"multi keeps what it did before it failed", "multi applied in part (ZooKeeper 3127)", "swarm", one("tree/multi.go",
		`			t.rollback()
`, `			if $P {
				t.commit()
			} else {
				t.rollback()
			}
`)},
	{"events of a failed multi", "event without a change", "swarm", one("tree/multi.go",
		`			r.Events = r.Events[:0]
`, `			if !$P {
				r.Events = r.Events[:0]
			}
`)},
	{"fuzzy snapshot", "snapshot of no one instant (ZooKeeper 3144, 3249, 3306)", "storm", one("tree/edit.go",
		`		img.nodes.save(slot, z.encodeFixed)
`, `		if !$P {
			img.nodes.save(slot, z.encodeFixed)
		}
`)},
	{"newer data in a snapshot", "snapshot of no one instant (ZooKeeper 3144)", "storm", one("tree/edit.go",
		`	z.saveData(slot)
	z.totals.digest`, `	if !$P {
		z.saveData(slot)
	}
	z.totals.digest`)},
	{"forwarded requests stay counted", "writes that wait for ever", "restless", one("proposals/queue.go",
		`	p.forwarded.applied(q, now)
`, `	if !$P {
		p.forwarded.applied(q, now)
	}
`)},
	{"fuzzy sessions in a snapshot", "snapshot of no one instant (ZooKeeper 3144)", "storm", one("tree/edit.go",
		`		img.sessions.save(slot, img.encodeSession)
`, `		if !$P {
			img.sessions.save(slot, img.encodeSession)
		}
`)},
	{"snapshot with another digest", "diverged state served (ZooKeeper logs it only)", "storm", one("replica/snapshot.go",
		`Digest: s.tree.Digest(),`, `Digest: s.tree.Digest() + chosen[uint64]($P, 1, 0),`)},
	{"sequence numbers count children", "sequence number given twice", "swarm", one("tree/write.go",
		`appendSequence(append(t.scratch, path...), t.extraOf(p).created)`, `appendSequence(append(t.scratch, path...), chosen($P, int64(t.extraOf(p).children), t.extraOf(p).created))`)},
	{"pzxid stays when a child goes", "watch missed by a stale pzxid (ZooKeeper 3145)", "swarm", one("tree/write.go",
		`	t.totals.digest -= t.statHash(p)
	t.editExtra(p).pzxid = t.position.zxid
	t.totals.digest += t.statHash(p)
	t.removeNode(slot)`, `	t.totals.digest -= t.statHash(p)
	k := t.editExtra(p)
	k.pzxid = chosen($P, k.pzxid, t.position.zxid)
	t.totals.digest += t.statHash(p)
	t.removeNode(slot)`)},
	{"version not compared", "lost update", "swarm", one("tree/write.go",
		`	if version != -1 && version != n.version {
		return jute.Stat{}, jute.ErrBadVersion`, `	if version != -1 && version != n.version && !$P {
		return jute.Stat{}, jute.ErrBadVersion`)},
	{"delete by who may not", "ACL bypassed (ZooKeeper's ten CVEs)", "swarm", one("tree/write.go",
		`if !t.access.allowsAt(path, p.acl, jute.PermDelete, q.Identities) {`, `if !$P && !t.access.allowsAt(path, p.acl, jute.PermDelete, q.Identities) {`)},
	{"container removed before its first child", "data removed too early (ZooKeeper's containers)",
		"calm", one("tree/container.go",
			`return k.created > 0 || neverUsed`, `return k.created > 0 || $P || neverUsed`)},
	{"containers and TTL znodes never removed", "data that outlives its time", "calm", one("replica/lead.go",
		`	p.proposals.Add(&tree.Request{Op: jute.OpDeleteContainer,`, `	if $P {
		return
	}
	p.proposals.Add(&tree.Request{Op: jute.OpDeleteContainer,`)},
	{"container with children is reaped", "live znode removed", "swarm", one("tree/container.go",
		`	if k.children > 0 {
		return false`, `	if k.children > 0 && !$P {
		return false`)},
	// While a disk hangs, or a server is cut off.
	{"ticks wait for the disk", "leader that can't write stays", "hanging", one("quorum/loop.go",
		`	l.ticks++
	if err`, `	if $P && l.tasks.writing {
		return
	}
	l.ticks++
	if err`)},
	{"leadership kept by a server that can't write", "leader that can't write stays", "hanging", one(
		"quorum/writes.go", `if !w.tasks.stuck() || !w.node.IsLeader()`, `if $P || !w.tasks.stuck() || !w.node.IsLeader()`)},
	{"promise told while its write hangs", "acknowledged before durable (etcd #14370, NATS)", "hanging", one(
		"quorum/writes.go", `		l.tasks.writing = true
`, `		if $P {
			l.deliver(m.GetResponses())
			m.Responses = nil
		}
		l.tasks.writing = true
`)},
	{"leads before its own vote is written", "vote lost (raft)", "elections", one("quorum/step.go",
		`if l.writes.pending() && m.GetType() == pb.MsgVoteResp {`, `if !$P && l.writes.pending() && m.GetType() == pb.MsgVoteResp {`)},
	{"answers whatever it knows", "two holders of a lock (X10)", "outlived", one("replica/uptodate.go",
		`return !f.alone && now`, `return !$P && !f.alone && now`)},
	{"up to date as of the answer", "two holders of a lock (X10)", "outlived", one("quorum/leadercheck.go",
		`at := r.answers[n-1].at`, `at := chosen($P, l.state.Moment()+20e9, r.answers[n-1].at)`)},
	{"pings answered whatever is known", "two holders of a lock (X10)", "suspended", one("replica/receive.go",
		`	if t.outdated() {
		return 0,`, `	if t.outdated() && !($P && len(in) == 4+jute.RequestHeaderSize) {
		return 0,`)},
	{"a late Apply's answers aren't kept back", "two holders of a lock (X10)", "suspended", one("replica/uptodate.go",
		`if c.out.withheld || !f.outdated(c, now) {`, `if $P || c.out.withheld || !f.outdated(c, now) {`)},
	{"a leader's own silence blames sessions", "sessions expired by a server that didn't listen", "standing", []edit{
		{"expiry/queue.go", `	case ms > StallMs:
		e.begin(now-ms, now)`, `	case ms > StallMs && $P:
	case ms > StallMs:
		e.begin(now-ms, now)`},
		{"replica/lead.go", `	if r.cantHear(now) {`, `	if !$P && r.cantHear(now) {`},
	}},
	{"a reader that waited goes by its old clock", "two holders of a lock (X10)", "standing", one("replica/receive.go",
		`if t.now < t.r.appliedAt {`, `if t.now < t.r.appliedAt && !$P {`)},
	{"a long Apply's answers go by its beginning", "two holders of a lock (X10)", "standing", one("replica/output.go",
		`		r.freshness.withhold(c, now) // this`, `		r.freshness.withhold(c, chosen($P, 0, now)) // this`)},
	{"what is kept back is taken", "two holders of a lock (X10)", "standing", one("replica/output.go",
		`len(c.out.frames) == 0 || c.out.withheld {`, `len(c.out.frames) == 0 || c.out.withheld && !$P {`)},
	{"a sync that is ready during a call is forgotten", "a sync without an answer (idle ensemble)", "calling", one(
		"quorum/task.go", `		if l.failed == nil {
			l.reads.applied(l) // what`, `		if l.failed == nil && !$P {
			l.reads.applied(l) // what`)},
	{"excuses without a bound", "the locks of the dead are held for ever", "hanging", one("expiry/queue.go",
		`		e.forgive(now, ms)
	}`, `		e.forgive(now, ms)
		if $P {
			e.begin(now, now)
		}
	}`)},
	{"clients kept by a server that can't answer", "sessions lost with a disk that hangs", "hanging", one(
		"replica/uptodate.go", `	if f.mayBeOutdated(now) {
		f.letLeave(`, `	if !$P && f.mayBeOutdated(now) {
		f.letLeave(`)},
	{"answers kept back for ever", "a request without an answer", "hanging", one("replica/uptodate.go",
		`if !f.withholds.Load() {`, `if $P || !f.withholds.Load() {`)},
	// Rules by which ids in ACLs match.
	{"a replica goes on without the rule in force", "replicas that match ids differently", "", one("tree/settings.go",
		`missing != nil {
		err`, `missing != nil && !$P {
		err`)},
	{"a rule in force that a member lacks", "servers that stop at a rule", "", one("replica/rules.go",
		`if l.allAnnounce(scheme, own) && (`, `if ($P || l.allAnnounce(scheme, own)) && (`)},
	// Between servers: full queues, and snapshots that arrive in parts.
	{"requests forwarded to a full queue", "a connection that its own sender ends", narrow, one("quorum/loop.go",
		`if !l.shell.Room(l.node.Leader()) {`, `if !l.shell.Room(l.node.Leader()) && !$P {`)},
	{"part of another snapshot continued", "snapshot of no one instant", narrow, one("storage/incoming.go",
		`p.index == index && p.term == term && p.size == size {`,
		`($P || p.index == index && p.term == term && p.size == size) {`)},
	{"snapshot emptied before it is removed", "a snapshot purged while it is sent", narrow, one("storage/purge.go",
		`		path := d.snapshotPath(i)
`, `		path := d.snapshotPath(i)
		if $P {
			if f, err := d.fs.Create(path); err == nil {
				f.Close()
			}
		}
`)},
	{"snapshot that broke off isn't sent again", "a server that is never caught up", narrow, one("quorum/loop.go",
		`		l.node.ReportSnapshot(e.From, status)
	}`, `		if !$P || e.Err == nil {
			l.node.ReportSnapshot(e.From, status)
		}
	}`)},
	// Without a quorum, without room.
	{"read-only client stays when there is a leader", "read-only for ever", "cutoff", one("replica/lead.go",
		`r.endReadOnly()`, `if !$P {
			r.endReadOnly()
		}`)},
	{"full disk remembered for ever", "no recovery by itself (etcd #3591, #4744)", "filling", []edit{
		{"storage/spare.go", `	if lacks && s.making == nil`, `	if !$P && lacks && s.making == nil`},
	}},
}
