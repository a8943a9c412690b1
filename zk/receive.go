package zk

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// receive reads frames until the connection fails or the server sends something invalid. It returns the reason.
func (s *session) receive(l *link) error {
	for {
		frame, owned, err := l.nextFrame(s.opt.MaxResponseBytes)
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = errors.New("the server closed the connection")
			}
			if tooLarge, ok := errors.AsType[*jute.FrameSizeError](err); ok {
				s.blame(tooLarge)
			}
			return err
		}
		if err := s.take(l, frame, owned); err != nil {
			return err
		}
		l.skip(frame, owned)
	}
}

// blame records that the reply of the oldest call exceeds the limit, so that this call fails and isn't retried.
func (s *session) blame(e *jute.FrameSizeError) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.sent > 0 && e.Size > 0 {
		s.blamed = s.calls.at(0)
	}
}

// take handles one frame.
func (s *session) take(l *link, frame []byte, owned bool) error {
	var d jute.Decoder
	d.Reset(frame)
	var h jute.ReplyHeader
	h.Decode(&d)
	if err := d.Err(); err != nil {
		return fmt.Errorf("the server sent a frame of %d bytes, too short for a header", len(frame))
	}
	switch h.Xid {
	case jute.XidNotification:
		return s.notified(h, &d)
	case jute.XidPing:
		s.mu.Lock()
		s.sawReply(h.Zxid)
		s.mu.Unlock()
		return nil
	case jute.XidAuth:
		return s.authAnswered(l, h)
	case jute.XidSetWatches:
		return s.rearmed(h)
	}
	return s.answered(l, h, frame[jute.ReplyHeaderSize:], owned)
}

// sawReply records the zxid of a reply. All events up to this zxid came before the reply. The caller holds s.mu.
func (s *session) sawReply(zxid int64) {
	s.zxidReply = max(s.zxidReply, zxid)
	s.zxidSeen = max(s.zxidSeen, zxid)
}

// answered completes the oldest call (S2).
func (s *session) answered(l *link, h jute.ReplyHeader, body []byte, owned bool) error {
	s.mu.Lock()
	if s.sent == 0 {
		s.mu.Unlock()
		return fmt.Errorf("the server answered request %d, none is open", h.Xid)
	}
	k := s.calls.at(0)
	if k.xid != h.Xid {
		s.mu.Unlock()
		return fmt.Errorf("xid out of order: the server answered request %d before request %d (%s %s)", h.Xid, k.xid, k.op,
			k.path)
	}
	s.calls.pop()
	s.sent--
	s.sawReply(h.Zxid)
	s.wake()
	if s.draining && s.sent == 0 && s.auths.n == 0 {
		l.close(errMoving)
	}
	s.mu.Unlock()

	if k.seen != nil {
		k.seen.server, k.seen.zxid, k.seen.received = l.server, h.Zxid, 4+jute.ReplyHeaderSize+len(body)
	}
	var nonsense error
	if h.Err != jute.OK {
		k.err = newError(k, l.server, h.Err)
	} else if nonsense = k.decode(body, owned); nonsense != nil {
		nonsense = fmt.Errorf("the server's reply to %s %s makes no sense: %w", k.op, k.path, nonsense)
		k.err = lossError(k, l.server, true, nonsense)
	} else if k.op == jute.OpMulti || k.op == jute.OpMultiRead {
		k.err = k.multiFailure(l.server)
	}
	if k.watch != nil || k.drop != 0 {
		s.mu.Lock()
		s.settleWatches(k, h.Err, nonsense == nil)
		s.mu.Unlock()
	}
	if k.shared && k.seen != nil {
		s.ended(k, true, k.err)
	}
	k.finish()
	return nonsense
}

// authAnswered completes the oldest auth request. It keeps an accepted credential for later connections. The refusal of
// a kept credential is final.
func (s *session) authAnswered(l *link, h jute.ReplyHeader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.auths.n == 0 {
		return errors.New("the server answered an auth request, none is open")
	}
	k := s.auths.pop()
	switch {
	case h.Err == jute.OK && k.cred != nil:
		same := func(a Auth) bool { return a.Scheme == k.cred.Scheme && bytes.Equal(a.Auth, k.cred.Auth) }
		if !slices.ContainsFunc(s.creds, same) {
			s.creds = append(s.creds, *k.cred)
		}
	case h.Err != jute.OK:
		refused := newError(k, l.server, h.Err)
		refused.refusedAuth = true
		k.err = refused
		if k.done == nil {
			return fmt.Errorf("the server refuses the session's credentials of scheme %s: %w", k.path, ErrAuthFailed)
		}
	}
	k.finish()
	if s.draining && s.sent == 0 && s.auths.n == 0 {
		l.close(errMoving)
	}
	return nil
}

// rearmed counts an answered setWatches request. After the last one, persistent watches miss no further events, and
// their users are told to read again.
func (s *session) rearmed(h jute.ReplyHeader) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.rearms == 0 {
		return errors.New("the server answered a setWatches request, none is open")
	}
	if h.Err != jute.OK {
		return fmt.Errorf("the server refuses the watches of this session: %s", h.Err)
	}
	s.sawReply(h.Zxid)
	if s.rearms--; s.rearms == 0 {
		s.watches.resync()
	}
	return nil
}

// notified delivers a notification to the watches concerned.
func (s *session) notified(h jute.ReplyHeader, d *jute.Decoder) error {
	var e jute.WatcherEvent
	e.Decode(d)
	if err := d.Err(); err != nil {
		return fmt.Errorf("the server's notification makes no sense: %w", err)
	}
	if e.Type < EventNodeCreated || e.Type > EventNodeChildrenChanged {
		s.log.Debug("zookeeper: notification of an unknown type ignored", "type", int32(e.Type), "path", e.Path)
		return nil
	}
	event := Event{Type: e.Type, Path: strings.Clone(e.Path), Zxid: h.Zxid}
	s.mu.Lock()
	// zxidReply doesn't change: one change may fire several watches. If the connection is lost between two
	// notifications, setWatches must still report the second.
	s.zxidSeen = max(s.zxidSeen, h.Zxid)
	s.watches.fire(event)
	s.settlePath(event.Path)
	s.mu.Unlock()
	if s.opt.Notified != nil {
		s.opt.Notified(event)
	}
	if s.hooks.Watch != nil {
		s.hooks.Watch(event)
	}
	return nil
}

// seekFirst and seekMax bound the pause between two attempts to find a server with quorum; it doubles each time.
// seekTimeout bounds one attempt.
const (
	seekFirst   = 100 * time.Millisecond
	seekMax     = time.Minute
	seekTimeout = time.Second
)

// seekFull looks for a server with quorum while the client is connected to a read-only one, and moves to it.
func (s *session) seekFull(ctx context.Context, l *link) {
	for i, pause := 0, seekFirst; sleep(ctx, pause) == nil; i, pause = i+1, min(2*pause, seekMax) {
		s.mu.Lock()
		server := s.list.servers[i%len(s.list.servers)]
		s.mu.Unlock()
		if server == l.server || !s.isFull(ctx, server) {
			continue
		}
		s.mu.Lock()
		s.list.prefer(server)
		s.drain(l)
		s.mu.Unlock()
		return
	}
}

// isFull asks server by a four-letter word whether it accepts writes.
func (s *session) isFull(ctx context.Context, server string) bool {
	ctx, cancel := context.WithTimeout(ctx, seekTimeout)
	defer cancel()
	addrs, err := s.addressesOf(ctx, server, seekTimeout)
	return err == nil && slices.ContainsFunc(addrs, func(addr string) bool { return s.isFullAt(ctx, server, addr) })
}

func (s *session) isFullAt(ctx context.Context, server, addr string) bool {
	conn, err := dial(ctx, &s.opt, server, addr)
	if err != nil {
		return false
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { conn.SetDeadline(longAgo) })()
	if _, err := conn.Write([]byte("isro")); err != nil {
		return false
	}
	var answer [2]byte
	_, err = io.ReadFull(conn, answer[:])
	return err == nil && string(answer[:]) == "rw"
}
