package replica

import (
	"encoding/binary"
	"errors"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// requestMetrics sums up the metrics of consecutive reads of one client, so that many reads
// cost the atomic operations of one. Its zero value is empty.
type requestMetrics struct {
	op              jute.Op // the operation that ops counts
	ops             int64
	bytes           int64 // of replies
	last, low, high int64
}

// add counts a read with its reply's frame; c.mu is held.
func (t *requestMetrics) add(r *Replica, c *Client, req *request, request, frame []byte) {
	m, op := r.meters, req.code()
	if r.seeAnswer != nil {
		how := Tried
		if req.verdict.refuses() {
			how = Refused
		}
		r.seeAnswer(c, req.op.code, request, codeIn(frame), how)
	}
	if op != t.op && t.ops > 0 {
		m.did(t.op, t.ops)
		t.ops = 0
	}
	if weight := c.sampled.Take(&r.stats.traffic); weight > 0 {
		r.stats.sample(c, weight, req, request, len(frame))
	}
	size := int64(len(frame) - frameLengthSize)
	if t.bytes == 0 {
		t.low, t.high = size, size
	}
	t.op, t.last, t.low, t.high = op, size, min(t.low, size), max(t.high, size)
	t.ops++
	t.bytes += size
	if n, ok := readSize(op, frame); ok {
		c.stats.reads.addRead(m.readsIn, request, n)
	}
}

// flush adds the counts to the metrics; c.mu is held.
func (t *requestMetrics) flush(m *Meters, c *Client) {
	if t.ops == 0 {
		return
	}
	m.did(t.op, t.ops)
	m.responseBytes.Add(t.bytes)
	m.responses.observe(t.last, t.low, t.high)
	c.stats.reads.flush()
	*t = requestMetrics{}
}

// sample records a request that the client's sampler has chosen; reply is the size of the reply in
// bytes. c.mu is held.
func (s *stats) sample(c *Client, weight int32, req *request, body []byte, reply int) {
	chosen := c.sampled.Sample(weight, c.session, c.ids.Load())
	if req.op.code.HasPath() && req.verdict == taken {
		chosen.Path, _ = pathOnly(body) // "" if the body can't be decoded
	}
	chosen.Operation, chosen.Bytes = req.op.code.String(), frameLengthSize+jute.RequestHeaderSize+len(body)+reply
	s.traffic.Add(req.at, &chosen)
}

// frameLengthSize is the size of the length that precedes a frame's ReplyHeader.
const frameLengthSize = 4

// codeIn returns the code of a reply's frame.
func codeIn(frame []byte) jute.Code {
	return jute.Code(int32(binary.BigEndian.Uint32(frame[frameLengthSize+jute.ReplyHeaderSize-4:])))
}

// statOverheadBytes is the number of bytes that Apache counts for a read's Stat, even if the
// reply has none.
const statOverheadBytes = 68

// readSize returns the bytes that a read counts in its namespace in addition to those of its path,
// as in Apache: data or names of children, and a Stat. It returns false for failed reads and other
// operations, which don't count.
func readSize(op jute.Op, frame []byte) (int64, bool) {
	switch op {
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
	default:
		return 0, false
	}
	if len(frame) <= frameLengthSize+jute.ReplyHeaderSize {
		return 0, false
	}
	body := frame[frameLengthSize+jute.ReplyHeaderSize:]
	n := int64(len(body))
	switch op {
	case jute.OpGetData:
		n -= 4
	case jute.OpGetChildren, jute.OpGetChildren2:
		children := int64(body[0])<<24 | int64(body[1])<<16 | int64(body[2])<<8 | int64(body[3])
		n -= 4 + 4*children
		if op == jute.OpGetChildren {
			n += statOverheadBytes
		}
	}
	return n, true
}

// readPath returns the path of a read that succeeded. Its request has been decoded, so it begins
// with a valid path and needs no further checks.
func readPath(request []byte) []byte {
	n := int(int32(binary.BigEndian.Uint32(request)))
	return request[4 : 4+max(n, 0)] // -1 stands for no path, which some reads treat as the root's
}

// A namespaceRun sums up consecutive requests in one namespace, Apache's term for the first part of
// a path. A run is one observation, of the mean of its requests: an observation for each request
// would cost as much as answering it.
type namespaceRun struct {
	name   string
	meter  *metrics.Summary
	n, sum int64
}

// add counts a request on path; bytes is the size of its transfer in addition to the path.
func (s *namespaceRun) add(set *metrics.SummarySet, path string, bytes int64) {
	if covers(s, path) || s.begin(set, path) {
		s.n++
		s.sum += int64(len(path)) + bytes
	}
}

// addRead counts a read that succeeded.
func (s *namespaceRun) addRead(set *metrics.SummarySet, request []byte, bytes int64) {
	path := readPath(request)
	if covers(s, path) || s.begin(set, string(path)) {
		s.n++
		s.sum += int64(len(path)) + bytes
	}
}

// begin ends the run and begins another in the namespace of path. It reports whether path has one.
func (s *namespaceRun) begin(set *metrics.SummarySet, path string) bool {
	name := namespace(path)
	if name == "" {
		return false
	}
	s.flush()
	s.name = "" // a run of a name without a counter of its own isn't worth the memory of the name
	if len(name) <= metrics.KeyBytesMax {
		name = strings.Clone(name)
		s.name = name
	}
	s.meter = set.With(name)
	return true
}

// covers reports whether a path is in the run's namespace.
func covers[P string | []byte](s *namespaceRun, path P) bool {
	n := 1 + len(s.name)
	return n > 1 && len(path) >= n && path[0] == '/' && string(path[1:n]) == s.name && (len(path) == n || path[n] == '/')
}

func (s *namespaceRun) flush() {
	if s.n > 0 {
		s.meter.Observe(s.sum / s.n)
		s.n, s.sum = 0, 0
	}
}

// namespace returns the first part of a path, "" for the root.
func namespace(path string) string {
	if len(path) < 2 || path[0] != '/' {
		return ""
	}
	name, _, _ := strings.Cut(path[1:], "/")
	return name
}

// changed counts an applied request's effect on a znode; mu is held for writing.
func (s *stats) changed(ev *tree.Event) {
	var bytes int64
	switch ev.Type {
	case jute.EventNodeCreated, jute.EventNodeDataChanged:
		bytes = int64(ev.Size)
		if ev.TTL && ev.Type == jute.EventNodeCreated {
			s.meters.ttlCreated.Inc()
		}
	case jute.EventNodeDeleted:
		if ev.TTL {
			s.meters.ttlDeleted.Inc()
		}
	default:
		return
	}
	s.writes.add(s.meters.writesIn, ev.Path, bytes)
}

// answers sums up the statistics of consecutive replies to the writes of one client, while
// operation and latency are the same. Its zero value is empty.
type answers struct {
	c               *Client
	op              *op
	now, ms         int64 // when the replies were made (ns), and the time from arrival to reply (ms)
	n, bytes        int64
	sizes           int64 // sum of the sizes of the requests
	last, low, high int64 // sizes of replies
	xid             int32
	zxid            int64
}

// add counts a reply; r.mu is held for writing, and c.mu is held.
func (a *answers) add(r *Replica, c *Client, req *request, size, zxid, now int64) {
	ms := (now - req.at) / 1e6
	if a.c != c || a.op != req.op || a.ms != ms {
		a.flush(r)
		*a = answers{c: c, op: req.op, now: now, ms: ms, low: size, high: size}
	}
	a.n++
	a.bytes += size
	a.sizes += int64(req.size)
	a.last, a.low, a.high = size, min(a.low, size), max(a.high, size)
	a.xid, a.zxid = req.xid, zxid
}

// flush adds the counts to the statistics; r.mu is held for writing.
func (a *answers) flush(r *Replica) {
	if a.n == 0 {
		return
	}
	if a.op.code != jute.OpReconfig { // a reconfig takes as long as servers need to catch up
		r.overload.noteWait(a.ms*1e6, a.now)
	}
	r.meters.did(a.op.code, a.n)
	r.meters.responseBytes.Add(a.bytes)
	r.meters.responses.observe(a.last, a.low, a.high)
	r.stats.answeredMany(a.c, a.op.code, true, a.xid, a.n, a.ms, a.zxid, a.now)
	r.stats.sent.Add(a.n)
	r.unanswered.add(-a.n, -a.sizes)
	*a = answers{}
}

// countEnsemble counts an auth packet of the scheme ensemble by its result; checked says that names are checked.
func (m *Meters) countEnsemble(p *jute.AuthPacket, err error, checked bool) {
	switch {
	case p.Scheme != "ensemble":
	case errors.Is(err, auth.ErrWrongEnsemble):
		m.ensembleWrong.Inc()
	case err != nil:
	case checked && len(p.Auth) > 0:
		m.ensembleRight.Inc()
	default:
		m.ensembleSkipped.Inc()
	}
}
