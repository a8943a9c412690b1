package crash

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

// lockPrefix is how the paths of locks begin.
const lockPrefix = "/lock-"

// A lock is an ephemeral znode that one client holds and another waits for.
type lock struct {
	path    string
	timeout time.Duration
	home    int // the server on which its holder begins
	holder  *lockHolder
	rival   *rival

	heldRecord
}

// lost reports whether the holder's session was ended.
func (l *lock) lost() bool { return l.taken > 0 || !l.holder.expired.IsZero() }

// takeLock has a client of a server take a lock, and another one wait for it on another server.
func (r *Run) takeLock(t *testing.T, home, other int, timeout time.Duration) *lock {
	t.Helper()
	if home == other {
		other = (home + 1) % 3
	}
	addrs := r.Addrs()
	from := func(i int) []string { return slices.Concat(addrs[i:], addrs[:i]) }
	l := &lock{path: fmt.Sprintf("%s%d", lockPrefix, time.Now().UnixNano()), timeout: timeout, home: home}
	l.holder = hold(t, r.journal, l.path, timeout, from(home)...)
	l.rival = waitFor(t, r.journal, l.path, from(other)...)
	return l
}

// settle waits until the holder has been told, after a moment, whether it still holds the lock.
func (l *lock) settle(t *testing.T, after time.Time) {
	t.Helper()
	for deadline := time.Now().Add(healPatience); ; time.Sleep(readyPause) {
		l.holder.mu.Lock()
		told := l.holder.told.After(after) || !l.holder.expired.IsZero()
		l.holder.mu.Unlock()
		if told {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the holder of %s has not been answered for %v", l.path, healPatience)
		}
	}
}

// A lockHolder is a client that holds an ephemeral znode, as one that holds a lock does, and asks for it
// again and again. It sends pings while an answer is due. It begins on one server, and goes to others if its
// connection ends.
type lockHolder struct {
	path    string
	timeout time.Duration
	c       *traffic.Client
	stop    chan struct{}
	wg      sync.WaitGroup

	mu       sync.Mutex
	answered time.Time // when it was last told that its znode is there
	told     time.Time // when it was last told anything of it
	expired  time.Time // when it was told that its session is over
	moves    int       // connections after the first
}

// hold makes a client of the first of addrs hold path.
func hold(t *testing.T, j *history.Journal, path string, timeout time.Duration, addrs ...string) *lockHolder {
	t.Helper()
	h := &lockHolder{
		path: path, timeout: timeout, stop: make(chan struct{}),
		c: traffic.NewClient(j, traffic.ClientOptions{Timeout: timeout}, addrs...),
	}
	if err := connect(h.c); err != nil {
		t.Fatal(err)
	}
	if call, err := createEphemeral(h.c, path); err != nil || call.Err != jute.OK {
		t.Fatalf("create %s: %v", path, err)
	}
	h.wg.Go(h.run)
	return h
}

func createEphemeral(c *traffic.Client, path string) (*traffic.Call, error) {
	q := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeEphemeral}
	return c.Do(jute.OpCreate, q.Append(nil))
}

// exists asks a client's server for a znode.
func exists(c *traffic.Client, path string) (there bool, err error) {
	q := jute.PathWatchRequest{Path: path}
	call, err := c.Do(jute.OpExists, q.Append(nil))
	return err == nil && call.Err == jute.OK, err
}

func (h *lockHolder) run() {
	for {
		select {
		case <-h.stop:
			return
		case <-time.After(h.timeout / 20):
		}
		there, err := exists(h.c, h.path)
		h.mu.Lock()
		if err == nil {
			h.told = time.Now()
		}
		if there {
			h.answered = h.told
		}
		h.mu.Unlock()
		for err != nil {
			select {
			case <-h.stop:
				return
			case <-time.After(redialPause):
			}
			err = h.c.Connect()
			expired := errors.Is(err, traffic.ErrExpired)
			h.mu.Lock()
			if expired {
				h.expired = time.Now()
			} else if err == nil {
				h.moves++
			}
			h.mu.Unlock()
			if expired {
				return
			}
		}
	}
}

// end stops the holder, and ends its session.
func (h *lockHolder) end() {
	close(h.stop)
	h.wg.Wait()
	if h.expired.IsZero() {
		h.c.Close()
	}
}

// A rival is a client that waits for a lock to become free, and takes it.
type rival struct {
	path string
	c    *traffic.Client
	stop chan struct{}
	wg   sync.WaitGroup
}

// waitFor makes a client of addrs wait for path.
func waitFor(t *testing.T, j *history.Journal, path string, addrs ...string) *rival {
	t.Helper()
	v := &rival{
		path: path, stop: make(chan struct{}),
		c: traffic.NewClient(j, traffic.ClientOptions{Timeout: sessionTimeout}, addrs...),
	}
	if err := connect(v.c); err != nil {
		t.Fatal(err)
	}
	v.wg.Go(v.run)
	return v
}

// rivalPause is the time between two looks at a lock.
const rivalPause = 20 * time.Millisecond

func (v *rival) run() {
	for {
		select {
		case <-v.stop:
			return
		case <-time.After(rivalPause):
		}
		there, err := exists(v.c, v.path)
		if err == nil && !there {
			var call *traffic.Call
			if call, err = createEphemeral(v.c, v.path); err == nil && call.Err == jute.OK {
				<-v.stop // it is the holder now
				return
			}
		}
		if err != nil {
			v.c.Connect() // or to the next server, in the next round
		}
	}
}

// end stops the rival, and ends its session.
func (v *rival) end() {
	close(v.stop)
	v.wg.Wait()
	v.c.Close()
}

// A heldRecord is what a history tells of a lock. Times are the history's.
type heldRecord struct {
	first int64         // session of the first holder
	taken time.Duration // when another client got the lock, 0 if none did
	both  time.Duration // for how long after that the first holder was answered
	knows bool          // the first holder was told that it doesn't hold the lock any more
}

// readLocks finds out who held each lock. Any answer, of a ping too, makes a holder believe that its session lives
// and the lock is its own, unless the answer says that the znode is gone or another's.
func readLocks(h *history.History) map[string]*heldRecord {
	locks, of := map[string]*heldRecord{}, map[int64]*heldRecord{}
	sessions, requests := map[int32]int64{}, map[[2]int32]*history.Event{}
	for i := range h.Events {
		e := &h.Events[i]
		switch e.Kind {
		case history.KindConnected:
			sessions[e.Conn] = e.Session
			continue
		case history.KindRequest:
			requests[[2]int32{e.Conn, e.Xid}] = e
			continue
		case history.KindReply:
		default:
			continue
		}
		q, at := requests[[2]int32{e.Conn, e.Xid}], time.Duration(e.Time)
		if q == nil {
			continue
		}
		path, s := "", sessions[e.Conn]
		if q.Op().HasPath() {
			path = jute.NewDecoder(q.Body).String()
		}
		l := locks[path]
		if q.Op() == jute.OpCreate && e.Code() == jute.OK && strings.HasPrefix(path, lockPrefix) {
			if l == nil {
				l = &heldRecord{first: s}
				locks[path], of[s] = l, l
			} else if l.taken == 0 {
				l.taken = at
			}
			continue
		}
		if l = of[s]; l == nil || l.taken == 0 || l.knows {
			continue
		}
		if q.Op() == jute.OpExists {
			var g jute.Stat
			g.Decode(jute.NewDecoder(e.Body))
			if e.Code() != jute.OK || g.EphemeralOwner != s {
				l.knows = true
				continue
			}
		}
		l.both = at - l.taken
	}
	return locks
}

// bound is for how long a session may be answered after its end.
func (l *lock) bound() time.Duration { return max(l.timeout/3, time.Second) }

// String says in one line what a hang did.
func (res *hungResult) String() string {
	var s hungSums
	s.add([]*hungResult{res})
	return strings.TrimSpace(s.String())
}

// hungSums are the results of hangs by whose disk hung and for how long.
type hungSums struct{ results []*hungResult }

func (s *hungSums) add(results []*hungResult) { s.results = append(s.results, results...) }

// String returns a line for each kind of hang.
func (s *hungSums) String() string {
	var text strings.Builder
	var done []string
	for _, first := range s.results {
		kind := fmt.Sprintf("%s, %v", first.who, first.hang)
		if slices.Contains(done, kind) {
			continue
		}
		done = append(done, kind)
		rounds, sessions, lost, moves, ended := 0, 0, map[time.Duration]int{}, 0, 0
		var both time.Duration
		var stops []time.Duration
		for _, res := range s.results {
			if fmt.Sprintf("%s, %v", res.who, res.hang) != kind {
				continue
			}
			rounds++
			stops = append(stops, res.stopped)
			if res.ended != 0 {
				ended++
			}
			for _, l := range res.locks {
				sessions++
				moves = max(moves, l.holder.moves)
				both = max(both, l.both)
				if l.lost() {
					lost[l.timeout]++
				}
			}
		}
		fmt.Fprintf(&text, "%s: %d rounds, %d sessions, lost of 4, 10 and 30 s %d %d %d, two holders for %v at most, other servers' writes stopped for %s; at most %d moves of a client; %d servers ended\n",
			kind, rounds, sessions, lost[hungTimeouts[0]], lost[hungTimeouts[1]], lost[hungTimeouts[2]],
			both.Round(time.Millisecond), percentiles(stops), moves, ended)
	}
	return text.String()
}
