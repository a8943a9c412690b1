package follow

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
)

// Options say whom to follow, and where the copy is kept.
type Options struct {
	// Dir becomes an Apache dataDir, with version-2 in it. It must be new or empty, or a copy that Zooid keeps
	// (proof.Copy).
	Dir string
	// Ensemble is how the operator names the ensemble, for the mark in Dir.
	Ensemble string
	// Adopt takes a copy in Dir that a version without marks has made.
	Adopt bool
	// Look writes nothing in Dir: the copy is brought up to date in memory.
	Look bool
	// ID is the follower's id among the servers. No server may have it.
	ID int64
	// Config returns the ensemble's configuration. It is used until the leader sends one.
	Config func(ctx context.Context) (string, error)
	// Dial connects to a quorum port.
	Dial func(ctx context.Context, address string) (net.Conn, error)
	// Say reports to the operator what happened.
	Say func(text string)
	// Silence is how long a leader may say nothing. 0 means SilenceDefault.
	Silence time.Duration
	// ReceivedMax bounds a snapshot that a leader sends, in bytes; 0 means files.ReceivedBytesMax.
	ReceivedMax int64
}

// SilenceDefault is how long a leader may send nothing: it pings every half tick, but at its start it waits for a
// quorum.
const SilenceDefault = 20 * time.Second

// A Follower maintains a copy of an ensemble's data.
type Follower struct {
	o    Options
	keep *keeper

	current int64    // epoch of the leader that was followed last
	last    string   // that leader's address
	vain    []string // addresses at which something listened and didn't lead, since a leader was followed
	anew    bool     // everything must be received from the leader again
	newest  lastTxn

	// mu guards the following fields. The following goroutine changes them; clients read them.
	mu       sync.RWMutex
	accepted int64 // the highest epoch that was promised to a leader
	members  []learner.Member
	version  int64 // of the configuration
	weighted bool  // servers have weights or are in groups
	state    *files.State
	at       Status
	since    time.Time // when the copy last had everything that was proposed
	// clients are served from the state; nil if none are.
	clients *Server
}

// A Mismatch says that the tree's digest differs from the leader's.
type Mismatch struct {
	Zxid         int64
	Leader, Here uint64 // digests
}

// Status says how far a follower is.
type Status struct {
	Leader     string // address of the current leader; "" for none
	Live       bool   // the copy has everything that the leader had when it was found
	Epoch      int64
	Zxid       int64 // of the last applied transaction
	Behind     int64 // transactions that the leader has proposed and the copy lacks
	Lag        time.Duration
	Znodes     int
	Sessions   int
	Digest     uint64
	Compared   int64 // the leader's digests that were compared
	Mismatch   *Mismatch
	Applied    int64 // transactions since the start
	Elections  int   // leaders that were followed since the start
	Snapshots  int   // received from leaders
	LastFailed error // why there is no leader
	Failed     int   // attempts to follow one since the last that succeeded
	Ended      error // why nobody is followed any more, such as a full disk; nil as long as that isn't so
}

// Open opens the copy in a directory, or starts one there.
func Open(o Options) (*Follower, error) {
	if o.Silence == 0 {
		o.Silence = SilenceDefault
	}
	if o.ReceivedMax == 0 {
		o.ReceivedMax = files.ReceivedBytesMax
	}
	k, state, err := openKeeper(&o)
	if err != nil {
		return nil, err
	}
	f := &Follower{o: o, keep: k, state: state, newest: k.last, since: time.Now()}
	if f.accepted, f.current, err = k.promised(); err != nil {
		return nil, errors.Join(err, k.close())
	}
	f.at.Zxid = state.Zxid
	return f, nil
}

// Status returns the follower's status.
func (f *Follower) Status() Status {
	f.mu.RLock()
	defer f.mu.RUnlock()
	s := f.at
	s.Znodes, s.Sessions, s.Digest, s.Zxid = f.state.Len(), len(f.state.Sessions), f.state.Digest(), f.state.Zxid
	if s.Leader == "" || s.Behind > 0 || !s.Live {
		s.Lag = time.Since(f.since)
	}
	return s
}

// The pauses between two attempts to find a leader.
const (
	retryMin = 100 * time.Millisecond
	retryMax = 2 * time.Second
)

// Run follows one leader after another until ctx ends. An error concerns the directory.
func (f *Follower) Run(ctx context.Context) error {
	pause := retryMin
	for ctx.Err() == nil {
		live, err := f.once(ctx)
		if errors.Is(err, errAnother) {
			err = f.keep.fail(err)
		}
		if f.keep.err != nil {
			f.mu.Lock()
			f.at.Leader, f.at.Live, f.at.Ended = "", false, f.keep.err
			f.mu.Unlock()
			break
		}
		f.lost(ctx, err)
		if errors.Is(err, learner.ErrStartOver) || errors.Is(err, errState) {
			f.anew = true
		}
		if pause = min(2*pause, retryMax); live {
			pause = retryMin
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
	}
	return f.keep.close()
}

// lost notes that there is no leader.
func (f *Follower) lost(ctx context.Context, err error) {
	f.mu.Lock()
	before := f.at.LastFailed
	had := f.at.Leader
	f.at.Leader, f.at.Live, f.at.LastFailed = "", false, err
	f.at.Failed++
	f.mu.Unlock()
	if ctx.Err() == nil && (had != "" || before == nil || before.Error() != err.Error()) {
		f.o.Say(err.Error())
	}
}

// once follows one leader until the connection ends.
func (f *Follower) once(ctx context.Context) (live bool, err error) {
	if len(f.members) == 0 {
		text, err := f.o.Config(ctx)
		if err != nil {
			return false, err
		}
		if err := f.configure([]byte(text)); err != nil {
			return false, err
		}
	}
	conn, address, err := f.dial(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	stop := context.AfterFunc(ctx, func() { conn.Close() })
	defer stop()
	s := &session{f: f, conn: &timedConn{conn, f.o.Silence}, address: address}
	if err = s.run(); !s.live || errors.Is(err, os.ErrDeadlineExceeded) {
		f.vain = append(slices.DeleteFunc(f.vain, func(a string) bool { return a == address }), address)
	}
	return s.live, fmt.Errorf("following %s: %w", address, err)
}

// configure applies the ensemble's configuration.
func (f *Follower) configure(text []byte) error {
	members, version, err := learner.ParseConfig(string(text))
	if err != nil {
		return fmt.Errorf("read the ensemble's configuration: %w", err)
	}
	if !slices.ContainsFunc(members, func(m learner.Member) bool { return !m.Observer }) {
		return errors.New("the configuration names no server that may lead, and a standalone server can't be followed: give a zoo.cfg with an ensemble's server lines")
	}
	f.mu.Lock()
	f.members, f.version, f.weighted = members, version, learner.Weighted(string(text))
	f.mu.Unlock()
	return nil
}

// dialTimeout is how long connecting to one quorum port may take.
const dialTimeout = 2 * time.Second

// dial finds the leader: it is the only voter that listens on its quorum port, except for a former leader that hangs.
// So those at which following has failed are tried last, the latest of them at the very end.
func (f *Follower) dial(ctx context.Context) (net.Conn, string, error) {
	var addresses []string
	for _, m := range f.members {
		if !m.Observer {
			addresses = append(addresses, m.Quorum...)
		}
	}
	rank := func(address string) int {
		if at := slices.Index(f.vain, address); at >= 0 || address != f.last {
			return at
		}
		return -2 // nothing has failed there
	}
	slices.SortStableFunc(addresses, func(a, b string) int { return rank(a) - rank(b) })
	failed := errors.New("no server leads now")
	for _, address := range addresses {
		one, cancel := context.WithTimeout(ctx, dialTimeout)
		conn, err := f.o.Dial(one, address)
		cancel()
		if err == nil {
			f.last = address
			return conn, address, nil
		}
		if errors.Is(err, io.EOF) { // in the handshake of TLS, or the login
			err = fmt.Errorf("%s ends the connection: %w. If this goes on, its quorum port uses no TLS, or refuses this login",
				address, err)
		}
		failed = fmt.Errorf("%w; %w", failed, err) // one line
	}
	return nil, "", failed
}

// timedConn fails if a read or a write takes too long.
type timedConn struct {
	net.Conn
	silence time.Duration
}

// Read reads, with a deadline.
func (c *timedConn) Read(p []byte) (int, error) {
	if err := c.SetReadDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

// Write writes, with a deadline.
func (c *timedConn) Write(p []byte) (int, error) {
	if err := c.SetWriteDeadline(time.Now().Add(c.silence)); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}

// errState is the error for a transaction that can't be applied.
var errState = errors.New("the leader's data doesn't fit the copy")

// session is one connection to a leader.
type session struct {
	f       *Follower
	conn    io.ReadWriter
	address string
	l       *learner.Learner
	in      *learner.Reader
	next    *files.State // received, and fuzzy until takeOver; nil for none
	expects []byte       // the transaction that the leader must send first; nil for any
	live    bool
}

func (s *session) run() error {
	f := s.f
	o := learner.Options{
		ID: f.o.ID, AcceptedEpoch: f.accepted, CurrentEpoch: f.current, Zxid: f.state.Zxid, ConfigVersion: f.version,
	}
	if f.newest.record != nil {
		o.Zxid, s.expects = f.newest.before, f.newest.record
	}
	if f.anew {
		s.expects = nil
		o.Zxid, o.CurrentEpoch = 0, 0
		s.next = files.NewLive()
	}
	var send []byte
	s.l, send = learner.New(o)
	if _, err := s.conn.Write(send); err != nil {
		return err
	}
	s.in = &learner.Reader{R: bufio.NewReaderSize(s.conn, 256<<10)}
	for began := false; ; began = true {
		p, err := s.in.Next()
		if err != nil && !began && !errors.Is(err, os.ErrDeadlineExceeded) {
			return fmt.Errorf("%w: it answers nothing. If this goes on, its quorum port requires TLS (-peer-tls-…) or a login (-peer-sasl-…)",
				err)
		}
		if err != nil {
			return err
		}
		step, err := s.l.Step(&p)
		if err != nil {
			return err
		}
		if err := s.take(&step); err != nil {
			return err
		}
	}
}

// take carries out what a step asks for.
func (s *session) take(step *learner.Step) error {
	f := s.f
	if step.Accept != 0 {
		f.mu.Lock()
		f.accepted = step.Accept
		f.mu.Unlock()
		if err := f.keep.epochs(f.accepted, f.current); err != nil {
			return err
		}
	}
	if step.Snapshot {
		if err := s.receive(); err != nil {
			return err
		}
	}
	for _, record := range step.Records {
		if err := s.apply(record); err != nil {
			return err
		}
	}
	if step.Current != 0 {
		if err := s.known(step.Announced); err != nil {
			return err
		}
		if err := s.takeOver(step.Current); err != nil {
			return err
		}
	}
	if len(step.Config) > 0 {
		if err := f.configure(step.Config); err != nil {
			return err
		}
	}
	if step.Live {
		s.goLive()
	}
	if step.Proposed != 0 {
		if err := s.ping(step.Proposed); err != nil {
			return err
		}
	}
	if len(step.Send) == 0 {
		return nil
	}
	_, err := s.conn.Write(step.Send)
	return err
}

// receive reads a snapshot from the leader.
func (s *session) receive() error {
	s.f.o.Say("the leader sends a snapshot")
	state, rest, err := files.Receive(s.in.R, s.f.o.ReceivedMax, nil)
	if err != nil {
		return err
	}
	state.Zxid = s.l.Zxid()
	s.next, s.expects = state, nil
	s.in.R = bufio.NewReaderSize(rest, 256<<10)
	return nil
}

// apply applies a transaction. Transactions that belong to a received snapshot aren't logged: the file written from it
// includes them.
func (s *session) apply(record []byte) error {
	f := s.f
	if s.next != nil {
		if _, err := s.next.Apply(record); err != nil {
			return fmt.Errorf("%w: %w", errState, err)
		}
		return nil
	}
	if s.expects != nil {
		return s.recognize(record)
	}
	if err := f.keep.append(f.state, record); err != nil {
		return err
	}
	f.newest = lastTxn{append(f.newest.record[:0], record...), f.state.Zxid}
	f.mu.Lock()
	done, err := f.state.Apply(record)
	f.at.Applied++
	if f.at.Behind > 0 {
		f.at.Behind--
	}
	if done.Compared && err == nil {
		f.at.Compared++
		if here := f.state.Digest(); here != done.Digest && f.at.Mismatch == nil {
			f.at.Mismatch = &Mismatch{done.Zxid, done.Digest, here}
			defer f.o.Say(fmt.Sprintf("the digests differ at zxid %#x: the leader's is %#x, the copy's is %#x",
				uint64(done.Zxid), done.Digest, here))
		}
	}
	f.mu.Unlock()
	if err != nil {
		return fmt.Errorf("%w: %w", errState, err)
	}
	return nil
}

// takeOver installs the state that the leader has sent, on disk first.
func (s *session) takeOver(epoch int64) error {
	f := s.f
	if s.next != nil {
		if err := s.next.Settled(); err != nil {
			return fmt.Errorf("%w: %w", errState, err)
		}
		if err := f.keep.replace(s.next); err != nil {
			return err
		}
		f.mu.Lock()
		f.state, f.at.Mismatch = s.next, nil
		f.at.Snapshots++
		if f.clients != nil {
			f.state.Changed = f.clients.changed
			f.clients.drop() // watches can't report what differs now
		}
		f.mu.Unlock()
		s.next, f.anew, f.newest = nil, false, lastTxn{}
	} else if err := f.keep.begin(f.state); err != nil {
		return err
	}
	f.current = epoch
	return f.keep.epochs(f.accepted, f.current)
}

func (s *session) goLive() {
	f := s.f
	f.mu.Lock()
	f.at.Leader, f.at.Live, f.at.Epoch, f.at.LastFailed, f.at.Behind = s.address, true, f.current, nil, 0
	f.at.Elections++
	f.at.Failed = 0
	f.since = time.Now()
	zxid := f.state.Zxid
	f.mu.Unlock()
	s.live, f.vain = true, nil
	f.o.Say(fmt.Sprintf("following %s in epoch %d from zxid %#x on", s.address, f.current, uint64(zxid)))
}

// ping notes how far the leader is, and lets the keeper write to disk.
func (s *session) ping(proposed int64) error {
	f := s.f
	f.mu.Lock()
	f.at.Behind = behind(f.state.Zxid, proposed)
	if f.at.Behind == 0 {
		f.since = time.Now()
	}
	f.mu.Unlock()
	return f.keep.sync()
}

// behind returns how many transactions are missing. Each epoch counts from 1.
func behind(zxid, proposed int64) int64 {
	if zxid>>32 == proposed>>32 {
		return max(proposed-zxid, 0)
	}
	if proposed < zxid {
		return 0
	}
	return proposed & 0xffffffff
}
