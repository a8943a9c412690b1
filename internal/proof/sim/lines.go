package sim

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/internal/quorum"
)

// How servers find each other: by the addresses in their server lines, which differ from file to file, may be wrong,
// and whose names may not exist yet.

// wrongLine is a mistake in a server line about another server.
type wrongLine int64

const (
	rightLine    wrongLine = iota
	wrongName              // no such name
	wrongPort              // no process listens there
	wrongServer            // the address of another server
	wrongRoute             // an address of no machine
	wrongVoters            // the line is missing
	wrongLineMax = wrongVoters
)

// spelled returns server id's line in the file of server by. All spellings of a file without mistakes lead to the same
// servers.
func (w *World) spelled(by, id uint64) quorum.Member {
	m := member(id, false)
	name, how := "s"+strconv.FormatUint(id, 10), (w.plan.Seed>>3+3*by+id)%3
	switch {
	case by == id && w.plan.Seed&1 != 0:
		name = "0.0.0.0"
	case how == 1:
		name += ".example"
	case how == 2:
		name = fmt.Sprintf("10.0.0.%d", id)
	}
	m.Addrs = []string{net.JoinHostPort(name, peerPort)}
	return m
}

const peerPort = "2888"

// lines returns the server lines of one of the first servers, with a mistake about another one.
func (w *World) lines(by uint64, wrong wrongLine, about uint64) (lines []quorum.Member) {
	for _, m := range w.firstMembers() {
		line := w.spelled(by, m.ID)
		line.Observer = m.Observer
		if m.ID == about && about != by {
			switch wrong {
			case wrongName:
				line.Addrs = []string{net.JoinHostPort(fmt.Sprintf("s%d0", m.ID), peerPort)}
			case wrongPort:
				line.Addrs = []string{fmt.Sprintf("s%d:2889", m.ID)}
			case wrongServer:
				line.Addrs = []string{net.JoinHostPort(fmt.Sprintf("s%d", by), peerPort)}
			case wrongRoute:
				line.Addrs = []string{net.JoinHostPort(fmt.Sprintf("10.0.9.%d", m.ID), peerPort)}
			case wrongVoters:
				continue
			}
		}
		lines = append(lines, line)
	}
	return lines
}

// A destination is the server or listener that an address leads to.
type destination struct {
	at     *host // nil if there is no such machine
	noName bool
	closed bool // no process listens at that port
}

// resolve returns where an address leads to.
func (w *World) resolve(addr string) (d destination) {
	name, port, err := net.SplitHostPort(addr)
	if err != nil {
		return d
	}
	d.closed = port != peerPort
	number, named := strings.CutPrefix(strings.TrimSuffix(name, ".example"), "s")
	if !named {
		number, _ = strings.CutPrefix(name, "10.0.0.")
	}
	id, err := strconv.Atoi(number)
	switch {
	case err != nil || id < 1 || id > len(w.servers):
		d.noName = named
	case named && w.servers[id-1].unnamed.on():
		d.noName = true
	default:
		d.at = w.atNameOf(uint64(id))
	}
	return d
}

// atNameOf returns the host to which a server's name and address lead: another ensemble's, for a while.
func (w *World) atNameOf(id uint64) *host {
	if s := w.servers[id-1]; w.twin == nil || !s.astray.on() {
		return s
	}
	return w.twin.servers[id-1]
}

// addressOf returns the address by which a server reaches another one.
func (s *host) addressOf(id uint64) string {
	if m, ok := find(s.config, id); ok && len(m.Addrs) > 0 {
		return m.Addrs[0]
	}
	return member(id, false).Addrs[0]
}

// proves reports whether two servers accept each other's proof of the ensemble's secret.
func proves(a, b *host) bool { return a.secret.on() == b.secret.on() || a == b }

// A state is something about a server that lasts for a time, maybe caused more than once.
type state struct {
	count int
	since int64
	until int64
	over  int64 // when it was over last
}

func (s *state) on() bool { return s.count > 0 }

// during sets the state for d ns. over, if not nil, is called at the end.
func (s *state) during(w *World, d int64, over func()) {
	if s.count++; s.count == 1 {
		s.since = w.now
	}
	s.until = max(s.until, w.now+d)
	w.unless(d, func() {
		if s.count--; s.count > 0 {
			return
		}
		if s.over = w.now; over != nil {
			over()
		}
	})
}

// end ends the state. What is to end it later does nothing, as the World is healed.
func (s *state) end(w *World) {
	if s.on() {
		s.count, s.over = 0, w.now
	}
}

// changed reports whether the state has begun or ended since a time.
func (s *state) changed(since int64) bool {
	return s.on() && s.since >= since || s.over >= since && s.over > 0
}

// lasts reports whether the state has been there since a time.
func (s *state) lasts(since int64) bool { return s.on() && s.since < since }
