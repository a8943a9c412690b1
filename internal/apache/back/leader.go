package back

import (
	"bufio"
	"cmp"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/jute"
)

// A Leader implements the leader's half of the learner protocol: observers take it for the leader of an Apache
// ensemble.
type Leader struct {
	id     int64   // in the observers' configuration
	logins *Logins // nil if observers don't log in
	say    func(string)

	// still is held for reading while a snapshot is sent. Only the source changes the state, holding it for writing.
	still sync.RWMutex
	state *files.State

	mu      sync.Mutex // locked after still
	zxid    int64      // of state
	epoch   int64
	history [][]byte // the newest transactions
	first   int64    // number of the first in history; numbers count up, whatever the zxids are
	before  int64    // zxid of the transaction before history
	bytes   int
	read    bool          // the log has been read up to the server's position, or was once
	life    int64         // counts the states: 1, 2, 3...
	changed chan struct{} // closed at the next change

	peers sync.Mutex
	// observers are the connected ones, by id. seen is the life of the state that an observer has received, by id.
	observers map[int64]*observer
	seen      map[int64]int64
}

// Limits on the resources of observers.
const (
	observersMax    = 16
	historyBytesMax = 64 << 20 // an observer that is further behind gets a snapshot
	helloBytesMax   = 1 << 10  // a packet's data, before an observer is admitted
	packetBytesMax  = 8 << 20  // a packet's data after that: the sessions of its clients
)

// The times that an observer has for each of its steps.
const (
	helloTime    = 10 * time.Second
	syncTime     = 10 * time.Minute // to read a snapshot, or write it to its disk
	silenceTime  = 30 * time.Second // between two answers to pings
	pingInterval = 500 * time.Millisecond
)

func newLeader(id int64, say func(string)) *Leader {
	return &Leader{
		id: id, say: say, changed: make(chan struct{}), observers: map[int64]*observer{}, seen: map[int64]int64{},
	}
}

// wake tells all observers about a change. The caller holds mu.
func (l *Leader) wake() {
	close(l.changed)
	l.changed = make(chan struct{})
}

// renew replaces the state.
func (l *Leader) renew(state *files.State, epoch int64) {
	l.still.Lock()
	defer l.still.Unlock()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.state, l.zxid, l.before, l.epoch = state, state.Zxid, state.Zxid, epoch
	l.first += int64(len(l.history))
	l.history, l.bytes = nil, 0
	l.life++
	l.wake()
}

// begin starts an epoch, unless it is the current one. Observers must then reconnect.
func (l *Leader) begin(epoch int64) {
	if epoch == l.epoch {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.epoch = epoch
	l.wake()
}

// publish applies a transaction, and queues it for the observers with the digest of the tree after it.
func (l *Leader) publish(zxid int64, record []byte) error {
	l.still.Lock()
	defer l.still.Unlock()
	if zxid <= l.state.Zxid {
		return fmt.Errorf("zxid %#x follows %#x", uint64(zxid), uint64(l.state.Zxid))
	}
	if _, err := l.state.Apply(record); err != nil {
		return err
	}
	record = files.AppendDigest(record, l.state.Digest())
	l.mu.Lock()
	defer l.mu.Unlock()
	l.zxid = zxid
	l.history = append(l.history, record)
	l.bytes += len(record)
	for l.bytes > historyBytesMax {
		l.bytes -= len(l.history[0])
		l.before = zxidOf(l.history[0])
		l.history[0] = nil
		l.history, l.first = l.history[1:], l.first+1
	}
	l.wake()
	return nil
}

// zxidOf returns the zxid of a transaction made by this package.
func zxidOf(record []byte) int64 {
	zxid, err := files.TxnZxid(record)
	if err != nil {
		panic("back: " + err.Error())
	}
	return zxid
}

// at returns the last zxid and its epoch.
func (l *Leader) at() (zxid, epoch int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.zxid, l.epoch
}

// An observer is a connected observer.
type observer struct {
	l    *Leader
	id   int64
	conn net.Conn
	in   *learner.Reader
	out  *bufio.Writer

	epoch, life int64
	next        int64 // number of the next transaction to send
	sent        int64 // zxid of the last transaction sent, or of the snapshot
	snapshot    bool  // a snapshot was sent

	mu       sync.Mutex
	answered int64     // zxid of the last ping answered
	at       time.Time // of that answer
	live     bool
}

// serve handles one connection until it ends.
func (l *Leader) serve(conn net.Conn) error {
	defer conn.Close()
	if err := l.logins.admit(conn); err != nil {
		return fmt.Errorf("on the quorum port: %w", err)
	}
	in := bufio.NewReader(conn)
	o := &observer{
		l: l, conn: conn, in: &learner.Reader{R: in, Max: helloBytesMax}, out: bufio.NewWriterSize(conn, 64<<10),
	}
	last, err := o.greet(in)
	if err != nil {
		return err
	}
	if err := l.behind(o.id, last); err != nil {
		return err
	}
	if err := l.enter(o); err != nil {
		return err
	}
	defer l.leave(o)
	if err := o.sync(last); err != nil {
		return fmt.Errorf("observer %d: %w", o.id, err)
	}
	how := "what it missed"
	if o.snapshot {
		how = "a snapshot"
	}
	l.say(fmt.Sprintf("observer %d received %s and follows in epoch %d", o.id, how, o.epoch))
	ended := make(chan error, 1)
	go func() { ended <- o.read() }()
	err = o.lead(ended)
	return fmt.Errorf("observer %d: %w", o.id, err)
}

// errNotRead says that the log hasn't been read up to the server's position yet, as for a moment after a start. Until
// then an observer's data can't be judged.
var errNotRead = errors.New("the log hasn't been read yet")

// hasRead records that the log has been read up to the server's position.
func (l *Leader) hasRead() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.read = true
}

// unread returns errNotRead until the log has been read, err afterwards.
func (l *Leader) unread(err error) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.read {
		return errNotRead
	}
	return err
}

// behind returns an error if the leader's state is older than the observer's. A snapshot of that state would leave the
// observer with overlapping logs: Apache reads them one after another when it starts, and would apply some transactions
// twice.
func (l *Leader) behind(id, last int64) error {
	if zxid, _ := l.at(); last > zxid {
		return l.unread(fmt.Errorf("observer %d is at zxid %#x, but the log has been read only to %#x: it has to wait. If this doesn't end, its directory has another history: empty it",
			id, uint64(last), uint64(zxid)))
	}
	return nil
}

// enter admits an observer. It closes an older connection with the same id: the observer has reconnected.
func (l *Leader) enter(o *observer) error {
	l.peers.Lock()
	defer l.peers.Unlock()
	if old := l.observers[o.id]; old != nil {
		old.conn.Close()
	} else if len(l.observers) == observersMax {
		return fmt.Errorf("observer %d: there are %d already", o.id, observersMax)
	}
	l.observers[o.id] = o
	return nil
}

func (l *Leader) leave(o *observer) {
	l.peers.Lock()
	defer l.peers.Unlock()
	if l.observers[o.id] == o {
		delete(l.observers, o.id)
	}
}

func (o *observer) within(d time.Duration) error { return o.conn.SetDeadline(time.Now().Add(d)) }

func (o *observer) send(packets ...learner.Packet) error {
	for i := range packets {
		if _, err := o.out.Write(packets[i].Append(nil)); err != nil {
			return err
		}
	}
	return nil
}

// expect reads a packet and fails unless it has this type.
func (o *observer) expect(want learner.Type) (learner.Packet, error) {
	p, err := o.in.Next()
	if err == nil && p.Type != want {
		err = fmt.Errorf("it sends %v; want %v", p.Type, want)
	}
	return p, err
}

const protocolVersion = 0x10000

// greet agrees on the epoch, and returns the observer's last zxid.
func (o *observer) greet(in *bufio.Reader) (last int64, err error) {
	if err := o.within(helloTime); err != nil {
		return 0, err
	}
	if head, err := in.Peek(4); err == nil && learner.BeginsLogin([4]byte(head)) {
		return 0, fmt.Errorf("an observer %w", errLogin)
	}
	hello, err := o.expect(learner.ObserverHello)
	if err != nil {
		return 0, err
	}
	d := jute.NewDecoder(hello.Data)
	if o.id = d.Long(); d.Err() != nil || d.Int() < protocolVersion || d.Err() != nil {
		return 0, errors.New("it speaks a protocol older than Apache 3.4's")
	}
	_, o.epoch = o.l.at()
	if accepted := hello.Zxid >> 32; accepted > o.epoch || o.epoch == 0 {
		return 0, o.l.unread(fmt.Errorf("observer %d has promised epoch %d to another leader, but Zooid is in epoch %d: its directory has another history; empty it",
			o.id, accepted, o.epoch))
	}
	err = o.send(
		learner.Packet{Type: learner.LeaderHello, Zxid: o.epoch << 32, Data: jute.AppendInt(nil, protocolVersion)})
	if err = errors.Join(err, o.out.Flush()); err != nil {
		return 0, err
	}
	ack, err := o.expect(learner.AckEpoch)
	return ack.Zxid, err
}

// sync brings an observer up to date.
func (o *observer) sync(last int64) error {
	o.in.Max = packetBytesMax
	if err := o.within(syncTime); err != nil {
		return err
	}
	if err := o.catchUp(last); err != nil {
		return err
	}
	err := o.send(learner.Packet{Type: learner.NewLeader, Zxid: o.epoch << 32})
	if err = errors.Join(err, o.out.Flush()); err != nil {
		return err
	}
	for { // it may send pings of its own before
		p, err := o.in.Next()
		if err != nil {
			return err
		}
		if p.Type == learner.Ack && p.Zxid == o.epoch<<32 {
			break
		}
	}
	err = o.send(learner.Packet{Type: learner.UpToDate, Zxid: -1})
	return errors.Join(err, o.out.Flush())
}

// errEpoch says that another epoch or another state has begun.
var errEpoch = errors.New("another epoch or state has begun")

// catchUp sends the data that the observer lacks: transactions if all its data came from this leader, else a snapshot.
func (o *observer) catchUp(last int64) error {
	l := o.l
	l.still.RLock()
	defer l.still.RUnlock()
	missing, ok, err := o.begin(last)
	if err != nil {
		return err
	}
	if o.snapshot = !ok; o.snapshot {
		err = errors.Join(o.send(learner.Packet{Type: learner.Snap, Zxid: o.sent}), l.state.Send(o.out))
	} else {
		err = o.send(learner.Packet{Type: learner.Diff, Zxid: o.sent})
	}
	for i := 0; err == nil && i < len(missing); i++ {
		zxid := zxidOf(missing[i])
		err = o.send(learner.Packet{Type: learner.Proposal, Zxid: zxid, Data: missing[i]},
			learner.Packet{Type: learner.Commit, Zxid: zxid})
	}
	if err = errors.Join(err, o.out.Flush()); err != nil {
		return err
	}
	l.peers.Lock()
	defer l.peers.Unlock()
	l.seen[o.id] = o.life
	return nil
}

// begin returns the transactions after last, which an observer lacks; ok is false if it needs a snapshot instead. The
// snapshot includes these transactions, and sending them too would do harm. When Apache replays the delete of a znode
// that the snapshot has because it was created again, it forgets the children in the snapshot; when it then replays
// their creates, it finds them there already.
func (o *observer) begin(last int64) (missing [][]byte, ok bool, err error) {
	l := o.l
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.epoch != o.epoch {
		return nil, false, errEpoch
	}
	o.life, o.sent, o.next = l.life, l.zxid, l.first+int64(len(l.history))
	l.peers.Lock()
	ok = l.seen[o.id] == l.life
	delete(l.seen, o.id) // until it has everything
	l.peers.Unlock()
	from := slices.IndexFunc(l.history, func(record []byte) bool { return zxidOf(record) > last })
	if from < 0 {
		from = len(l.history)
	}
	at := l.before
	if from > 0 {
		at = zxidOf(l.history[from-1])
	}
	if !ok || at != last {
		return nil, false, nil
	}
	return slices.Clone(l.history[from:]), true, nil
}

// lead sends new transactions, and pings, until the connection ends.
func (o *observer) lead(ended <-chan error) error {
	ping := time.NewTicker(pingInterval)
	defer ping.Stop()
	for {
		changed, err := o.news()
		if err != nil {
			return err
		}
		select {
		case err := <-ended:
			return err
		case <-changed:
		case <-ping.C:
			if err := errors.Join(o.conn.SetWriteDeadline(time.Now().Add(silenceTime)),
				o.send(learner.Packet{Type: learner.Ping, Zxid: o.sent}), o.out.Flush()); err != nil {
				return err
			}
		}
	}
}

// newsMax is how many transactions are taken from the history at once.
const newsMax = 1024

// news sends the new transactions, and returns a channel that is closed when there are more.
func (o *observer) news() (<-chan struct{}, error) {
	l := o.l
	for {
		l.mu.Lock()
		changed := l.changed
		var records [][]byte
		at := o.next - l.first
		fine := at >= 0 && o.epoch == l.epoch && o.life == l.life
		if fine {
			records = slices.Clone(l.history[at:min(at+newsMax, int64(len(l.history)))])
		}
		l.mu.Unlock()
		if !fine {
			return nil, errEpoch
		}
		if len(records) == 0 {
			return changed, o.out.Flush()
		}
		if err := o.conn.SetWriteDeadline(time.Now().Add(silenceTime)); err != nil {
			return nil, err
		}
		for _, record := range records {
			o.next, o.sent = o.next+1, zxidOf(record)
			if err := o.send(learner.Packet{Type: learner.Inform, Zxid: o.sent, Data: record}); err != nil {
				return nil, err
			}
		}
	}
}

// read reads packets from the observer. It doesn't answer requests of the observer's clients: telling a session that it
// has expired would lose it for Zooid too.
func (o *observer) read() error {
	for {
		if err := o.conn.SetReadDeadline(time.Now().Add(silenceTime)); err != nil {
			return err
		}
		p, err := o.in.Next()
		switch {
		case err != nil:
			return err
		case p.Type == learner.Ping:
			o.mu.Lock()
			o.answered, o.at, o.live = p.Zxid, time.Now(), true
			o.mu.Unlock()
		case p.Type != learner.Ack && p.Type != learner.Request && p.Type != learner.Revalidate:
			return fmt.Errorf("it sends %v", p.Type)
		}
	}
}

// renewAll makes all observers connect again to get a snapshot of the state, and returns the ids of those that have
// followed.
func (l *Leader) renewAll() (ids []int64) {
	for _, p := range l.peersNow() {
		ids = append(ids, p.ID)
	}
	_, epoch := l.at()
	l.renew(l.state, epoch)
	return ids
}

// reached returns the ids of all observers, and of those that have this state up to a zxid.
func (l *Leader) reached(zxid int64) (all, have []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.peers.Lock()
	defer l.peers.Unlock()
	for id, o := range l.observers { // the caller sorts
		all = append(all, id)
		o.mu.Lock()
		if o.life == l.life && o.live && o.answered >= zxid {
			have = append(have, id)
		}
		o.mu.Unlock()
	}
	return all, have
}

// peersNow returns the connected observers, by id.
func (l *Leader) peersNow() (all []Peer) {
	l.peers.Lock()
	defer l.peers.Unlock()
	for id, o := range l.observers { // sorted below
		host, _, err := net.SplitHostPort(o.conn.RemoteAddr().String())
		if err != nil {
			continue
		}
		o.mu.Lock()
		if o.live {
			all = append(all, Peer{ID: id, Host: host, Zxid: o.answered, At: o.at})
		}
		o.mu.Unlock()
	}
	slices.SortFunc(all, func(a, b Peer) int { return cmp.Compare(a.ID, b.ID) })
	return all
}
