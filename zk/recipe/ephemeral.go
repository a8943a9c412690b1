package recipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// An Ephemeral keeps an ephemeral znode in existence from NewEphemeral to Close. It creates the znode again in each new
// session, and when another client deletes it. It doesn't undo another client's change of the data. It corresponds to
// Curator's PersistentNode in ephemeral mode.
//
// While the connection is lost the znode stays, until the session expires; then it is gone until the next session
// begins. If another znode has this name, persistent or of another session (such as an earlier one of the same process
// that hasn't expired yet), the Ephemeral waits until it is gone. It also waits while an earlier Ephemeral of its
// zk.Sessions or of its session has the same path: until that one is closed or has ended, and its znode is deleted. So
// a znode never has two Ephemerals.
//
// If the ensemble refuses the znode or its data, other than to shed load or for lack of a quorum, the Ephemeral ends,
// for example with zk.ErrNoAuth, or because the data of SetData are too large. The Ephemeral deletes its znode, as
// Close does, and Wait then returns the error. If the ensemble refuses the deletion, the znode stays until the session
// ends, or until the next Ephemeral of the session with this path takes it over with its own data.
type Ephemeral struct {
	sessions *zk.Sessions
	path     string
	opt      Options
	stop     context.CancelFunc
	done     chan struct{}

	mu      sync.Mutex
	data    []byte
	edition int           // of data, from 1
	token   int64         // czxid of the znode; 0 while there is none
	err     error         // why the Ephemeral has ended; nil before
	changed chan struct{} // closed and replaced when a field above changes
}

// NewEphemeral returns at once and then keeps a znode with Options.Data at path. It creates missing parents. The caller
// must Close the result.
func NewEphemeral(sessions *zk.Sessions, path string, opt Options) *Ephemeral {
	ctx, stop := context.WithCancel(context.Background())
	e := &Ephemeral{
		sessions: sessions, path: path, opt: opt, data: opt.Data, edition: 1, stop: stop, done: make(chan struct{}),
		changed: make(chan struct{}),
	}
	go e.run(ctx)
	return e
}

func (e *Ephemeral) run(ctx context.Context) {
	defer close(e.done)
	leave, err := takePlace(ctx, ephemeralOf{e.sessions, e.path})
	if err == nil {
		defer leave()
		err = e.sessions.Run(ctx, func(c *zk.Client) error { return e.inSession(ctx, c) })
	}
	if ctx.Err() != nil {
		err = ErrClosed
	}
	e.publish(0, err)
}

// Only one Ephemeral at a time may have a place: the owner of the znode is the session, so two of one session would
// both take the znode for theirs, and one would delete that of the other. An Ephemeral has two places: its ephemeralOf,
// so that it stays ahead of later ones in each new session, and in each session its zk.Place, since another zk.Sessions
// may share the session by zk.Client.Chroot.
type ephemeralOf struct {
	sessions *zk.Sessions
	path     string
}

// places holds the places that Ephemerals of this process have, each with a channel that is closed when it is free.
var places = struct {
	mu    sync.Mutex
	taken map[any]chan struct{}
}{taken: map[any]chan struct{}{}}

// takePlace waits until no other Ephemeral has the place, or ctx ends. The caller must call leave.
func takePlace(ctx context.Context, place any) (leave func(), err error) {
	for {
		places.mu.Lock()
		free, taken := places.taken[place]
		if !taken {
			places.taken[place] = make(chan struct{})
		}
		places.mu.Unlock()
		if !taken {
			return func() { leavePlace(place) }, nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func leavePlace(place any) {
	places.mu.Lock()
	defer places.mu.Unlock()
	close(places.taken[place])
	delete(places.taken, place)
}

// ephemeralDeleteWait bounds how long an Ephemeral that ends waits for the ensemble to delete the znode. Afterwards the
// deletion continues in the background until the session ends.
const ephemeralDeleteWait = 5 * time.Second

// inSession keeps the znode while the session lasts, and deletes it when ctx or an error ends e. The place is free once
// the znode is gone: a deletion that continues in the background must not meet the next Ephemeral's znode.
func (e *Ephemeral) inSession(ctx context.Context, c *zk.Client) error {
	leave, err := takePlace(ctx, c.Place(e.path))
	if err != nil {
		return err
	}
	err = e.keep(ctx, c)
	e.publish(0, nil)
	bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), ephemeralDeleteWait)
	defer cancel()
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		defer leave()
		e.erase(context.WithoutCancel(ctx), c)
	}()
	select {
	case <-gone:
	case <-bye.Done():
	}
	return err
}

// keep maintains the znode until the session or ctx ends, or an error that isn't temporary.
func (e *Ephemeral) keep(ctx context.Context, c *zk.Client) error {
	stored := 0 // the edition in the znode, 0 if unknown
	var pace recreation
	for {
		e.mu.Lock()
		data, edition, changed := e.data, e.edition, e.changed
		e.mu.Unlock()
		stat, ok, w, err := c.ExistsW(ctx, e.path)
		switch {
		case err != nil && again(ctx, err):
			continue
		case err != nil:
			return err
		}
		mine := ok && stat.EphemeralOwner == c.Session().ID
		switch {
		case !ok:
			w.Close()
			e.publish(0, nil)
			if !pace.wait(ctx) {
				return ctx.Err()
			}
			stored = edition
			if err = create(ctx, c, e.path, data, zk.ModeEphemeral, e.opt.acl()); errors.Is(err, zk.ErrNoNode) {
				return err // the parent is missing
			}
		case !mine:
			e.publish(0, nil)
			err = waitFor(ctx, w, nil)
		case stored != edition:
			w.Close()
			if _, err = c.Set(ctx, e.path, data, stat.Version); err == nil {
				stored = edition
			}
		case e.publish(stat.Czxid, nil):
			w.Close() // publish has replaced changed
		default:
			err = waitFor(ctx, w, changed)
		}
		if err != nil && !errors.Is(err, zk.ErrNoNode) && !errors.Is(err, zk.ErrBadVersion) && !again(ctx, err) {
			return err
		}
	}
}

// A recreation paces the creation of a znode that another client deletes. The first one is made at once. The next ones
// are made after a pause, which doubles as long as each is deleted within 2*vanishedPauseMax.
type recreation struct {
	rest time.Duration
	last time.Time // when the last one was made
}

// wait waits until the znode may be created, and reports false if ctx ended first.
func (r *recreation) wait(ctx context.Context) bool {
	if time.Since(r.last) > 2*vanishedPauseMax {
		r.rest = 0
	}
	ok := r.rest == 0 || pause(ctx, r.rest)
	r.rest = min(max(2*r.rest, vanishedPause), vanishedPauseMax)
	r.last = time.Now()
	return ok
}

// waitFor waits until w has fired or changed is closed, and then closes w.
func waitFor(ctx context.Context, w *zk.Watch, changed <-chan struct{}) error {
	defer w.Close()
	select {
	case <-w.Ready():
		_, err := w.Next(ctx)
		return err
	case <-changed:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// erase deletes the znode if it is this session's. A create with a lost reply may have made it, and a server that lags
// behind may not know it yet, so erase syncs first.
func (e *Ephemeral) erase(ctx context.Context, c *zk.Client) {
	stat, ok, err := look(ctx, c, e.path)
	if err == nil && ok && stat.EphemeralOwner == c.Session().ID {
		deleteIncarnation(ctx, c, e.path, stat.Czxid) // if it is refused, the znode goes with the session
	}
}

// publish records the znode, and reports whether anything has changed.
func (e *Ephemeral) publish(token int64, err error) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.token == token && err == nil {
		return false
	}
	e.token, e.err = token, err
	e.announce()
	return true
}

// announce wakes all callers that wait for a change. The caller holds e.mu.
func (e *Ephemeral) announce() {
	close(e.changed)
	e.changed = make(chan struct{})
}

// SetData replaces the znode's data, now and in later sessions. It doesn't wait, and Wait doesn't wait for these data.
// If it is called again before the data are stored, only the last data are. The caller must not change data afterwards.
// After the end of e, SetData has no effect.
func (e *Ephemeral) SetData(data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.data = data
	e.edition++
	e.announce()
}

// Wait waits until the znode exists, and returns its czxid, at once if it exists. To find out whether e has ended
// since, call it again. It fails when ctx ends. It fails with ErrClosed if e is closed, with zk.ErrClosed if its
// zk.Sessions is closed, and with the error that has ended e, such as zk.ErrNoAuth, zk.ErrRequestTooLarge or that of an
// invalid path.
func (e *Ephemeral) Wait(ctx context.Context) (int64, error) {
	for {
		token, changed, err := e.state()
		if token != 0 || err != nil {
			return token, err
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return 0, fmt.Errorf("recipe: wait for %s: %w", e.path, ctx.Err())
		}
	}
}

// state returns the znode's czxid, 0 while there is none, a channel that is closed when something changes, and why e
// has ended.
func (e *Ephemeral) state() (czxid int64, changed <-chan struct{}, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.token, e.changed, e.err
}

// Path returns the path of the znode.
func (e *Ephemeral) Path() string { return e.path }

// Close deletes the znode and ends e. It waits until the znode is deleted, up to five seconds; afterwards the deletion
// continues in the background until the session ends. It is idempotent.
func (e *Ephemeral) Close() {
	e.stop()
	<-e.done
}
