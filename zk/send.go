package zk

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"time"

	"github.com/zooid-project/zooid/jute"
)

const (
	// batchBytes bounds the bytes of one write. More bytes per system call gain nothing.
	batchBytes = 64 << 10

	// unsentMax bounds the bytes queued for a server that is slow or unreachable.
	unsentMax = 8 << 20
)

// submit queues k and waits for room if necessary. If it returns an error, k is not queued.
func (s *session) submit(ctx context.Context, k *call) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.end == nil && !s.closing && !s.hasRoom() {
		s.waiting++
		s.mu.Unlock()
		var err error
		select {
		case <-s.room:
		case <-ctx.Done():
			err = ctx.Err()
		}
		s.mu.Lock()
		s.waiting--
		if err != nil {
			s.wake() // the token taken may have been meant for this caller
			return cancelError(ctx, k, "", false, fmt.Sprintf("waiting for room behind %d requests", s.calls.n))
		}
	}
	defer s.wake()
	switch {
	case s.end != nil:
		return newError(k, "", s.end)
	case s.closing:
		return newError(k, "", ErrClosed)
	case ctx.Err() != nil:
		return cancelError(ctx, k, "", false, "not sent")
	case k.pin != nil && k.pin.epoch != 0 && k.pin.epoch != s.epoch:
		return lossError(k, "", false, errBrokenPipeline)
	case k.pin != nil:
		k.pin.epoch = s.epoch
	}
	if k.watch != nil {
		s.watches.expect(k.abs)
	}
	s.enqueue(k)
	return nil
}

func (s *session) hasRoom() bool {
	return s.calls.n < s.opt.MaxOutstanding && s.unsentBytes < unsentMax
}

// wake wakes one waiting caller if there is room or the session has ended. That caller wakes the next. The caller of
// wake holds s.mu.
func (s *session) wake() {
	if s.waiting > 0 && (s.end != nil || s.closing || s.hasRoom()) {
		select {
		case s.room <- struct{}{}:
		default:
		}
	}
}

// enqueue queues k even if there is no room. The caller holds s.mu.
func (s *session) enqueue(k *call) {
	s.calls.push(k)
	s.unsentBytes += len(k.req)
	if s.idle {
		s.idle = false
		select {
		case s.link.kick <- struct{}{}:
		default:
		}
	}
}

// withdraw removes k from the queue and reports whether it could: k must not have been sent (S1).
func (s *session) withdraw(k *call) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := s.sent; i < s.calls.n; i++ {
		if s.calls.at(i) == k {
			s.calls.remove(i)
			s.unsentBytes -= len(k.req)
			if k.watch != nil {
				s.watches.arrived(k.abs)
				s.settlePath(k.abs)
			}
			s.wake()
			return true
		}
	}
	return false
}

// wait waits for k to complete. When ctx ends, it withdraws k. It reports whether k has completed and may be reused.
func (s *session) wait(ctx context.Context, k *call) (completed bool, err error) {
	select {
	case <-k.done:
		return true, k.err
	case <-ctx.Done():
	}
	if s.withdraw(k) {
		s.mu.Lock()
		defer s.mu.Unlock()
		if s.link != nil {
			return true, cancelError(ctx, k, "", false, "not sent yet")
		}
		return true, cancelError(ctx, k, "", false, "not sent, no connection"+s.troubles())
	}
	select {
	case <-k.done:
		return true, k.err
	default:
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if k.watch != nil {
		s.endWatch(k.watch, ErrWatchEnded)
	}
	return false, cancelError(ctx, k, s.now.Server, true, "no reply yet")
}

// send writes prelude and then the queued calls, as many at a time as there are. It pings when there are none.
func (s *session) send(l *link, prelude []byte) {
	timer := time.NewTimer(l.timing.ping)
	defer timer.Stop()
	b := prelude
	for {
		s.mu.Lock()
		b = s.collect(b)
		s.idle = len(b) == 0
		s.mu.Unlock()
		if len(b) > 0 {
			if err := l.write(b); err != nil {
				l.close(fmt.Errorf("send: %w", err))
				return
			}
			timer.Reset(l.timing.ping)
			if b = b[:0]; cap(b) > 2*batchBytes {
				b = nil
			}
			continue
		}
		select {
		case <-l.kick:
			// Let callers that are ready join the batch: with 16 busy callers on each of 16 clients this quarters the
			// time per call, and with one caller it costs nothing.
			runtime.Gosched()
		case <-timer.C:
			b = jute.AppendRequest(b, jute.XidPing, jute.OpPing, nil)
		case <-l.dead:
			return
		}
	}
}

// collect appends the frames of unsent calls to b and counts them as sent. The caller holds s.mu.
func (s *session) collect(b []byte) []byte {
	for !s.draining && s.sent < s.calls.n && len(b) < batchBytes {
		k := s.calls.at(s.sent)
		if k.op == jute.OpAuth {
			// Auth requests have a special xid, and their replies don't wait for earlier replies.
			k.xid = jute.XidAuth
			s.calls.remove(s.sent)
			s.auths.push(k)
		} else {
			k.xid = s.nextXid()
			s.sent++
		}
		binary.BigEndian.PutUint32(k.req[4:], uint32(k.xid))
		b = append(b, k.req...)
		s.unsentBytes -= len(k.req)
		if k.shared {
			k.req = nil // a Future may keep k much longer
		}
	}
	s.wake() // an auth request leaves the queue here, not when it is answered
	return b
}

// nextXid returns the number of the next request; those below 1 are special. The caller holds s.mu.
func (s *session) nextXid() int32 {
	if s.xid++; s.xid == math.MaxInt32 {
		s.xid = 1
	}
	return s.xid
}

// prelude returns the first bytes of a new connection: the credentials, then the watches. The caller holds s.mu.
func (s *session) prelude() []byte {
	var b []byte
	for _, a := range s.creds {
		p := jute.AuthPacket{Scheme: a.Scheme, Auth: a.Auth}
		b = jute.AppendRequest(b, jute.XidAuth, jute.OpAuth, p.Append)
		s.auths.push(&call{op: jute.OpAuth, path: a.Scheme})
	}
	for _, w := range s.watches.rearm(s.zxidReply) {
		op := jute.OpSetWatches
		if len(w.Persistent)+len(w.PersistentTree) > 0 {
			op = jute.OpSetWatches2
		}
		b = jute.AppendRequest(b, jute.XidSetWatches, op, func(b []byte) []byte { return w.Append(b, op) })
		s.rearms++
	}
	return b
}

// drainWait bounds how long a voluntary move waits for replies.
const drainWait = 2 * time.Second

// drain closes l once every request sent is answered, so that the move fails no call. The caller holds s.mu.
func (s *session) drain(l *link) {
	if s.link != l || s.draining || s.closing {
		return
	}
	s.draining = true
	if s.sent == 0 && s.auths.n == 0 {
		l.close(errMoving)
		return
	}
	time.AfterFunc(drainWait, func() { l.close(errMoving) })
}
