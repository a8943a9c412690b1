package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/jute"
)

const (
	// pileLimit is the limit of sessions of an address at the servers under attackPile, and pileSlack the sessions of its
	// honest clients, and those that may be in the log when clients that don't wait for an answer reach the limit.
	pileLimit = 500
	pileSlack = 500
	// pileTimeout (ms) is how long a session lives that its client has left.
	pileTimeout = 40_000
)

// attackPile begins sessions from one address, and leaves them at once: half of them without waiting for the answer,
// some after they have moved to another server. Without a limit there would be as many as begin in pileTimeout.
func attackPile(f *field) error {
	const workers = 24
	from := net.IPv4(127, 77, 0, 1)
	errs := make(chan error, 1)
	f.workers(workers+1, func(i int, rng *rand.Rand) {
		if i == workers {
			errs <- f.watchPile()
			return
		}
		for n := i; !f.over(); n++ {
			c := orNil(f.openFrom(from, f.addr(n)))
			if c == nil {
				continue
			}
			q := newSession(pileTimeout)
			if c.write(jute.AppendFrame(nil, q.Append)) == nil && rng.IntN(2) == 0 && c.connected() != nil {
				f.counts.refused.Add(1)
				f.sleep(redialPause)
			}
			c.close()
			if c.session == 0 || rng.IntN(4) > 0 {
				continue
			}
			q.SessionID, q.Passwd = c.session, c.passwd
			if c = orNil(f.openFrom(from, f.addr(n+1))); c != nil {
				c.write(jute.AppendFrame(nil, q.Append))
				c.connected()
				c.close()
			}
		}
	})
	return <-errs
}

// watchPile returns an error once a server has far more sessions than one address may have.
func (f *field) watchPile() error {
	for ; !f.over(); f.sleep(200 * time.Millisecond) {
		for _, addr := range f.clients {
			if n, err := f.sessionsOf(addr); err == nil && n > pileLimit+pileSlack {
				return fmt.Errorf("%s has %d sessions, while an address may have %d", addr, n, pileLimit)
			}
		}
	}
	return nil
}

// sessionsOf asks a server how many sessions there are.
func (f *field) sessionsOf(addr string) (int, error) {
	nc, err := f.dial(addr)
	if err != nil {
		return 0, err
	}
	defer nc.Close()
	nc.SetDeadline(time.Now().Add(4 * f.patience))
	if _, err = io.WriteString(nc, "mntr"); err != nil {
		return 0, err
	}
	text, err := io.ReadAll(nc)
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(text)) {
		if name, value, _ := strings.Cut(strings.TrimSpace(line), "\t"); name == "zk_global_sessions" {
			return strconv.Atoi(value)
		}
	}
	return 0, fmt.Errorf("mntr has no zk_global_sessions")
}

// openFrom is open with a source address of the caller's choice.
func (f *field) openFrom(from net.IP, addr string) (*conn, error) {
	nc, err := f.dialFrom(from, addr)
	if err != nil {
		return nil, err
	}
	return newConn(f, nc), nil
}
