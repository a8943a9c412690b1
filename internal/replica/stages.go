package replica

import (
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Stages are the histograms of the stages of a request. The server observes the exported ones.
type Stages struct {
	// from a read of a connection's socket until its writes are queued and its reads are answered
	Decode *metrics.Histogram
	queue  *metrics.Histogram // for each entry, how long its oldest request waited until the quorum took it
	Log    *metrics.Histogram // one fdatasync of the log
	quorum *metrics.Histogram // on the leader: from being proposed until the entry is committed
	apply  *metrics.Histogram // applying the entries that were committed together
	Send   *metrics.Histogram // one write to a client's socket; sampled
	// Watch is the time from an event until it is written to a watcher's socket.
	Watch *metrics.Histogram
}

func newStages(r *metrics.Registry) Stages {
	all := r.Histograms("zooid_request_stage_seconds", "Time that requests spend in stages of a server.", "stage",
		"decode", "queue", "log", "quorum", "apply", "send")
	watch := r.Histograms("zooid_watch_delivery_seconds", "Time from an event until it is written to the socket of a watcher.", "", "")
	return Stages{all[0], all[1], all[2], all[3], all[4], all[5], watch[0]}
}

// proposed are the entries that this leader has proposed and not yet applied. The quorum's loop
// owns them.
type proposed struct {
	waiting []proposal
	applied proposal // the proposal of the entry being applied; at is 0 if another server proposed the entry
	quorum  int64    // ns from proposing the entry being applied until it was committed
}

// A proposal records when (ns) an entry was proposed, and how long (ns) its oldest request had
// waited by then.
type proposal struct{ at, queued int64 }

// propose records that the quorum takes an entry now.
func (l *loop) propose(queued int64) {
	l.meters.Stages.queue.Observe(queued)
	l.overload.noteWait(queued, l.now())
	l.proposed.waiting = append(l.proposed.waiting, proposal{l.now(), queued})
}

// arrives records that an entry is committed. A leader's entries are applied in the order of their
// proposal.
func (l *loop) arrives(e *quorum.Entry, now int64) {
	p := &l.proposed
	p.applied = proposal{}
	if len(e.Data) == 0 || !l.leader.IsLeader || e.Term != l.leader.Term || len(p.waiting) == 0 {
		return
	}
	p.applied, p.waiting = p.waiting[0], p.waiting[1:]
	p.quorum = now - p.applied.at
	l.meters.Stages.quorum.Observe(p.quorum)
}

// slowPathMax is how many bytes of a slow request's path are logged.
const slowPathMax = 256

// answersLate logs a request that is answered at now (ns), long after it arrived. The answer has not been written to
// the socket yet. c.mu is held.
func (l *loop) answersLate(c *Client, req *request, res *tree.Result, now int64) {
	took := now - req.at
	if l.slow <= 0 || took < l.slow || req.op.code == jute.OpPing {
		return
	}
	body := req.body
	args := []any{"client", c.remote, "session", SessionText(c.session), "op", req.op.code.String()}
	if res != nil {
		body = res.Request.Body
	}
	if path, ok := pathOnly(body); ok && req.op.code.HasPath() && req.code() == req.op.code {
		args = append(args, "path", path[:min(len(path), slowPathMax)])
	}
	args = append(args, "ms", took/1e6)
	if res != nil {
		if p := &l.proposed; p.applied.at != 0 {
			args = append(args, "queueMs", p.applied.queued/1e6, "quorumMs", p.quorum/1e6)
		}
		args = append(args, "applyMs", (l.now()-now)/1e6, "lastFsyncMs", l.meters.LastFsync.Load()/1e6)
	}
	l.slowLog.Warn("a request was slow", args...)
}
