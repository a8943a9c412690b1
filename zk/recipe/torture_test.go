package recipe_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	gozk "github.com/zooid-project/zooid/zk/gozk/zk"
	"github.com/zooid-project/zooid/zk/recipe"
)

// A scenario is the shortest use of a recipe by several participants.
type scenario struct {
	name string
	// play is called for each participant, at the same time.
	play func(p *player) error
	// check looks at what is left when all have played.
	check func(s *stage) error
	// sure says that a participant whose session lasts must not fail.
	sure bool
	// gozk says that it is played with gozk's Conns.
	gozk bool
}

// A stage is one run of a scenario, with a chroot of its own.
type stage struct {
	ctx     context.Context
	judge   *zk.Client // never cut
	players []*player

	mu     sync.Mutex
	inside int           // participants that hold what one at a time may hold
	tokens []int64       // of the holders, in order
	taken  []string      // items
	calls  atomic.Int64  // of what must run once
	first  chan struct{} // closed by the participant that goes first
	once   sync.Once
}

// A player is one participant.
type player struct {
	*stage
	ctx    context.Context
	number int
	c      *zk.Client
	k      *knife // nil for those that are not cut
	dial   func() (*zk.Client, error)
	err    error

	connect string

	goz    *gozk.Conn // in scenarios of gozk
	prefix string     // of its paths
	rounds int
}

// expires reports whether the player's session ends on the way.
func (p *player) expires() bool { return p.k != nil && p.k.cut.expire }

// hold notes that p holds what one at a time may hold, and gives it back by release.
// Only a lost session may let another in meanwhile.
func (p *player) hold(held *recipe.Held, release func() error) error {
	p.mu.Lock()
	if p.inside++; p.inside > 1 && held.Context().Err() == nil && !slices.ContainsFunc(p.players, (*player).expires) {
		p.mu.Unlock()
		return errors.New("granted twice")
	}
	switch grows := len(p.tokens) == 0 || p.tokens[len(p.tokens)-1] < held.Token(); {
	case grows:
		p.tokens = append(p.tokens, held.Token())
	case !p.expires(): // one whose session has ended may come late, and its token tells
		p.mu.Unlock()
		return fmt.Errorf("token %d after %v", held.Token(), p.tokens)
	}
	p.mu.Unlock()
	_, _, err := p.c.Exists(p.ctx, "/") // some work
	p.mu.Lock()
	p.inside--
	p.mu.Unlock()
	if errUnlock := release(); errUnlock != nil {
		return errUnlock
	}
	return err
}

// linger goes on holding until a participant that was cut meanwhile is back and has
// repeated what it repeats.
func (p *player) linger() {
	for _, other := range p.players {
		if other != p && other.k != nil && other.k.away() {
			other.k.meet.Do(func() { close(other.k.met) })
			time.Sleep(cutAbsence)
		}
	}
}

// empty fails if a directory has children.
func (s *stage) empty(dirs ...string) error {
	for _, dir := range dirs {
		for end := time.Now().Add(patience / 2); ; time.Sleep(5 * time.Millisecond) {
			names, _, err := s.judge.Children(s.ctx, dir)
			if errors.Is(err, zk.ErrNoNode) || err == nil && len(names) == 0 {
				break
			}
			if err != nil {
				return err
			}
			if time.Now().After(end) { // what is deleted behind a caller takes a moment
				return fmt.Errorf("left behind in %s: %q", dir, names)
			}
		}
	}
	return nil
}

// lockBy plays a lock.
func lockBy(lock func(p *player) (*recipe.Held, error)) func(p *player) error {
	return func(p *player) error {
		held, err := lock(p)
		if err != nil {
			return err
		}
		return p.hold(held, func() error { return held.Unlock(p.ctx) })
	}
}

var scenarios = []scenario{
	{name: "mutex", sure: true,
		play: lockBy(func(p *player) (*recipe.Held, error) {
			return recipe.NewMutex(p.c, "/m", recipe.Options{}).Lock(p.ctx)
		}),
		check: func(s *stage) error { return s.empty("/m") }},
	{name: "rwlock", sure: true,
		play: func(p *player) error {
			l := recipe.NewRWLock(p.c, "/rw", recipe.Options{})
			if p.number == 0 {
				held, err := l.Reader().Lock(p.ctx)
				if err != nil {
					return err
				}
				return held.Unlock(p.ctx)
			}
			return lockBy(func(p *player) (*recipe.Held, error) { return l.Writer().Lock(p.ctx) })(p)
		},
		check: func(s *stage) error { return s.empty("/rw") }},
	{name: "semaphore", sure: true,
		play: lockBy(func(p *player) (*recipe.Held, error) {
			return recipe.NewSemaphore(p.c, "/s", 1, recipe.Options{}).Acquire(p.ctx)
		}),
		check: func(s *stage) error { return s.empty("/s/locks", "/s/leases") }},
	{name: "counter", sure: true,
		play: func(p *player) error {
			n := recipe.NewCounter(p.c, "/n", recipe.Options{})
			defer n.Close(p.ctx)
			_, err := n.Add(p.ctx, 1)
			if err == nil || zk.MaybeApplied(err) {
				p.calls.Add(1)
			}
			return err
		},
		check: func(s *stage) error {
			sum, err := recipe.NewCounter(s.judge, "/n", recipe.Options{}).Get(s.ctx)
			sure := int64(0)
			for _, p := range s.players {
				if p.err == nil {
					sure++
				}
			}
			if err != nil || sum < sure || sum > s.calls.Load() {
				return fmt.Errorf("sum %d of %d additions, %d of them sure: %v", sum, s.calls.Load(), sure, err)
			}
			return s.empty("/n-ledgers")
		}},
	{name: "queue", sure: true,
		play: func(p *player) error {
			q := recipe.NewQueue(p.c, "/q", recipe.Options{})
			defer q.Close(p.ctx)
			mine := fmt.Sprint("item of ", p.number)
			if err := q.Put(p.ctx, []byte(mine)); err != nil {
				return err
			}
			items, err := q.Take(p.ctx)
			if err != nil {
				return err
			}
			p.mu.Lock()
			defer p.mu.Unlock()
			for _, item := range items {
				p.taken = append(p.taken, string(item))
			}
			return nil
		},
		check: func(s *stage) error {
			slices.Sort(s.taken)
			if len(slices.Compact(slices.Clone(s.taken))) != len(s.taken) {
				return fmt.Errorf("taken twice: %q", s.taken)
			}
			names, _, err := s.judge.Children(s.ctx, "/q")
			if err != nil {
				return err
			}
			for _, p := range s.players {
				if p.err != nil { // it may have left an item, or taken one
					return nil
				}
			}
			if len(s.taken) != len(s.players) || len(names) != 0 {
				return fmt.Errorf("taken %q, left %q", s.taken, names)
			}
			return s.empty("/q-ledgers")
		}},
	{name: "claim", sure: true,
		// One item, which each claims, the first to give it back and all others
		// too, and the last of all to finish.
		play: func(p *player) error {
			q := recipe.NewQueue(p.c, "/q", recipe.Options{})
			defer q.Close(p.ctx)
			if p.number == 0 {
				if err := q.Put(p.ctx, []byte("the item")); err != nil {
					return err
				}
			}
			claim, err := q.Claim(p.ctx)
			if err != nil {
				return err
			}
			p.mu.Lock()
			p.inside++
			twice := p.inside > 1 && !slices.ContainsFunc(p.players, (*player).expires)
			p.mu.Unlock()
			if twice {
				return errors.New("claimed twice")
			}
			_, _, err = p.c.Exists(p.ctx, "/")
			p.linger()
			p.mu.Lock()
			p.inside--
			p.mu.Unlock()
			last := int(p.calls.Add(1)) >= len(p.players)
			if errEnd := func() error {
				if last {
					return claim.Done(p.ctx)
				}
				return claim.Return(p.ctx)
			}(); errEnd != nil {
				return errEnd
			}
			return err
		},
		check: func(s *stage) error {
			for _, p := range s.players {
				if p.err != nil {
					return s.empty("/q-claims")
				}
			}
			return s.empty("/q", "/q-claims", "/q-ledgers")
		}},
	{name: "barrier", sure: true,
		// The first sets a barrier and removes it. The second waits for that and sets
		// it again, and so it must be up at the end. A third has one of its own.
		play: func(p *player) error {
			b := recipe.NewBarrier(p.c, "/b/up", recipe.Options{})
			if p.number == 2 {
				b = recipe.NewBarrier(p.c, "/b/own", recipe.Options{})
				if err := b.Set(p.ctx); err != nil {
					return err
				}
				return b.Remove(p.ctx)
			}
			if p.number == 0 {
				defer p.once.Do(func() { close(p.first) })
				if err := b.Set(p.ctx); err != nil {
					return err
				}
				p.once.Do(func() { close(p.first) })
				return b.Remove(p.ctx)
			}
			<-p.first
			if err := b.Wait(p.ctx); err != nil {
				return err
			}
			return b.Set(p.ctx)
		},
		check: func(s *stage) error {
			if slices.ContainsFunc(s.players, func(p *player) bool { return p.err != nil }) {
				return nil
			}
			names, _, err := s.judge.Children(s.ctx, "/b")
			if err != nil || !slices.Equal(names, []string{"up"}) {
				return fmt.Errorf("/b has %q, want the barrier that was set last: %v", names, err)
			}
			return nil
		}},
	{name: "double barrier", sure: true,
		play: func(p *player) error {
			b := recipe.NewDoubleBarrier(p.c, "/db", len(p.players), recipe.Options{})
			if err := b.Enter(p.ctx); err != nil {
				return err
			}
			return b.Leave(p.ctx)
		},
		check: func(s *stage) error {
			if slices.ContainsFunc(s.players, func(p *player) bool { return p.err != nil }) {
				return nil
			}
			return s.empty("/db")
		}},
	{name: "ephemeral", sure: true,
		// All want one name. The first to have it leaves it to the next.
		play: func(p *player) error {
			s := zk.NewSessions(p.dial)
			defer s.Close()
			e := recipe.NewEphemeral(s, "/e", recipe.Options{})
			token, err := e.Wait(p.ctx)
			if err == nil {
				p.linger()
				stat, there, errStat := p.judge.Exists(p.ctx, "/e")
				if errStat == nil && !p.expires() && (!there || stat.Czxid != token) {
					err = fmt.Errorf("znode %d is gone: there is %v, %d", token, there, stat.Czxid)
				}
			}
			e.Close()
			return err
		},
		check: func(s *stage) error {
			for end := time.Now().Add(patience / 2); ; time.Sleep(5 * time.Millisecond) {
				_, there, err := s.judge.Exists(s.ctx, "/e")
				if err != nil || !there {
					return err
				}
				if time.Now().After(end) {
					return errors.New("the ephemeral znode was left behind")
				}
			}
		}},
	{name: "election", sure: true,
		play: func(p *player) error {
			s := zk.NewSessions(p.dial)
			defer s.Close()
			return recipe.NewElection(s, "/lead", recipe.Options{}).Run(
				p.ctx, func(ctx context.Context, held *recipe.Held) error {
					p.mu.Lock()
					p.inside++
					twice := p.inside > 1 && ctx.Err() == nil && !slices.ContainsFunc(p.players, (*player).expires)
					p.mu.Unlock()
					p.calls.Add(1)
					p.mu.Lock()
					p.inside--
					p.mu.Unlock()
					if twice {
						return errors.New("two lead")
					}
					return nil
				})
		},
		check: func(s *stage) error { return s.empty("/lead") }},
	{name: "group", sure: true,
		play: func(p *player) error {
			s := zk.NewSessions(p.dial)
			defer s.Close()
			g := recipe.JoinGroup(s, "/g", fmt.Sprint("member-", p.number), recipe.Options{})
			err := g.Wait(p.ctx)
			g.Close()
			return err
		},
		check: func(s *stage) error { return s.empty("/g") }},
}

// cutParticipants is 3 in the long form: go test ./zk/recipe -run TestEveryCut -cut.participants 3
var cutParticipants = flag.Int("cut.participants", 2, "TestEveryCut plays scenarios of 2 to so many participants")

// TestEveryCut plays each scenario with two and with three participants, once for
// each place where a participant's connection can break: before and after each of
// its requests, with a session that lasts and with one that ends there. One thing at a
// time is held by one, tokens grow, nothing is lost and nothing is left behind.
func TestEveryCut(t *testing.T) { everyCut(t, scenarios) }

func everyCut(t *testing.T, scenarios []scenario) {
	every := 1
	if testing.Short() {
		every = 4
	}
	each(t, func(a *arena) {
		var states atomic.Int64
		a.t.Cleanup(func() { a.t.Logf("%d places to cut played", states.Load()) })
		for _, sc := range scenarios {
			for n := 2; n <= *cutParticipants; n++ {
				a.t.Run(fmt.Sprintf("%s of %d", sc.name, n), func(t *testing.T) {
					t.Parallel()
					var wg sync.WaitGroup // most of the time somebody waits
					for who := range n {
						for _, c := range []cut{{}, {after: true}, {expire: true}, {after: true, expire: true}} {
							wg.Go(func() {
								for c.at = 1; !t.Failed(); c.at += every {
									states.Add(1)
									more, err := playOnce(t, a.connect, &sc, n, who, c)
									if err != nil {
										t.Error(err)
									}
									if !more {
										break
									}
								}
							})
						}
					}
					wg.Wait()
				})
			}
		}
	})
}

// playOnce plays a scenario with n participants of which one is cut; it reports
// whether that was still playing then.
func playOnce(t *testing.T, connect string, sc *scenario, n, who int, c cut) (fired bool, err error) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	judge, err := zk.Open(ctx, connect, zk.Options{SessionTimeout: sessionTimeout})
	if err != nil {
		return false, err
	}
	defer judge.Close()
	root, err := judge.Create(ctx, "/run-", nil, zk.ModePersistentSequential, zk.WorldACL(zk.PermAll))
	if err != nil {
		return false, err
	}
	s := &stage{ctx: ctx, first: make(chan struct{})}
	if s.judge, err = judge.Chroot(root); err != nil {
		return false, err
	}
	k := newKnife(c)
	for i := range n {
		p := &player{stage: s, ctx: ctx, number: i, connect: connect + root}
		opt := zk.Options{SessionTimeout: sessionTimeout}
		if i == who {
			p.k, opt.Dial = k, k.dial
		}
		p.dial = func() (*zk.Client, error) { return zk.Open(ctx, connect+root, opt) }
		if i == who {
			k.expire = func() {
				err := endSession(ctx, k.session(), connect)
				if err != nil && ctx.Err() == nil && !errors.Is(err, zk.ErrSessionExpired) { // it may have closed it itself
					t.Errorf("end a session: %v", err)
				}
			}
		}
		if sc.gozk {
			if err := p.openGozk(); err != nil {
				return false, err
			}
			defer p.goz.Close()
		} else {
			if p.c, err = p.dial(); err != nil {
				return false, err
			}
			defer p.c.Close()
		}
		s.players = append(s.players, p)
	}
	s.play(sc)
	what := fmt.Sprintf("participant %d of %d, request %d, after %v, expire %v", who, n, c.at, c.after, c.expire)
	for _, p := range s.players {
		if p.err != nil && (ctx.Err() != nil || sc.sure && !p.expires() || sc.gozk) {
			t.Errorf("%s: participant %d: %v", what, p.number, p.err)
		}
	}
	if err := sc.check(s); err != nil { // while sessions last: what they left must not hide behind their end
		t.Errorf("%s: %v", what, err)
	}
	for _, p := range s.players { // a connection can break there, too
		if p.goz != nil {
			p.goz.Close()
		} else {
			p.c.Close()
		}
	}
	return k.hasFired(), nil
}

// play has all participants play. When one whose session ends has failed, a stand-in
// plays its part for as long as the others may wait for it.
func (s *stage) play(sc *scenario) {
	aside, end := context.WithCancel(s.ctx)
	defer end()
	var others, all sync.WaitGroup
	for _, p := range s.players {
		if !p.expires() || sc.gozk {
			others.Go(func() { p.err = sc.play(p) })
			continue
		}
		all.Go(func() {
			if p.err = sc.play(p); p.err == nil {
				return
			}
			c, err := zk.Open(aside, p.connect, zk.Options{SessionTimeout: sessionTimeout})
			if err != nil {
				return
			}
			defer c.Close()
			open := func() (*zk.Client, error) { return zk.New(p.connect, zk.Options{SessionTimeout: sessionTimeout}) }
			sc.play(&player{stage: s, ctx: aside, number: p.number, c: c, dial: open})
		})
	}
	others.Wait()
	end()
	all.Wait()
}
