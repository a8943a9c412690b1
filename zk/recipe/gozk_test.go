package recipe_test

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	gozk "github.com/zooid-project/zooid/zk/gozk/zk"
)

// silent is a gozk.Logger for those who cut connections on purpose.
type silent struct{}

func (silent) Printf(string, ...any) {}

// openGozk opens a player's session by gozk, whose connections may be cut.
func (p *player) openGozk() error {
	servers, chroot, _ := strings.Cut(p.connect, "/")
	dial := net.DialTimeout
	if p.k != nil {
		dial = func(network, address string, timeout time.Duration) (net.Conn, error) {
			return p.k.dial(p.ctx, network, address)
		}
	}
	c, _, err := gozk.Connect(strings.Split(servers, ","), sessionTimeout, gozk.WithLogger(silent{}),
		gozk.WithDialer(dial))
	if err != nil {
		return err
	}
	p.goz, p.prefix = c, "/"+chroot
	return p.until(func() error { _, _, err := c.Exists("/"); return err })
}

// passing reports whether a gozk call that failed so may be made again: go-zookeeper's
// programs must do that by themselves.
func passing(err error) bool {
	return errors.Is(err, gozk.ErrConnectionClosed) || errors.Is(err, gozk.ErrNoServer) ||
		errors.Is(err, gozk.ErrSessionExpired)
}

// until makes a call again until it succeeds or fails for good.
func (p *player) until(call func() error) error {
	for {
		err := call()
		if !passing(err) || p.ctx.Err() != nil {
			return err
		}
		time.Sleep(time.Millisecond)
	}
}

// gozkACL is for everybody.
var gozkACL = gozk.WorldACL(gozk.PermAll)

// gozkScenarios are the shortest uses of what gozk offers beside single calls. Its
// Conns outlive their sessions, so nobody may fail, not even when a session ends.
var gozkScenarios = []scenario{
	{name: "gozk lock", sure: true, gozk: true,
		// Each increments a counter once while it holds the lock. The counter's version
		// is the fencing: a holder whose session has ended may be late, and is refused.
		play: func(p *player) error {
			l := gozk.NewLock(p.goz, p.prefix+"/lock", gozkACL)
			if err := p.until(l.Lock); err != nil {
				return fmt.Errorf("lock: %w", err)
			}
			p.mu.Lock()
			p.inside++
			twice := p.inside > 1 && !slices.ContainsFunc(p.players, (*player).expires)
			p.mu.Unlock()
			if twice {
				return errors.New("granted twice")
			}
			err := p.increment()
			p.linger()
			p.mu.Lock()
			p.inside--
			p.mu.Unlock()
			if err != nil {
				return err
			}
			for err = l.Unlock(); err == gozk.ErrConnectionClosed || err == gozk.ErrNoServer; err = l.Unlock() {
				time.Sleep(time.Millisecond)
			}
			lost := err == gozk.ErrNoNode || err == gozk.ErrSessionExpired
			if err != nil && (!lost || !p.expires()) {
				return fmt.Errorf("unlock: %w", err)
			}
			if err := l.Unlock(); !errors.Is(err, gozk.ErrNotLocked) {
				return fmt.Errorf("unlocked again: %w", err)
			}
			return nil
		},
		check: func(s *stage) error {
			data, _, err := s.judge.Get(s.ctx, "/counter")
			if err != nil {
				return err
			}
			for _, p := range s.players {
				if n := strings.Count(string(data), fmt.Sprintf("<%d>", p.number)); n != 1 {
					return fmt.Errorf("participant %d incremented %d times: %s", p.number, n, data)
				}
			}
			return s.empty("/lock")
		}},
	{name: "gozk protected", sure: true, gozk: true,
		// Each creates a znode and deletes it when all have done so.
		play: func(p *player) error {
			var path string
			err := p.until(func() (err error) {
				if _, err := p.goz.Create(p.prefix+"/p", nil, 0, gozkACL); err != nil && err != gozk.ErrNodeExists {
					return err
				}
				path, err = p.goz.CreateProtectedEphemeralSequential(p.prefix+"/p/x-", nil, gozkACL)
				return err
			})
			if err != nil {
				return err
			}
			p.meet(1)
			if !slices.ContainsFunc(p.players, (*player).expires) {
				names, _, err := p.judge.Children(p.ctx, "/p")
				if err != nil {
					return err
				}
				if len(names) != len(p.players) {
					return fmt.Errorf("%d participants created %q", len(p.players), names)
				}
			}
			p.meet(2)
			err = p.until(func() error { return p.goz.Delete(path, -1) })
			if errors.Is(err, gozk.ErrNoNode) { // by the call before, or with the session
				err = nil
			}
			return err
		},
		check: func(s *stage) error { return s.empty("/p") }},
	{name: "gozk watches", sure: true, gozk: true,
		// Each sets a sign and waits for all, by each kind of watch.
		play: func(p *player) error {
			for _, wait := range []func(dir, name string) (bool, <-chan gozk.Event, error){
				func(dir, name string) (bool, <-chan gozk.Event, error) {
					there, _, w, err := p.goz.ExistsW(dir + "/" + name)
					return there, w, err
				},
				func(dir, name string) (bool, <-chan gozk.Event, error) {
					names, _, w, err := p.goz.ChildrenW(dir)
					return slices.Contains(names, name), w, err
				},
				func(dir, name string) (bool, <-chan gozk.Event, error) {
					data, _, w, err := p.goz.GetW(dir)
					return strings.Contains(string(data), name), w, err
				},
			} {
				p.rounds++
				dir := fmt.Sprintf("%s/signs-%d", p.prefix, p.rounds)
				if err := p.sign(dir, fmt.Sprintf("<%d>", p.number)); err != nil {
					return fmt.Errorf("sign: %w", err)
				}
				for i := range p.players {
					if err := p.awaitSign(func() (bool, <-chan gozk.Event, error) {
						return wait(dir, fmt.Sprintf("<%d>", i))
					}); err != nil {
						return fmt.Errorf("wait for a sign: %w", err)
					}
				}
			}
			return nil
		},
		check: func(s *stage) error { return nil }},
	{name: "gozk identity", sure: true, gozk: true,
		// An identity is the next session's, too.
		play: func(p *player) error {
			if err := p.until(func() error { return p.goz.AddAuth("digest", fmt.Appendf(nil, "%d:x", p.number)) }); err != nil {
				return err
			}
			own := fmt.Sprintf("%s/own-%d", p.prefix, p.number)
			err := p.until(func() error {
				_, err := p.goz.Create(own, nil, 0, gozk.AuthACL(gozk.PermAll))
				return err
			})
			if err != nil && !errors.Is(err, gozk.ErrNodeExists) {
				return err
			}
			if err := p.until(func() error { _, err := p.goz.Set(own, []byte("mine"), -1); return err }); err != nil {
				return err
			}
			return p.until(func() error { _, _, err := p.goz.Get(own); return err })
		},
		check: func(s *stage) error { return nil }},
}

// meet waits until all players have called it so many times.
func (p *player) meet(times int) {
	for p.calls.Add(1); int(p.calls.Load()) < times*len(p.players) && p.ctx.Err() == nil; {
		time.Sleep(time.Millisecond)
	}
}

// increment adds one to the counter, whose data names all who have. What came of a
// call without an answer is looked up.
func (p *player) increment() error {
	path, me := p.prefix+"/counter", fmt.Sprintf("<%d>", p.number)
	for unsure := false; ; {
		var data []byte
		var stat *gozk.Stat
		err := p.until(func() (err error) {
			if _, err := p.goz.Create(path, nil, 0, gozkACL); err != nil && err != gozk.ErrNodeExists {
				return err
			}
			data, stat, err = p.goz.Get(path)
			return err
		})
		switch {
		case err != nil:
			return err
		case strings.Contains(string(data), me) && !unsure:
			return fmt.Errorf("%s has incremented before: %s", me, data)
		case strings.Contains(string(data), me):
			return nil
		}
		_, err = p.goz.Set(path, append(data, me...), stat.Version)
		switch {
		case err == nil:
			return nil
		case passing(err):
			unsure = true
		case errors.Is(err, gozk.ErrBadVersion) && p.expires(): // fenced off
		default:
			return fmt.Errorf("increment: %w", err)
		}
	}
}

// sign creates name in dir, and puts it into dir's data.
func (p *player) sign(dir, name string) error {
	for _, path := range []string{dir, dir + "/" + name} {
		err := p.until(func() error { _, err := p.goz.Create(path, nil, 0, gozkACL); return err })
		if err != nil && !errors.Is(err, gozk.ErrNodeExists) {
			return err
		}
	}
	for {
		err := p.until(func() error {
			data, stat, err := p.goz.Get(dir)
			if err != nil || strings.Contains(string(data), name) {
				return err
			}
			_, err = p.goz.Set(dir, append(data, name...), stat.Version)
			return err
		})
		if !errors.Is(err, gozk.ErrBadVersion) {
			return err
		}
	}
}

// awaitSign waits by watches; each that ends without an event is set again.
func (p *player) awaitSign(look func() (bool, <-chan gozk.Event, error)) error {
	for {
		var there bool
		var w <-chan gozk.Event
		if err := p.until(func() (err error) { there, w, err = look(); return err }); err != nil || there {
			return err
		}
		// A request at which the session may end while the watch is set.
		if err := p.until(func() error { _, _, err := p.goz.Exists("/"); return err }); err != nil {
			return err
		}
		select {
		case e := <-w:
			if e.Type == gozk.EventNotWatching && !passing(e.Err) {
				return fmt.Errorf("a watch ended: %w", e.Err)
			}
		case <-p.ctx.Done():
			return context.Cause(p.ctx)
		}
	}
}

// TestEveryCutOfGozk is TestEveryCut for programs that use gozk.
func TestEveryCutOfGozk(t *testing.T) { everyCut(t, gozkScenarios) }
