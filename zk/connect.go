package zk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// Pauses between attempts. They have jitter, so that the clients of a failed server don't reconnect at the same moment.
// The first attempt after a loss comes within moveSpread. Each full round of failures doubles the pause, and so does
// each connection that is lost again at once.
const (
	moveSpread = 50 * time.Millisecond
	roundPause = 50 * time.Millisecond
	roundLimit = 5 // doublings: at most 1.6 s
)

// connect tries servers until one accepts the session. An error from connect is final.
func (s *session) connect() (*link, error) {
	ctx := s.ctx
	if s.connects > 0 {
		s.mu.Lock()
		expiry := s.heard.Add(s.timing.expiry)
		s.mu.Unlock()
		var cancel context.CancelFunc
		ctx, cancel = context.WithDeadlineCause(ctx, expiry, ErrSessionExpired)
		defer cancel()
	}
	rounds := s.flaps
	for attempt := 0; ; attempt++ {
		s.mu.Lock()
		server, round := s.list.next()
		trying, abandon := context.WithCancelCause(ctx)
		s.abandon = abandon
		s.mu.Unlock()
		var pause time.Duration
		switch {
		case round:
			s.askServers()
			rounds++
			pause = jitter(roundPause << min(rounds, roundLimit))
		case attempt == 0 && s.flaps > 1:
			pause = jitter(roundPause << min(rounds, roundLimit))
		case attempt == 0 && s.connects > 0:
			pause = rand.N(moveSpread)
		}
		if err := sleep(ctx, pause); err != nil {
			abandon(nil)
			return nil, s.endOf(ctx)
		}
		begun := time.Now()
		l, err := s.attempt(trying, server)
		abandon(nil)
		s.runAfter()
		if s.hooks.Connect != nil {
			s.hooks.Connect(server, time.Since(begun), err)
		}
		switch {
		case err == nil:
			return l, nil
		case errors.Is(err, errRejected) && s.requestID() != 0:
			return nil, ErrSessionExpired
		case errors.Is(err, ErrAuthFailed):
			return nil, fmt.Errorf("%s: %w", server, err)
		case ctx.Err() != nil:
			return nil, s.endOf(ctx)
		}
		s.log.Debug("zookeeper: can't connect", "server", server, "error", err)
		s.mu.Lock()
		if slices.Contains(s.list.servers, server) {
			s.trouble[server] = err
		}
		s.mu.Unlock()
	}
}

// endOf returns the reason why ctx, which connect made, has ended.
func (s *session) endOf(ctx context.Context) error {
	if errors.Is(context.Cause(ctx), ErrSessionExpired) {
		return ErrSessionExpired
	}
	return ErrClosed
}

func sleep(ctx context.Context, d time.Duration) error {
	if d <= 0 {
		return ctx.Err()
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// requestID returns the session id to request: 0 until a server with quorum has given one, since other servers don't
// know the sessions of a read-only server.
func (s *session) requestID() int64 {
	if s.full {
		return s.id
	}
	return 0
}

// errListChanged ends an attempt that was under way when UpdateServers was called.
var errListChanged = errors.New("the list of servers has changed")

// attempt connects to a server. It tries all its addresses, since one may accept connections without serving them.
func (s *session) attempt(ctx context.Context, server string) (*link, error) {
	s.mu.Lock()
	share := s.timing.connect
	s.mu.Unlock()
	addrs, err := s.addressesOf(ctx, server, share)
	if err != nil {
		return nil, err
	}
	share = max(share/time.Duration(len(addrs)), connectMin)
	var errs []error
	for _, addr := range addrs {
		l, err := s.attemptAt(ctx, server, addr, share)
		if err == nil || errors.Is(err, errRejected) || errors.Is(err, ErrAuthFailed) || ctx.Err() != nil {
			return l, err
		}
		if len(addrs) > 1 {
			err = fmt.Errorf("at %s: %w", addr, err)
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// addressesMax bounds the addresses of one name that an attempt tries.
const addressesMax = 16

// addressesOf returns the addresses to dial for a server: those that its name resolves to, or the server itself if it
// is an address or Options.Dial resolves names.
func (s *session) addressesOf(ctx context.Context, server string, within time.Duration) ([]string, error) {
	host, port, err := net.SplitHostPort(server)
	if err != nil || s.opt.lookup == nil {
		return []string{server}, nil
	}
	if _, err := netip.ParseAddr(host); err == nil {
		return []string{server}, nil
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	hosts, err := s.opt.lookup(ctx, host)
	if err != nil {
		return nil, err
	}
	if len(hosts) == 0 {
		return nil, fmt.Errorf("%s has no address", host)
	}
	addrs := make([]string, min(len(hosts), addressesMax))
	for i := range addrs {
		addrs[i] = net.JoinHostPort(hosts[i], port)
	}
	return addrs, nil
}

// attemptAt connects to a server at one of its addresses.
func (s *session) attemptAt(ctx context.Context, server, addr string, within time.Duration) (*link, error) {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	conn, err := dial(ctx, &s.opt, server, addr)
	if err != nil {
		return nil, err
	}
	req := jute.ConnectRequest{
		LastZxidSeen: s.zxidSeen, Timeout: int32(s.opt.SessionTimeout / time.Millisecond),
		SessionID: s.requestID(), Passwd: s.passwd, ReadOnly: s.opt.ReadOnly, HasReadOnly: true,
	}
	if req.SessionID == 0 {
		req.Passwd = make([]byte, jute.PasswdSize)
	}
	res, err := handshake(ctx, conn, &req)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%w: the server closed the connection; it may have no quorum, be behind this client, or be full", err)
	}
	if err == nil && res.ReadOnly && !s.opt.ReadOnly {
		err = errors.New("the server is read-only, and Options.ReadOnly is not set")
	}
	if err == nil {
		err = s.login(ctx, conn, server)
	}
	if err != nil {
		conn.Close()
		return nil, err
	}
	l, err := s.connected(conn, server, &res)
	if err != nil {
		conn.Close()
		return nil, err
	}
	s.log.Info("zookeeper: connected", "server", server, "session", fmt.Sprintf("0x%x", res.SessionID),
		"timeoutMs", res.Timeout, "readOnly", res.ReadOnly)
	return l, nil
}

// connected records a connection whose handshake has succeeded.
func (s *session) connected(conn net.Conn, server string, res *jute.ConnectResponse) (*link, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !slices.Contains(s.list.servers, server) {
		return nil, errListChanged
	}
	s.id, s.passwd = res.SessionID, slices.Clone(res.Passwd)
	s.full = s.full || !res.ReadOnly
	s.timing = timingOf(time.Duration(res.Timeout)*time.Millisecond, len(s.list.servers))
	s.connects++
	s.list.connected()
	clear(s.trouble)
	l := newLink(conn, server, s.timing)
	l.readOnly = res.ReadOnly
	s.link = l
	state := StateConnected
	if l.readOnly {
		state = StateConnectedReadOnly
	}
	s.become(StateChange{State: state, Server: server, SessionID: s.id})
	return l, nil
}
