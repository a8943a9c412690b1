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
// that hasn't expired yet), the Ephemeral waits until it is gone. It also waits while another Ephemeral of its
// zk.Sessions has the same path.
//
// An error that isn't temporary ends the Ephemeral, for example if the data of SetData are too large. Wait then returns
// the error. The znode, if it exists, stays until the session ends; Close doesn't delete it.
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
	place := ephemeralPlace{e.sessions, e.path}
	err := place.take(ctx)
	if err == nil {
		defer place.leave()
		err = e.sessions.Run(ctx, func(c *zk.Client) error {
			err := e.keep(ctx, c)
			e.publish(0, nil)
			return err
		})
	}
	if ctx.Err() != nil {
		err = ErrClosed
	}
	e.publish(0, err)
}

// An ephemeralPlace is where an Ephemeral keeps its znode. Only one at a time may have it: the owner of the znode is
// the session, so two of one session would both take the znode for theirs, and one would delete that of the other.
type ephemeralPlace struct {
	sessions *zk.Sessions
	path     string
}

// places holds the places that Ephemerals of this process have, each with a channel that is closed when it is free.
var places = struct {
	mu    sync.Mutex
	taken map[ephemeralPlace]chan struct{}
}{taken: map[ephemeralPlace]chan struct{}{}}

// take waits until no other Ephemeral has the place, or ctx ends.
func (p ephemeralPlace) take(ctx context.Context) error {
	for {
		places.mu.Lock()
		free, taken := places.taken[p]
		if !taken {
			places.taken[p] = make(chan struct{})
		}
		places.mu.Unlock()
		if !taken {
			return nil
		}
		select {
		case <-free:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// leave lets another Ephemeral have the place.
func (p ephemeralPlace) leave() {
	places.mu.Lock()
	defer places.mu.Unlock()
	close(places.taken[p])
	delete(places.taken, p)
}

// ephemeralDeleteWait bounds how long Close waits for the ensemble to delete the znode. Afterwards the znode goes with
// the session.
const ephemeralDeleteWait = 5 * time.Second

// keep maintains the znode until the session or ctx ends.
func (e *Ephemeral) keep(ctx context.Context, c *zk.Client) error {
	defer func() {
		if ctx.Err() != nil {
			bye, cancel := context.WithTimeout(context.WithoutCancel(ctx), ephemeralDeleteWait)
			defer cancel()
			e.leave(bye, c)
		}
	}()
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

// leave deletes the znode if it is this session's. A create with a lost reply may have made it, and a server that lags
// behind may not know it yet, so leave syncs first.
func (e *Ephemeral) leave(ctx context.Context, c *zk.Client) {
	stat, ok, err := look(ctx, c, e.path)
	if err == nil && ok && stat.EphemeralOwner == c.Session().ID {
		behind(ctx, e.path, func(ctx context.Context) error { return deleteIncarnation(ctx, c, e.path, stat.Czxid) })
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

// SetData replaces the znode's data, now and in later sessions. It doesn't wait. If it is called again before the data
// are stored, only the last data are. The caller must not change data afterwards.
func (e *Ephemeral) SetData(data []byte) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.data = data
	e.edition++
	e.announce()
}

// Wait waits until the znode exists, and returns its czxid, at once if it exists. It fails when ctx ends. It fails with
// ErrClosed if e is closed, with zk.ErrClosed if its zk.Sessions is closed, and with the error that has ended e, such
// as zk.ErrNoAuth, zk.ErrRequestTooLarge or that of an invalid path.
func (e *Ephemeral) Wait(ctx context.Context) (int64, error) {
	for {
		e.mu.Lock()
		token, err, changed := e.token, e.err, e.changed
		e.mu.Unlock()
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

// Path returns the path of the znode.
func (e *Ephemeral) Path() string { return e.path }

// Close deletes the znode, unless an error has ended e earlier. It waits until the znode is deleted, up to five
// seconds. A znode that is still there then goes with the session at the latest. It is idempotent.
func (e *Ephemeral) Close() {
	e.stop()
	<-e.done
}
