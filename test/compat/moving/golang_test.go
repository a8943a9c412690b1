package moving

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// goClients are what testdata/Steady.java is, by Zooid's own client. Some more write all the time, so that it shows how
// long nobody can.
type goClients struct {
	ctx    context.Context
	cancel context.CancelFunc
	pause  time.Duration
	all    []*goClient
	done   sync.WaitGroup
	ended  chan struct{}

	mu      sync.Mutex
	acked   []time.Time // when a write was acknowledged
	longest time.Duration
}

const (
	goGroup   = 4 // sessions that share a lock
	pulses    = 2 // clients that write all the time
	pulseTime = 100 * time.Millisecond
)

// A goLock is shared by some sessions. Who holds it adds one to what its znode has.
type goLock struct {
	path    string
	holders atomic.Int32
	count   int // guarded by the lock that is tried
}

// wayLen bounds what is kept of a session's way.
const wayLen = 60

// A goClient is one session.
type goClient struct {
	of      *goClients
	root    string
	c       *zk.Client
	id      int64
	mine    *recipe.Held
	lock    *goLock
	watched *goClient

	counts, beats, turns, unsure int
	names                        []string
	// znodes below the persistent watch, and if it is sure that they were heard of
	sure map[string]bool

	mu       sync.Mutex
	wrong    []string
	way      []string // the last states of the session and attempts to connect
	heard    map[string]int
	newest   int
	resyncs  int
	late     int
	seen     int32 // version of the beat that is watched
	spurious int
}

func startGo(t *testing.T, connect string, n int, pause time.Duration) *goClients {
	t.Helper()
	g := &goClients{pause: pause, ended: make(chan struct{})}
	g.ctx, g.cancel = context.WithCancel(context.Background())
	t.Cleanup(g.cancel)
	var lock *goLock
	for i := range n {
		s := &goClient{
			of: g, root: fmt.Sprintf("/steady-go-%d", i), sure: map[string]bool{}, heard: map[string]int{}, newest: -1, seen: -1,
		}
		g.all = append(g.all, s)
		if err := s.open(connect); err != nil {
			t.Fatal(err)
		}
		if i%goGroup == 0 {
			lock = &goLock{path: fmt.Sprintf("/steady-go-lock-%d", i/goGroup)}
			if _, err := s.c.Create(g.ctx, lock.path, []byte("0"), zk.ModePersistent, zk.OpenACL()); err != nil {
				t.Fatal(err)
			}
		}
		s.lock = lock
	}
	for i, s := range g.all {
		s.watched = g.all[(i+1)%n]
		go s.look()
		g.done.Go(func() { s.report(s.run()) })
	}
	for i := range min(pulses, n) {
		if _, err := g.all[0].c.Create(g.ctx, fmt.Sprintf("/pulse-%d", i), nil, zk.ModePersistent, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
		g.done.Go(func() { g.all[i].report(g.pulse(g.all[i].c, fmt.Sprintf("/pulse-%d", i))) })
	}
	return g
}

// pulse writes all the time, and notes when a write was acknowledged.
func (g *goClients) pulse(c *zk.Client, path string) error {
	for g.sleep(pulseTime) {
		switch _, err := c.Set(g.ctx, path, nil, zk.AnyVersion); {
		case err == nil:
			g.mu.Lock()
			g.acked = append(g.acked, time.Now())
			g.mu.Unlock()
		case !zk.MaybeApplied(err):
			return err
		}
	}
	return nil
}

// sleep returns false if everything is to end.
func (g *goClients) sleep(d time.Duration) bool {
	select {
	case <-g.ended:
		return false
	case <-time.After(d):
		return true
	}
}

// gap returns the longest time since a moment in which no write of any client was acknowledged.
func (g *goClients) gap(since time.Time) (longest time.Duration) {
	g.mu.Lock()
	defer g.mu.Unlock()
	last := since
	all := append(slices.Clone(g.acked), time.Now())
	slices.SortFunc(all, time.Time.Compare)
	for _, at := range all {
		if at.After(since) {
			longest = max(longest, at.Sub(last))
			last = at
		}
	}
	return longest
}

// mark returns the longest time that a write took since the last mark.
func (g *goClients) mark() time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	d := g.longest
	g.longest = 0
	return d
}

func (g *goClients) took(began time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.longest = max(g.longest, time.Since(began))
	g.acked = append(g.acked, time.Now())
}

// end ends all, and tells what they saw.
func (g *goClients) end() (told string, err error) {
	close(g.ended)
	g.done.Wait()
	var errs []error
	var sum goClient
	for _, s := range g.all {
		s.report(s.verify())
	}
	for _, s := range g.all {
		sum.counts, sum.beats, sum.turns, sum.unsure = sum.counts+s.counts, sum.beats+s.beats, sum.turns+s.turns, sum.unsure+
			s.unsure
		sum.names = append(sum.names, s.names...)
		s.mu.Lock()
		sum.resyncs += s.resyncs
		if len(s.wrong) > 0 {
			errs = append(errs, fmt.Errorf("%s: %s\n\t%s", s.root, strings.Join(s.wrong, "; "),
				strings.Join(s.way, "\n\t")))
		}
		s.mu.Unlock()
		s.c.Close()
	}
	g.cancel()
	return fmt.Sprintf("%d sessions, %d counts, %d items, %d beats, %d turns with a lock, %d unsure, %d times connected again",
		len(g.all), sum.counts, len(sum.names), sum.beats, sum.turns, sum.unsure, sum.resyncs), errors.Join(errs...)
}

// attempted notes an attempt to connect.
func (s *goClient) attempted(server string, took time.Duration, err error) {
	s.note("%s after %.2f s: %v", server, took.Seconds(), err)
}

// note keeps the last of what happened to the session, for the report of one that is lost.
func (s *goClient) note(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.way = append(s.way[max(0, len(s.way)-wayLen+1):], time.Now().Format("15:04:05.000 ")+fmt.Sprintf(format, args...))
}

func (s *goClient) report(err error) {
	if err != nil {
		s.blame("%v", err)
	}
}

func (s *goClient) blame(format string, args ...any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.wrong = append(s.wrong, fmt.Sprintf(format, args...))
}

func (s *goClient) open(connect string) (err error) {
	ctx := s.of.ctx
	hooks := zk.Hooks{Connect: s.attempted, State: func(_ zk.State, now zk.StateChange) {
		s.note("is %v at %s: %v", now.State, now.Server, now.Err)
	}}
	if s.c, err = zk.Open(ctx, connect, zk.Options{SessionTimeout: *timeout, Hooks: []zk.Hooks{hooks}}); err != nil {
		return err
	}
	s.id = s.c.Session().ID
	for _, path := range []string{"", "/items", "/watched", "/counter", "/beat"} {
		if _, err := s.c.Create(ctx, s.root+path, []byte("0"), zk.ModePersistent, zk.OpenACL()); err != nil {
			return err
		}
	}
	if _, err := s.c.Create(ctx, s.root+"/mine", nil, zk.ModeEphemeral, zk.OpenACL()); err != nil {
		return err
	}
	if s.mine, err = recipe.NewMutex(s.c, s.root+"/lock", recipe.Options{}).Lock(ctx); err != nil {
		return err
	}
	_, _, late, err := s.c.ExistsW(ctx, s.root+"/late")
	if err != nil {
		return err
	}
	go func() {
		for e := range late.Events(ctx) {
			s.mu.Lock()
			if e.Type == zk.EventNodeCreated {
				s.late++
			}
			s.mu.Unlock()
		}
	}()
	below, err := s.c.AddWatch(ctx, s.root+"/watched", zk.AddWatchPersistentRecursive)
	if err != nil {
		return err
	}
	go func() {
		for e, err := range below.Events(ctx) {
			if err == nil {
				s.below(e)
			}
		}
	}()
	return nil
}

// below is told of what happens below the persistent watch.
func (s *goClient) below(e zk.Event) {
	if e.Type == zk.EventResync {
		s.mu.Lock()
		s.resyncs++
		s.mu.Unlock()
		return
	}
	s.mu.Lock()
	s.heard[e.String()]++
	again, newest := s.heard[e.String()] > 1, s.newest
	n, err := strconv.Atoi(e.Path[strings.LastIndexByte(e.Path, '/')+1:])
	if e.Type == zk.EventNodeCreated {
		s.newest = n
	}
	s.mu.Unlock()
	switch {
	case again:
		s.blame("it heard twice of %v", e)
	case err != nil || e.Type != zk.EventNodeCreated && e.Type != zk.EventNodeDeleted:
		s.blame("it heard of %v", e)
	case e.Type == zk.EventNodeCreated && n <= newest:
		s.blame("it heard of %v after %d", e, newest)
	}
}

// look reads another session's beat, again each time when the watch fires.
func (s *goClient) look() {
	for first := true; ; first = false {
		_, stat, w, err := s.c.GetW(s.of.ctx, s.watched.root+"/beat")
		if err != nil {
			if s.of.ctx.Err() == nil {
				s.blame("the beat can't be read: %v", err)
			}
			return
		}
		s.mu.Lock()
		was := s.seen
		s.seen = stat.Version
		if !first && was == stat.Version {
			s.spurious++
		}
		s.mu.Unlock()
		if stat.Version < was {
			s.blame("the beat went from version %d to %d", was, stat.Version)
		}
		if _, err := w.Next(s.of.ctx); err != nil {
			return
		}
	}
}

func (s *goClient) run() error {
	steps := []func(context.Context) error{s.item, s.beat, s.turn}
	pause := s.of.pause
	for n := 0; s.of.sleep(pause/2 + rand.N(pause)); n++ {
		if err := s.count(s.of.ctx); err != nil {
			return err
		}
		if err := steps[n%len(steps)](s.of.ctx); err != nil {
			return err
		}
	}
	_, err := s.c.Create(s.of.ctx, s.root+"/late", nil, zk.ModePersistent, zk.OpenACL())
	return err
}

// count adds one to a counter, once.
func (s *goClient) count(ctx context.Context) error {
	defer s.of.took(time.Now())
	_, err := s.c.Set(ctx, s.root+"/counter", strconv.AppendInt(nil, int64(s.counts+1), 10), int32(s.counts))
	if !zk.MaybeApplied(err) {
		s.counts++
		return err
	}
	s.unsure++
	if err := s.c.Sync(ctx, "/"); err != nil {
		return err
	}
	_, stat, err := s.c.Get(ctx, s.root+"/counter")
	if err != nil {
		return err
	}
	if found := int(stat.Version); found != s.counts && found != s.counts+1 {
		s.blame("the counter went from version %d to %d", s.counts, found)
	}
	s.counts = int(stat.Version)
	return nil
}

// item puts an item, whose name must come behind all before.
func (s *goClient) item(ctx context.Context) error {
	defer s.of.took(time.Now())
	name, err := s.c.Create(ctx, s.root+"/items/i-", strconv.AppendInt(nil, int64(len(s.names)), 10),
		zk.ModePersistentSequential, zk.OpenACL())
	if !zk.MaybeApplied(err) {
		s.names = append(s.names, name)
		return err
	}
	s.unsure++
	there, err := s.items(ctx)
	if err == nil && len(there) > len(s.names) {
		s.names = append(s.names, there[len(there)-1])
	}
	return err
}

func (s *goClient) items(ctx context.Context) ([]string, error) {
	if err := s.c.Sync(ctx, "/"); err != nil {
		return nil, err
	}
	there, _, err := s.c.Children(ctx, s.root+"/items")
	slices.Sort(there)
	for i, name := range there {
		there[i] = s.root + "/items/" + name
	}
	return there, err
}

// beat has something happen below the persistent watch, and to the watch of another session.
func (s *goClient) beat(ctx context.Context) error {
	path := fmt.Sprintf("%s/watched/%d", s.root, s.beats)
	_, err := s.c.Create(ctx, path, nil, zk.ModeEphemeral, zk.OpenACL())
	if err != nil && !zk.MaybeApplied(err) {
		return err
	}
	sure := err == nil
	err = s.c.Delete(ctx, path, zk.AnyVersion)
	if sure && errors.Is(err, zk.ErrNoNode) {
		s.blame("%s is lost", path)
	}
	for zk.MaybeApplied(err) {
		sure = false
		err = s.c.Delete(ctx, path, zk.AnyVersion)
	}
	if err != nil && !errors.Is(err, zk.ErrNoNode) {
		return err
	}
	if !sure {
		s.unsure++
	}
	s.sure[path] = sure
	s.beats++
	return s.set(ctx, s.root+"/beat", s.beats)
}

// set writes until it is sure that it has.
func (s *goClient) set(ctx context.Context, path string, n int) error {
	for {
		if _, err := s.c.Set(ctx, path, strconv.AppendInt(nil, int64(n), 10), zk.AnyVersion); !zk.MaybeApplied(err) {
			return err
		}
	}
}

// turn waits for the lock, and adds one to what only its holder may write.
func (s *goClient) turn(ctx context.Context) error {
	held, err := recipe.NewMutex(s.c, s.lock.path+"/line", recipe.Options{}).Lock(ctx)
	if err != nil {
		return fmt.Errorf("the lock: %w", err)
	}
	if s.lock.holders.Add(1) != 1 {
		s.blame("two hold the lock")
	}
	// What the holder before has written shows: its place's end, which has been seen, came after that.
	data, _, err := s.c.Get(ctx, s.lock.path)
	if err != nil {
		return err
	}
	found, err := strconv.Atoi(string(data))
	if err != nil || found != s.lock.count {
		s.blame("the lock's znode has %q after %d turns", data, s.lock.count)
	}
	s.lock.count = found + 1
	if err := s.set(ctx, s.lock.path, found+1); err != nil {
		return err
	}
	s.lock.holders.Add(-1)
	s.turns++
	return held.Unlock(ctx)
}

func (s *goClient) verify() error {
	ctx, cancel := context.WithTimeout(s.of.ctx, startPatience)
	defer cancel()
	there, err := s.items(ctx)
	if err != nil {
		return err
	}
	if !slices.Equal(there, s.names) {
		s.blame("%d items instead of %d, or others", len(there), len(s.names))
	}
	for i := 0; i < len(there); i += 50 {
		if data, _, err := s.c.Get(ctx, there[i]); err != nil || string(data) != strconv.Itoa(i) {
			s.blame("item %d has %q (%v)", i, data, err)
		}
	}
	data, stat, err := s.c.Get(ctx, s.root+"/counter")
	if err != nil || string(data) != fmt.Sprint(s.counts) || int(stat.Version) != s.counts {
		s.blame("the counter is %s of version %d after %d writes (%v)", data, stat.Version, s.counts, err)
	}
	if id := s.c.Session().ID; id != s.id {
		s.blame("session %#x became %#x", s.id, id)
	}
	for _, path := range []string{s.root + "/mine", s.mine.Path()} {
		if stat, there, err := s.c.Exists(ctx, path); !there || stat.EphemeralOwner != s.id {
			s.blame("%s is %+v (%v)", path, stat, err)
		}
	}
	if err := s.mine.Unlock(ctx); err != nil { // it deletes its place in the line, which only this session has kept
		return fmt.Errorf("its own lock: %w", err)
	}
	beat, _, err := s.c.Exists(ctx, s.watched.root+"/beat")
	if err != nil {
		return err
	}
	awaited(func() bool {
		s.mu.Lock()
		defer s.mu.Unlock()
		return s.seen == beat.Version && s.late == 1
	})
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.seen != beat.Version || s.spurious > 0 || s.late != 1 {
		s.wrong = append(s.wrong, fmt.Sprintf("a watch saw the beat at last at version %d of %d, and %d times unchanged; %d events of a watch that was to fire once",
			s.seen, beat.Version, s.spurious, s.late))
	}
	for path, sure := range s.sure {
		for _, e := range []zk.Event{{Type: zk.EventNodeCreated, Path: path}, {Type: zk.EventNodeDeleted, Path: path}} {
			if sure && s.heard[e.String()] == 0 {
				s.wrong = append(s.wrong, fmt.Sprintf("nothing was heard of %v", e))
			}
		}
	}
	return nil
}
