package back

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// Options select the data to read, and the observers that may receive it.
type Options struct {
	Dirs []string // a data directory, and the log's if it is separate
	// Reconfigure evaluates reconfig requests as the server does.
	Reconfigure tree.Reconfigure
	// Ask asks the server that has the directories; it fails if none answers.
	Ask func(context.Context) (Answer, error)
	// ID is Zooid's id in the observers' configuration.
	ID int64
	// Quorum and Election are the listeners. From are the addresses that may connect to them.
	Quorum, Election net.Listener
	From             []netip.Addr
	// TLS configures TLS on both ports; nil means plain text.
	TLS *tls.Config
	// Logins say how observers log in on both ports; nil if they don't.
	Logins *Logins
	// Say reports progress.
	Say func(string)
	// Watch, if not nil, is called with the progress some fifty times a second.
	Watch func(Progress)
	// Whole, if not nil, reports whether the server's log is known to have everything that the ensemble has acknowledged,
	// even if the server didn't lead at its last answer. That is so if it led after so many others had stopped that each
	// majority of the rest needs it.
	Whole func() bool
	// Stopped says that the server has stopped, so that everything in its log counts, as at the end. The server may have
	// applied more than the log marks as committed, and the observers may have that already.
	Stopped bool
	// Held says that the caller holds the directories at the end.
	Held bool
}

// A Progress says how far the server and the observers are.
type Progress struct {
	Answer           // of the server; Mode is empty if it didn't answer
	Read      int64  // zxid up to which its log was read
	Observers []Peer // the connected observers, by id
}

// A Peer is a connected observer.
type Peer struct {
	ID   int64
	Host string    // its address
	Zxid int64     // up to which it has everything
	At   time.Time // of its last answer
}

// A Done describes the observers' data at the end.
type Done struct {
	Zxid      int64
	Digest    uint64 // Apache's digest of the observers' tree and of Zooid's
	Znodes    int
	Sessions  int
	Strangers int     // sessions with passwords that Apache refuses
	End       int64   // zxid at which the server's log ends: each term begins another epoch
	Members   string  // the Zooid ensemble's membership at the end; "" for a standalone server
	Observers []int64 // those that have everything
}

const (
	pollInterval = 20 * time.Millisecond
	// finishTime is how long the server may take to say that it has stopped, and an observer to connect again at the end.
	// A connected observer has syncTime for its snapshot.
	finishTime = time.Minute
	// connectionsMax bounds the connections on both ports: an observer has one on each, and for a moment also old ones.
	connectionsMax = 4 * observersMax
)

// Run leads observers until ctx ends. By then the server must have stopped: the observers get the rest of its log, and
// Done describes their data. An error means that they lack something, or that this is unknown.
func Run(ctx context.Context, o Options) (Done, error) {
	s := &source{dirs: o.Dirs, reconfigure: o.Reconfigure, say: o.Say, leader: newLeader(o.ID, o.Say)}
	s.leader.logins = o.Logins
	defer func() { s.close() }()
	if err := reopen(ctx, s); err != nil {
		return Done{}, err
	}
	if o.Stopped {
		if _, err := s.poll(ctx, nil); err != nil {
			return Done{}, err
		}
		s.leader.hasRead()
	}
	var wait sync.WaitGroup
	defer wait.Wait()
	open := newConnections()
	defer open.close()
	for _, port := range []struct {
		net.Listener
		serve func(net.Conn) error
	}{{o.Quorum, s.leader.serve}, {o.Election, s.leader.elect}} {
		defer socket.CloseListener(port.Listener)
		wait.Go(func() { accept(port.Listener, &o, open, port.serve) })
	}
	mode, err := readOn(ctx, s, &o)
	if err != nil {
		return Done{}, err
	}
	return finish(s, &o, mode)
}

// readOn reads the log until ctx ends, and returns the server's mode in its last answer.
func readOn(ctx context.Context, s *source, o *Options) (mode string, err error) {
	for ctx.Err() == nil {
		a, err := s.poll(ctx, o.Ask)
		if a.Mode != "" {
			mode = a.Mode
		}
		if err == nil && a.Mode != "" && s.tree.LastZxid() >= a.Zxid {
			s.leader.hasRead()
		}
		if o.Watch != nil && err == nil {
			o.Watch(Progress{Answer: a, Read: s.leader.state.Zxid, Observers: s.leader.peersNow()})
		}
		if errors.Is(err, storage.ErrTailLost) || errors.Is(err, errAgain) {
			o.Say(err.Error())
			err = reopen(ctx, s)
		}
		if err != nil {
			return mode, err
		}
		select {
		case <-ctx.Done():
		case <-time.After(pollInterval):
		}
	}
	return mode, nil
}

// openTries is how often reading is restarted because the server removed the files meanwhile.
const openTries = 10

// reopen opens a source, again if need be.
func reopen(ctx context.Context, s *source) (err error) {
	for range openTries {
		if err = s.open(); err == nil || !errors.Is(err, storage.ErrTailLost) && !errors.Is(err, errAgain) {
			return err
		}
		select {
		case <-ctx.Done():
			return err
		case <-time.After(pollInterval):
		}
	}
	return err
}

// finish hands the observers the end of the log, and then a snapshot of the whole state. Apache takes its own snapshots
// while it applies transactions, so they show no single instant. When Apache starts on such a snapshot, a znode that
// was deleted, created again and given children meanwhile loses these children. The snapshot sent here shows a single
// instant. It also has the transactions that an observer has applied but not yet written to its log.
func finish(s *source, o *Options, mode string) (Done, error) {
	ctx, cancel := context.WithTimeout(context.Background(), finishTime)
	defer cancel()
	if _, err := o.Ask(ctx); err == nil {
		return Done{}, errors.New("the Zooid server still answers, and the observers would miss what it does from now on. Stop the server first, then this command")
	}
	if !o.Held { // a server that hangs doesn't answer, either
		for _, dir := range o.Dirs {
			lock, err := storage.OS{}.Lock(dir)
			if err != nil {
				return Done{}, fmt.Errorf("the Zooid server doesn't answer, but hasn't stopped: %w. Stop it first, then this command",
					err)
			}
			defer lock.Close()
		}
	}
	if mode != "leader" && mode != "standalone" && (o.Whole == nil || !o.Whole()) {
		return Done{}, fmt.Errorf("the server's mode was %q in its last answer, but only the leader's log is complete. Run zooid export on the leader's directory",
			mode)
	}
	if _, err := s.poll(ctx, nil); err != nil {
		return Done{}, err
	}
	s.leader.hasRead()
	if err := storage.Describe(io.Discard, nil, o.Dirs...); err != nil {
		return Done{}, err
	}
	l := s.leader
	done := Done{Zxid: l.state.Zxid, Digest: l.state.Digest(), Znodes: l.state.Len(), Sessions: len(l.state.Sessions),
		End: s.tree.LastZxid()}
	done.Members, _ = s.tree.Membership().Members()
	if digest := apache.ApacheDigest(s.tree); digest != done.Digest || done.Znodes != s.tree.NodeCount() {
		return done, fmt.Errorf("the observers' tree has the digest %#x and %d znodes, but Zooid's has %#x and %d: use zooid export",
			done.Digest, done.Znodes, digest, s.tree.NodeCount())
	}
	s.tree.Sessions().All(func(session tree.Session) bool {
		if session.Passwd != files.Passwd(session.ID) {
			done.Strangers++
		}
		return true
	})
	want, began := l.renewAll(), time.Now()
	for {
		all, have := l.reached(done.Zxid)
		slices.Sort(have)
		took := time.Since(began)
		if done.Observers = have; ended(want, all, have, took > finishTime) {
			return done, nil
		}
		if took > syncTime || took > finishTime && len(all) == 0 {
			slices.Sort(all)
			return done, fmt.Errorf("of the connected observers %d, only %d have all data", all, have)
		}
		time.Sleep(pollInterval)
	}
}

// ended reports whether all connected observers have everything, and the wanted ones are connected. If late is set, it
// doesn't wait for wanted ones that aren't connected.
func ended(want, connected, have []int64, late bool) bool {
	away := func(id int64) bool { return !slices.Contains(connected, id) }
	return len(have) > 0 && len(have) == len(connected) && (late || !slices.ContainsFunc(want, away))
}

// connections holds the open connections.
type connections struct {
	mu     sync.Mutex
	open   map[net.Conn]bool
	closed bool
}

func newConnections() *connections { return &connections{open: map[net.Conn]bool{}} }

func (c *connections) add(conn net.Conn) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed || len(c.open) == connectionsMax {
		return false
	}
	c.open[conn] = true
	return true
}

func (c *connections) remove(conn net.Conn) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.open, conn)
}

func (c *connections) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	for conn := range c.open { // all of them
		conn.Close()
	}
}

// accept serves connections from the permitted addresses.
func accept(l net.Listener, o *Options, open *connections, serve func(net.Conn) error) {
	var wait sync.WaitGroup
	defer wait.Wait()
	for {
		conn, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			time.Sleep(pollInterval)
			continue
		}
		peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		if err != nil || !slices.Contains(o.From, peer.Addr().Unmap()) || !open.add(conn) {
			conn.Close()
			continue
		}
		wait.Go(func() {
			defer open.remove(conn)
			spoken := conn
			if o.TLS != nil {
				spoken = tls.Server(conn, o.TLS) // whose handshake comes with the first read, which has a deadline
			}
			if err := serve(spoken); err != nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, errNotRead) {
				o.Say(err.Error())
			}
		})
	}
}

// ParseAnswer reads the answer to srvr.
func ParseAnswer(text string) (a Answer, err error) {
	for line := range strings.Lines(text) {
		fmt.Sscanf(line, "Zxid: 0x%x", &a.Zxid)
		fmt.Sscanf(line, "Mode: %s", &a.Mode)
	}
	if a.Mode == "" {
		return a, errors.New("its answer to srvr has no mode")
	}
	return a, nil
}
