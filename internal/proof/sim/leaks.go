package sim

import (
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/replica"
)

// A server keeps no trace of a connection that has ended, or of a session that is over: no watches, no unanswered
// requests, and no counts of its address and its identity.

// leaks fails the World if the server keeps something that belongs to no connection and no session. It is called when
// a connection has ended.
func (l *life) leaks() {
	if l.ended || l.w.ended {
		return
	}
	l.w.stats.Hangups++
	if left := l.rep.Leftovers(func(c *replica.Client) bool { return l.served[c] }); len(left) > 0 {
		slices.Sort(left)
		l.w.fail("leak: server %d keeps, after a connection has ended: %s", l.s.id, strings.Join(left, "; "))
	}
}

// hangUpAll ends all connections and checks that the servers keep nothing of them. All is quiet, so what earlier
// connections have left is applied or dropped.
func (w *World) hangUpAll() {
	for _, s := range w.servers {
		if l := s.life; l != nil && l.rep != nil {
			if n, bytes, forwarded := l.rep.Left(); n != 0 || bytes != 0 || forwarded != 0 {
				w.fail("leak: server %d counts %d requests of %d bytes of ended connections, %d bytes under way to the leader",
					s.id, n, bytes, forwarded)
			}
			for _, k := range slices.Clone(l.conns) {
				k.close()
			}
		}
	}
}
