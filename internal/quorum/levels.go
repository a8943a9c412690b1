package quorum

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
)

// Feature levels let servers of different versions run together. What the log may
// hold, and what applying it computes, depends on the level in force, which is part
// of the replicated state (docs/decisions/011).
//
//   - Each server announces the highest level it knows on each connection it accepts,
//     in the direction in which connections otherwise carry nothing: the first version
//     announces nothing and ignores what comes there, so it counts as level 1.
//   - The leader tells its state machine the highest level that all members know,
//     voters and observers, while it is connected to all of them. The state machine
//     raises the level in force by an entry of the log.
//   - A leader sends no entries and no snapshot to a server that doesn't know the
//     level in force, and no server lets one join: its data stays as it is until it is
//     upgraded.
//
// The level of a server that joins is in its hello, in the lower half of the cluster's
// place.

const (
	// levelFirst is what a server that announces nothing knows.
	levelFirst = 1
	// levelTicks is the pause between two looks at what the members know.
	levelTicks = 4
	// noteSizeMax bounds a frame from the accepting side of a connection.
	noteSizeMax = 1 << 10
)

// The kinds of frame that the accepting side of a connection sends. Others are ignored,
// so later versions may add some.
const (
	noteLevel FrameKind = 1 // announces a level: 4 bytes
	noteSkips FrameKind = 2 // skipped entries (skips.go)
)

func appendLevel(b []byte, level uint32) []byte {
	return binary.BigEndian.AppendUint32(appendFrameHead(b, noteLevel, 4), level)
}

// readNotes reads what the accepting side of a connection says until it ends, and calls
// note with what each note means, but for From.
func readNotes(c io.Reader, note func(Event)) error {
	r := bufio.NewReaderSize(c, noteSizeMax)
	for {
		var head [5]byte
		if _, err := io.ReadFull(r, head[:]); err != nil {
			return err
		}
		n := int(binary.BigEndian.Uint32(head[:])) - 1
		if n < 0 || n > noteSizeMax {
			return fmt.Errorf("a note of %d bytes; at most %d", n, noteSizeMax)
		}
		payload := make([]byte, n)
		if _, err := io.ReadFull(r, payload); err != nil {
			return err
		}
		switch kind := FrameKind(head[4]); {
		case kind == noteLevel && n >= 4:
			note(Event{Kind: EventLevel, Level: binary.BigEndian.Uint32(payload)})
		case kind == noteSkips:
			note(Event{Kind: EventSkips, Data: payload})
		}
	}
}

// announce tells the dialling side of a connection which level this server knows, and
// which entries it skips.
func (t *transport) announce(c net.Conn) error {
	t.notes.Lock()
	defer t.notes.Unlock()
	var b []byte
	if t.level > levelFirst {
		b = appendLevel(b, t.level)
	}
	if len(t.skips) > 0 {
		b = append(appendFrameHead(b, noteSkips, len(t.skips)), t.skips...)
	}
	if len(b) == 0 {
		return nil
	}
	c.SetWriteDeadline(time.Now().Add(writeTimeout))
	_, err := c.Write(b)
	c.SetWriteDeadline(time.Time{})
	return err
}

// announceSkips makes note what is announced, also to those who are connected.
func (t *transport) announceSkips(note []byte) {
	t.notes.Lock()
	t.skips = note
	t.notes.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, r := range t.reading { // any order: each is told the same
		t.wg.Go(func() {
			if t.announce(r.conn) != nil {
				r.conn.Close() // what it missed is told on the next one
			}
		})
	}
}

// joinLevel returns the level that a server which asks to join knows.
func (h *hello) joinLevel() uint32 { return max(uint32(h.cluster), levelFirst) }

// outdated returns the reason to refuse a server that asks to join and doesn't know
// the level in force, else "".
func (t *transport) outdated(h hello) string {
	if in := t.inForce.Load(); h.kind == connJoin && h.joinLevel() < in {
		return fmt.Sprintf("server %d runs a version that knows feature levels up to %d, this ensemble is at %d: upgrade server %d; nothing else about it needs to change", h.from, h.joinLevel(), in, h.from)
	}
	return ""
}

// levels is what a Loop knows of the members' versions.
type levels struct {
	inForce  uint32
	known    map[uint64]uint32 // announced on the present connection
	outdated map[uint64]int    // looks since which a connected member knows too little
}

// announced takes note of a peer's level; 0 is that of a new connection.
func (v *levels) announced(id uint64, level uint32) { v.known[id] = level }

// of returns the level that a peer knows as far as this server does.
func (v *levels) of(id uint64) uint32 { return max(v.known[id], levelFirst) }

// tick looks whether the level can be raised.
func (v *levels) tick(l *Loop) {
	v.inForce, _ = l.o.State.Levels()
	if l.ticks%levelTicks == 0 && l.node.IsLeader() {
		l.o.State.Supported(v.supported(l))
		v.complain(l)
	}
}

// outdatedLooks is how many looks in a row a member must know too little before the
// leader says so: its announcement may be on the way.
const outdatedLooks = 5

// complain says which members don't know the level in force.
func (v *levels) complain(l *Loop) {
	for _, f := range l.node.Followers() {
		if level := v.of(f.ID); level >= v.inForce || !l.o.Shell.Connected(f.ID) {
			delete(v.outdated, f.ID)
		} else if v.outdated[f.ID]++; v.outdated[f.ID] == outdatedLooks {
			l.log.Warn("a server runs a version that is too old for this ensemble: it is sent nothing until it is upgraded; its data stays as it is",
				"server", f.ID, "knows", level, "inForce", v.inForce)
		}
	}
}

// supported returns the highest level that all members know, at least that in force.
func (v *levels) supported(l *Loop) uint32 {
	inForce, level := l.o.State.Levels()
	members := slices.Concat(l.conf.GetVoters(), l.conf.GetVotersOutgoing(), l.conf.GetLearners(), l.conf.GetLearnersNext())
	wanted := l.wanted
	if len(wanted) == 0 {
		wanted = l.o.Members
	}
	for _, m := range wanted {
		members = append(members, m.ID)
	}
	for _, id := range members {
		if id == l.o.ID {
			continue
		}
		if !l.o.Shell.Connected(id) {
			return inForce
		}
		level = min(level, v.of(id))
	}
	return max(level, inForce)
}

// withholds reports whether m must not be sent: it carries entries or a snapshot of a
// level that its receiver doesn't know.
func (v *levels) withholds(l *Loop, m *pb.Message) bool {
	if v.inForce <= levelFirst || m.GetType() != pb.MsgApp && m.GetType() != pb.MsgSnap {
		return false
	}
	return v.known[m.GetTo()] < v.inForce
}
