package peer

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// The kinds of frame that the accepting side of a connection sends. Other kinds are
// ignored, so later versions may add some.
const (
	noteLevel quorum.FrameKind = 1 // the sender's feature level, 4 bytes, and the highest kind of frame it knows, 1 byte
	noteSkips quorum.FrameKind = 2 // the sender's decisions to skip entries (internal/quorum/skips.go)
	// noteLineage is the sender's lineage (lineage.go), 8 bytes.
	noteLineage quorum.FrameKind = 3
	// noteDeparted is the entry that took a life of the receiver out of the membership
	// (internal/quorum/formerlife.go), 16 bytes.
	noteDeparted quorum.FrameKind = 4
	// noteClients are the sender's client addresses (clients.go).
	noteClients quorum.FrameKind = 5
	// noteRules is the sender's announcement of its rules (quorum.StateMachine.Rules).
	noteRules quorum.FrameKind = 6
)

func appendLevel(b []byte, level uint32) []byte {
	return append(binary.BigEndian.AppendUint32(appendFrameHead(b, noteLevel, 5), level), byte(quorum.FrameKindMax))
}

// readNotes reads the notes that the accepting side of c sends, until c ends. It calls
// note with the event of each, in which From isn't set, lineage with the sender's lineage,
// and clients with the payload of noteClients.
func readNotes(c io.Reader, note func(quorum.Event), lineage func(uint64), clients func([]byte)) error {
	r := bufio.NewReaderSize(c, quorum.NoteSizeMax)
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[:])) - 1
		if n < 0 || n > quorum.NoteSizeMax {
			return fmt.Errorf("a note of %d bytes; at most %d", n, quorum.NoteSizeMax)
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		switch kind := quorum.FrameKind(head[4]); {
		case kind == noteLevel && n >= 4:
			e := quorum.Event{Kind: quorum.EventLevel, Level: binary.BigEndian.Uint32(payload)}
			if n > 4 { // earlier versions don't send it
				e.Frames = quorum.FrameKind(payload[4])
			}
			note(e)
		case kind == noteDeparted && n == quorum.DepartureSize:
			note(quorum.Event{Kind: quorum.EventDeparted, Data: payload})
		case kind == noteSkips:
			note(quorum.Event{Kind: quorum.EventSkips, Data: payload})
		case kind == noteRules:
			note(quorum.Event{Kind: quorum.EventRules, Data: payload})
		case kind == noteLineage && n >= 8:
			lineage(binary.BigEndian.Uint64(payload))
		case kind == noteClients:
			clients(payload)
		}
	}
}

// announce sends the dialling side of a connection this server's feature level, its rules, its
// decisions to skip entries, its lineage and its client addresses.
func (t *transport) announce(c net.Conn) error {
	t.notes.Lock()
	defer t.notes.Unlock()
	var b []byte
	if t.level > quorum.LevelFirst {
		b = appendLevel(b, t.level)
		b = append(appendFrameHead(b, noteRules, len(t.rules)), t.rules...)
	}
	if len(t.skips) > 0 {
		b = append(appendFrameHead(b, noteSkips, len(t.skips)), t.skips...)
	}
	if l := t.lineage.Load(); l != 0 {
		b = binary.BigEndian.AppendUint64(appendFrameHead(b, noteLineage, 8), l)
	}
	if t.clients != (ClientAddresses{}) {
		payload := t.clients.append(nil)
		b = append(appendFrameHead(b, noteClients, len(payload)), payload...)
	}
	if len(b) == 0 {
		return nil
	}
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.Write(b)
	c.SetWriteDeadline(time.Time{})
	return err
}

// announceDeparture sends a peer that has connected the last entry that took out a life of it, if this server knows
// one.
func (t *transport) announceDeparture(c net.Conn, to uint64) error {
	if t.standing == nil {
		return nil
	}
	d, ok := t.standing().Departed[to]
	if !ok {
		return nil
	}
	t.notes.Lock()
	defer t.notes.Unlock()
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.Write(d.Append(appendFrameHead(nil, noteDeparted, quorum.DepartureSize)))
	c.SetWriteDeadline(time.Time{})
	return err
}

// announceSkips sets the note of skipped entries that announce sends, and sends it to all
// connected peers.
func (t *transport) announceSkips(note []byte) {
	t.notes.Lock()
	t.skips = note
	t.notes.Unlock()
	t.announceAll()
}

// announceAll sends the notes to all connected peers.
func (t *transport) announceAll() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.reading { // any order: each gets the same
		t.wg.Go(func() {
			if t.announce(r.conn) != nil {
				r.conn.Close() // the peer gets the notes on its next connection
			}
		})
	}
}

// joinLevel returns the feature level in a hello of a server that asks to join.
func (h *hello) joinLevel() uint32 { return max(uint32(h.cluster), quorum.LevelFirst) }

// outdated returns the reason to refuse a server that asks to join but doesn't know the
// level in force, else "".
func (t *transport) outdated(h hello) string {
	if in := t.inForce.Load(); h.kind == connJoin && h.joinLevel() < in {
		return fmt.Sprintf("server %d runs a version that knows feature levels up to %d, this ensemble is at %d: upgrade server %d; nothing else about it needs to change",
			h.from, h.joinLevel(), in, h.from)
	}
	return ""
}
