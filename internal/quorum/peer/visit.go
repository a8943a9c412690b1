package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// A server that isn't a member announces itself to the servers it knows (internal/quorum/guests.go), on a separate
// connection of kind connGuest to each. The connection is authenticated like any other: a server that can't prove that
// it knows the ensemble's secret is refused. Only its configuration or 'zooid allow-join' gives it the secret, whatever
// certificate it has.
//
//	announcement    length(4) introduction of the sender
//	answer to it    as to a hello

// visit begins a round of announcements, unless one is under way.
func (t *transport) visit(announcement []byte) {
	if t.ctx.Err() != nil || !t.visiting.CompareAndSwap(false, true) {
		return
	}
	t.mu.Lock()
	remotes := make([]*remote, 0, len(t.remotes))
	for _, r := range t.remotes { // any order: to each its own connection
		remotes = append(remotes, r)
	}
	t.mu.Unlock()
	payload := append(binary.BigEndian.AppendUint32(nil, uint32(len(announcement))), announcement...)
	t.wg.Go(func() {
		defer t.visiting.Store(false)
		for _, r := range remotes {
			if t.ctx.Err() != nil {
				return
			}
			t.visitOne(r, payload)
		}
	})
}

func (t *transport) visitOne(r *remote, payload []byte) {
	r.mu.Lock()
	addrs := r.addrs
	r.mu.Unlock()
	for _, addr := range addrs {
		c, err := t.greet(t.ctx, addr, hello{connGuest, t.cluster, t.id, r.id}, true)
		if err == nil {
			c.SetDeadline(time.Now().Add(handshakeTimeout))
			if _, err = c.Write(payload); err == nil {
				err = readAnswer(c)
			}
			c.Close()
		}
		if err != nil { // a guest that is let in may follow, but only a connection for messages shows that
			r.noteRefused(err)
		}
		if err == nil {
			return
		}
		var refused *refusedError // other errors are logged by the connection for messages
		if errors.As(err, &refused) && t.logRate.Due(fmt.Sprintf("visit %d %v", r.id, err), time.Now()) {
			t.log.Warn("a member refuses to let this server follow", "peer", r.id, "err", err)
		}
	}
}

// visited handles an announcement.
func (t *transport) visited(raw net.Conn, a arrival) {
	refusal, announcement := t.heed(a)
	if refusal != "" {
		t.noteSameID(a, refusal)
		t.refused(raw, a.hello, refusal)
		writeAnswer(a.Conn, refusal)
		handshake.Linger(raw)
		return
	}
	if announcement != nil {
		t.tell(quorum.Event{Kind: quorum.EventGuest, From: a.hello.from, Data: announcement})
	}
	writeAnswer(a.Conn, "")
}

// heed reads an announcement. refusal is the reason to refuse it, or "".
func (t *transport) heed(a arrival) (refusal string, announcement []byte) {
	if a.legacy() {
		return "a server that isn't a member proves that it knows the ensemble's secret", nil
	}
	var n [4]byte
	if _, err := io.ReadFull(a, n[:]); err != nil {
		return "the announcement is cut short", nil
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > quorum.AnnouncementMax {
		return fmt.Sprintf("an announcement of %d bytes; at most %d", size, quorum.AnnouncementMax), nil
	}
	announcement = make([]byte, size)
	if _, err := io.ReadFull(a, announcement); err != nil {
		return "the announcement is cut short", nil
	}
	m, err := quorum.ReadAnnouncement(a.hello.from, announcement)
	if err != nil {
		return fmt.Sprintf("the announcement can't be read: %v", err), nil
	}
	if over, ok := handshake.TLS(a.Conn); ok && t.secure.Verify != nil {
		if refusal := t.verifyAt(over, a.hello, m.Addrs); refusal != "" {
			return refusal, nil
		}
	}
	return t.elsewhere(m), announcement
}

// elsewhere returns the reason to refuse m's announcement if the server is known to be at
// other addresses, else "".
func (t *transport) elsewhere(m quorum.Member) string {
	t.mu.Lock()
	defer t.mu.Unlock()
	same := func(addrs []string) bool {
		return slices.ContainsFunc(addrs, func(addr string) bool { return slices.Contains(m.Addrs, addr) })
	}
	for _, named := range t.members {
		if named.ID == m.ID && !same(named.Addrs) {
			return fmt.Sprintf("server %d is a member and is at %s, you say that you are at %s: %s, or your server line is an old one",
				m.ID, strings.Join(named.Addrs, ", "), strings.Join(m.Addrs, ", "), quorum.SameID)
		}
	}
	r := t.remotes[m.ID]
	if r == nil {
		return ""
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up && !slices.Contains(m.Addrs, r.addr) {
		return fmt.Sprintf("server %d runs at %s already, you say that you are at %s: %s", m.ID, r.addr, strings.Join(m.Addrs, ", "),
			quorum.SameID)
	}
	return ""
}

// moved closes the connection to a server that becomes a member at another address than it
// had as a guest: the member must answer at its new address.
func (t *transport) moved(m quorum.Member) {
	r := t.remote(m.ID)
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.up && !slices.Contains(m.Addrs, r.addr) {
		r.conn.Close()
	}
}
