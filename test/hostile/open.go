package main

import (
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/jute"
)

// The load generator of the attack saturation. As a closed loop, it keeps a number
// of requests outstanding on each connection, which shows how much a server can do.
// As an open loop, each connection has a schedule and doesn't wait for replies: the
// offered load doesn't depend on the server. A quarter of the requests are writes.
//
// If the socket of an open-loop connection takes nothing more, the connection keeps up
// to backlogMax bytes of requests. Requests that fall due beyond that are turned away:
// they were offered and get no reply. A reply counts if it isn't an error and came
// within the session's timeout after the request was due. Socket buffers are small for
// that reason: those that the kernel chooses hold the requests of some minutes.

const (
	saturationConnections = 64 // per process
	saturationTimeout     = 20 * time.Second
	saturationWrites      = 4 // every fourth request is a write
	// scheduleTick is the time between two checks of a connection's schedule.
	scheduleTick = 40 * time.Millisecond
	backlogMax   = 16 << 10
	socketBytes  = 16 << 10
)

func attackSaturation(f *field) error {
	if f.rate == 0 {
		return f.demand(saturationConnections, f.window, saturationWrites, "")
	}
	errs := make(chan error, saturationConnections)
	f.workers(saturationConnections, func(i int, rng *rand.Rand) {
		o := openLoop{f: f, perSecond: float64(f.rate) / saturationConnections}
		o.begun = time.Now().Add(-time.Duration(rng.Int64N(int64(scheduleTick))))
		o.makeRequests()
		errs <- o.run(f.addr(i))
	})
	close(errs)
	for err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// An openLoop is one connection of the open loop, and those that replace it when it ends.
type openLoop struct {
	f         *field
	perSecond float64
	begun     time.Time
	offered   int64
	requests  [saturationWrites][]byte // in turn, with room for an xid
}

func (o *openLoop) makeRequests() {
	for i := range o.requests {
		op, record := jute.OpGetData, readRecord(hostileRoot)
		if i == 0 {
			op, record = jute.OpSetData, setRecord(hostileRoot, "some data of a client")
		}
		o.requests[i] = jute.AppendRequest(nil, 0, op, jute.Encoded(record))
	}
}

// run returns an error if replies came in a different order than requests.
func (o *openLoop) run(addr string) error {
	for !o.f.over() {
		c := orNil(o.f.connect(addr, int32(saturationTimeout.Milliseconds())))
		if c == nil {
			o.offer(time.Now(), func(n int64) { o.f.counts.turnedAway.Add(n) })
			continue
		}
		c.unpaced = true
		c.nc.(*net.TCPConn).SetWriteBuffer(socketBytes)
		c.create(hostileRoot, nil, jute.ModePersistent)
		r := &replies{conn: c}
		var wg sync.WaitGroup
		wg.Go(r.read)
		o.send(c, r)
		c.close()
		wg.Wait()
		if r.disorder != nil {
			return r.disorder
		}
		if !o.f.over() {
			o.f.counts.lost.Add(1)
		}
	}
	return nil
}

// offer calls take with the number of requests that have fallen due.
func (o *openLoop) offer(now time.Time, take func(n int64)) {
	n := int64(now.Sub(o.begun).Seconds()*o.perSecond) - o.offered
	if n <= 0 {
		return
	}
	o.offered += n
	o.f.counts.requests.Add(n)
	take(n)
}

// send sends requests as they fall due until the connection ends.
func (o *openLoop) send(c *conn, r *replies) {
	try := socket.TryWriter(c.nc)
	var backlog []byte
	for !o.f.over() && !r.over() {
		now := time.Now()
		o.offer(now, func(n int64) {
			taken := int64(0)
			for ; taken < n && len(backlog) < backlogMax; taken++ {
				request := o.requests[r.sent%saturationWrites]
				r.sent++
				at := len(backlog)
				backlog = append(backlog, request...)
				binary.BigEndian.PutUint32(backlog[at+4:], uint32(int32(r.sent&0x7fffffff)))
			}
			o.f.counts.turnedAway.Add(n - taken)
			r.expect(r.sent, now)
		})
		if len(backlog) > 0 {
			n := try(backlog)
			o.f.counts.bytes.Add(int64(n))
			backlog = backlog[:copy(backlog, backlog[n:])]
		}
		o.f.sleep(scheduleTick)
	}
}

// replies reads the replies on a connection and compares them with those expected.
type replies struct {
	conn     *conn
	sent     int64 // requests taken from the schedule; owned by the sender
	disorder error

	mu    sync.Mutex
	due   []due
	ended bool
}

// due is the time when the requests up to a number were due.
type due struct {
	upTo int64
	at   time.Time
}

func (r *replies) expect(upTo int64, at time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if n := len(r.due); n == 0 || r.due[n-1].upTo < upTo {
		r.due = append(r.due, due{upTo, at})
	}
}

func (r *replies) over() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// dueAt returns when request n was due.
func (r *replies) dueAt(n int64) time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.due[0].upTo < n {
		r.due = r.due[1:]
	}
	return r.due[0].at
}

// read reads until the connection ends.
func (r *replies) read() {
	defer func() {
		r.mu.Lock()
		r.ended = true
		r.mu.Unlock()
	}()
	for n := int64(1); ; n++ {
		h, _, err := r.conn.receive(time.Minute)
		if err != nil {
			return
		}
		if want := int32(n & 0x7fffffff); h.Xid != want {
			r.disorder = fmt.Errorf("the reply to request %d of session %#x has the xid %d", want, r.conn.session, h.Xid)
			return
		}
		if h.Err == jute.OK && time.Since(r.dueAt(n)) > saturationTimeout {
			r.conn.f.counts.late.Add(1)
		}
	}
}

// tell writes the attack's progress in the form that parseProgress reads, until the attack is over.
func (f *field) tell(out io.Writer, every time.Duration) {
	for !f.over() {
		c := &f.counts
		p := progress{
			At: time.Now().UnixNano(), Offered: c.requests.Load(), TurnedAway: c.turnedAway.Load(),
			Good: c.replies.Load() - c.errors.Load() - c.late.Load(), Late: c.late.Load(), Errors: c.errors.Load(),
			Lost: c.lost.Load(), Held: c.held.Load(),
		}
		fmt.Fprintln(out, p.line())
		f.sleep(every)
	}
}

// progress is an attack's progress so far.
type progress struct {
	At                  int64 // ns since 1970
	Offered, TurnedAway int64 // requests
	Good, Late, Errors  int64 // replies
	Lost, Held          int64 // connections
}

const progressFormat = "progress at %d offered %d turned away %d good %d late %d errors %d lost %d held %d"

func (p *progress) line() string {
	return fmt.Sprintf(progressFormat, p.At, p.Offered, p.TurnedAway, p.Good, p.Late, p.Errors, p.Lost, p.Held)
}

func parseProgress(line string) (p progress, ok bool) {
	_, err := fmt.Sscanf(line, progressFormat, &p.At, &p.Offered, &p.TurnedAway, &p.Good, &p.Late, &p.Errors, &p.Lost,
		&p.Held)
	return p, err == nil
}
