//go:build unix

package zktest

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/wordclient"
	"github.com/zooid-project/zooid/zk"
)

// Options configure the servers. The zero value is a good choice: a single server.
type Options struct {
	Servers int // 0 means 1; an ensemble usually has 3 or 5

	// Tick is the servers' tickTime. Session timeouts are from 2 ticks to MaxSessionTimeout, and sessions end up to a
	// tick late. 0 means DefaultTick. It may be from 1 ms to MaxSessionTimeout/2.
	Tick time.Duration

	// SuperDigest is the superuser of the scheme digest, "user:hash", the ID of zk.DigestID(user, password); "" for none.
	SuperDigest string

	// Users are the users for logins by SASL (zk.DigestMD5), with their passwords. Nil disables SASL. Clients needn't
	// log in.
	Users map[string]string

	// Log receives the servers' log. Nil discards it.
	Log *slog.Logger
}

// DefaultTick is short, so that tests needn't wait long for the end of a session.
const DefaultTick = 200 * time.Millisecond

// version is the version in the servers' reply to srvr, in the form that clients parse.
const version = "3.9.5-zktest, built on 2026-01-01 00:00 UTC"

// MaxSessionTimeout is the longest session timeout. It lets sessions survive delays on a machine that runs other tests.
const MaxSessionTimeout = time.Minute

// An Ensemble is one or more servers that act as one. Servers are numbered from 0; a method panics for another number.
// Its methods may be called from any goroutine.
type Ensemble struct {
	t   host
	opt []server.Options
	px  []*Proxy

	mu      sync.Mutex
	running []*server.Server // nil for a stopped server
}

// Start runs the servers until the test ends. When it returns, they are ready, and an ensemble has a leader. If o is
// invalid, or they don't start, or they aren't ready within two minutes, it ends the test by t.Fatal, so call it from
// the test's goroutine. The Ensemble must not be used after the test.
func Start(t testing.TB, o Options) *Ensemble {
	t.Helper()
	return start(t, o)
}

func start(t host, o Options) *Ensemble {
	t.Helper()
	o.Servers = cmp.Or(o.Servers, 1)
	o.Tick = cmp.Or(o.Tick, DefaultTick)
	if reason := o.wrong(); reason != "" {
		t.Fatalf("zktest: Options.%s", reason)
	}
	e := &Ensemble{t: t, running: make([]*server.Server, o.Servers)}
	var members []server.Member
	if o.Servers > 1 {
		for i := range o.Servers {
			members = append(members, server.Member{ID: uint64(i + 1), Addrs: []string{freeport.Address(t)}})
		}
	}
	for i := range o.Servers {
		opt := server.Options{
			ID: uint64(i + 1), DataDir: t.TempDir(), Listen: []string{"127.0.0.1:0"}, Members: members, Serving: server.Serving{
				Tick: o.Tick, SessionTimeoutMax: MaxSessionTimeout,
			},
			Settings: tree.Settings{ExtendedTypes: true}, Auth: auth.Options{SuperDigest: o.SuperDigest}, Log: o.Log,
			FourLetterWords: []string{"*"}, Version: version,
		}
		if o.Users != nil {
			opt.Auth.SASL = true
			opt.SASL.Mechanism = sasl.NewDigestMD5(o.Users, "", rand.Reader)
		}
		if i%2 == 1 { // as in some installations
			opt.LogDir = t.TempDir()
		}
		if members != nil {
			opt.PeerListen = members[i].Addrs[0]
		}
		e.opt = append(e.opt, opt)
		e.px = append(e.px, newProxy(t, func() string { return e.address(i) }))
	}
	t.Cleanup(func() {
		for i := range e.running {
			e.Stop(i)
		}
	})
	// New members wait for each other.
	var all sync.WaitGroup
	for i := range o.Servers {
		all.Go(func() { e.Start(i) })
	}
	all.Wait()
	for i := range e.running {
		if e.address(i) == "" {
			t.Fatalf("zktest: server %d doesn't start", i) // Ensemble.Start has said why
		}
	}
	e.await()
	return e
}

// wrong returns the field that is invalid, and why; "" if there is none.
func (o *Options) wrong() string {
	switch {
	case o.Servers < 0:
		return fmt.Sprintf("Servers is %d; it must not be negative", o.Servers)
	case o.Tick < time.Millisecond || o.Tick > MaxSessionTimeout/2:
		return fmt.Sprintf("Tick is %v; it must be from 1ms to %v", o.Tick, MaxSessionTimeout/2)
	}
	return ""
}

// await waits until the ensemble serves a session.
func (e *Ensemble) await() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), readyWait)
	defer cancel()
	c, err := zk.Open(ctx, e.Connect(), zk.Options{})
	if err != nil {
		e.t.Fatalf("zktest: the servers don't serve: %v", err)
	}
	c.Close()
}

// Connect returns the connect string of all servers. It has no chroot; a program may append one.
func (e *Ensemble) Connect() string {
	var addresses []string
	for _, p := range e.px {
		addresses = append(addresses, p.Address())
	}
	return strings.Join(addresses, ",")
}

// ConnectTo returns the connect string of server i, counted from 0.
func (e *Ensemble) ConnectTo(i int) string { return e.px[i].Address() }

// Direct returns the connect string of server i without its proxy, so that Cut and Refuse don't affect it. It changes
// when the server restarts, and is "" while the server is stopped.
func (e *Ensemble) Direct(i int) string { return e.address(i) }

// Leader asks the servers which of them leads and returns its number, or -1 if none says that it does, as during an
// election. It waits up to 5 s for each server that doesn't answer. The only server of an Ensemble counts as its
// leader.
func (e *Ensemble) Leader() int {
	for i := range e.px {
		mode := modeOf(e.address(i))
		if mode == "leader" || mode == "standalone" {
			return i
		}
	}
	return -1
}

// modeOf asks a server for its mode; "" if it doesn't answer.
func modeOf(address string) string {
	ctx, cancel := context.WithTimeout(context.Background(), modeWait)
	defer cancel()
	answer, err := wordclient.Word(ctx, nil, address, "srvr", srvrMax)
	if err != nil {
		return ""
	}
	_, after, _ := strings.Cut(answer, "\nMode: ")
	mode, _, _ := strings.Cut(after, "\n")
	return mode
}

// modeWait bounds the wait for a server's reply to srvr, and srvrMax its bytes.
const (
	modeWait = 5 * time.Second
	srvrMax  = 64 << 10
)

// address returns the address of server i, "" if it is stopped.
func (e *Ensemble) address(i int) string {
	e.mu.Lock()
	defer e.mu.Unlock()
	if s := e.running[i]; s != nil {
		return s.Addrs()[0].String()
	}
	return ""
}

// Cut closes every client connection through the proxies. Clients may connect again at once.
func (e *Ensemble) Cut() {
	for _, p := range e.px {
		p.Cut()
	}
}

// Refuse(i, true) closes the client connections of server i, and each new one until Refuse(i, false), also after a
// restart. Other servers can still reach it.
func (e *Ensemble) Refuse(i int, on bool) { e.px[i].Refuse(on) }

// Stop stops server i in an orderly way and waits until it has ended. An error fails the test, but doesn't end it. The
// sessions of its clients survive: the other servers keep them if they have a quorum, and its data directory has them
// too. Stop does nothing if the server is stopped.
func (e *Ensemble) Stop(i int) {
	e.mu.Lock()
	s := e.running[i]
	e.running[i] = nil
	e.mu.Unlock()
	if s == nil {
		return
	}
	if err := s.Close(); err != nil {
		e.t.Errorf("zktest: stop server %d: %v", i, err)
	}
}

// Start starts server i again with its data directory. An error fails the test, but doesn't end it. Start does nothing
// if the server is running. It doesn't wait for a leader; clients do. Start and Stop of the same server must not be
// called at the same time.
func (e *Ensemble) Start(i int) {
	e.t.Helper()
	e.mu.Lock()
	runs := e.running[i] != nil
	e.mu.Unlock()
	if runs {
		return
	}
	s, err := server.Open(e.opt[i])
	if err != nil {
		e.t.Errorf("zktest: start server %d: %v", i, err)
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.running[i] = s
}

// A host is the environment of servers: a test or, for Serve, a program.
type host interface {
	Helper()
	Cleanup(func())
	TempDir() string
	Errorf(format string, args ...any)
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}
