package quorum

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"maps"
	"slices"
)

// The old disk of a server may come back, for example by a snapshot of its machine, after the server has joined with an
// empty one. Its data is of a former life (lostdisk.go): an entry of the log has taken that life out, and the leader
// counts on what the server has acknowledged since. So the server can't continue with the old data. It need not:
// everything that the former life had acknowledged was accounted for when that life was taken out. So the server sets
// its data aside and joins again, as after losing its disk (docs/decisions/008-lost-disks.md, "Old disks").
//
// A server learns this from a peer that has applied the entry. Each server keeps, for each other server, the last entry
// that took out a life of it, and sends that entry on each connection that it accepts from that server. Data that
// doesn't hold that entry is of a former life: a server that the entry let in holds it after joining, and knows while
// joining that it joins after that entry.
//
//	file departed    for each server, by ascending id: id(8) index(8) term(8)
//	note             index(8) term(8)
type departures struct {
	*view
	roster *roster
	writes *writes

	of          map[uint64]Departure // by server; replaced, never modified: Status shares it
	kept        []byte               // the file's content
	retry       uint64               // after a failure: tick before which the file isn't written again
	joinedAfter uint64               // LoopOptions.JoinedAfter
}

// A Departure is the entry that took a life of a server out of the membership.
type Departure struct{ Index, Term uint64 }

const (
	departedName = "departed"
	departedSize = 24
	// DepartureSize is the size of an encoded Departure, in bytes.
	DepartureSize = 16
)

// Append appends the note's encoding.
func (d Departure) Append(b []byte) []byte {
	return binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, d.Index), d.Term)
}

// A FormerLifeError says that this server's data is of a former life. Use errors.As to find it.
type FormerLifeError struct {
	Server    uint64
	Departure        // the entry that took the life out
	From      uint64 // the server that reported it
	Last      uint64 // index of the last entry that the data holds
}

func (e *FormerLifeError) Error() string {
	return fmt.Sprintf("the data of this server (%d) is of a former life, an older copy of its disk: server %d says that log entry %d of term %d has taken that life out, and the data, whose log ends at %d, doesn't hold that entry. The server has joined the ensemble with an empty disk since",
		e.Server, e.From, e.Index, e.Term, e.Last)
}

// read loads the file. A file of another size counts as missing: the server then reports no departures.
func (d *departures) read() error {
	d.of = map[uint64]Departure{}
	b, err := d.dir.Kept(departedName)
	if err != nil {
		return fmt.Errorf("read which servers have lost their data: %w", err)
	}
	if len(b)%departedSize != 0 {
		return nil
	}
	d.kept = b
	for ; len(b) > 0; b = b[departedSize:] {
		d.of[binary.BigEndian.Uint64(b)] = Departure{binary.BigEndian.Uint64(b[8:]), binary.BigEndian.Uint64(b[16:])}
	}
	return nil
}

// note records that an entry has taken out a life of a server.
func (d *departures) note(id uint64, at Departure) {
	if at.Index <= d.of[id].Index {
		return // the log is applied again after a restart
	}
	d.of = maps.Clone(d.of)
	if len(d.of) >= lostMax {
		clear(d.of)
	}
	d.of[id] = at
}

// keep writes the file if it has changed.
func (d *departures) keep() {
	if d.ticks < d.retry {
		return
	}
	var b []byte
	for _, id := range slices.Sorted(maps.Keys(d.of)) {
		b = d.of[id].Append(binary.BigEndian.AppendUint64(b, id))
	}
	if bytes.Equal(b, d.kept) {
		return
	}
	if err := d.dir.Keep(departedName, b); err != nil {
		d.retry = d.ticks + rosterRetryTicks
		d.log.Warn("the list of servers that have lost their data could not be written; it will be tried again", "err", err)
		return
	}
	d.kept = b
}

// told handles a peer's report of the last entry that took out a life of this server.
func (d *departures) told(e Event) {
	if len(e.Data) != DepartureSize || !isMember(d.roster.membersKnown(), e.From) && !contains(d.conf, e.From) {
		return
	}
	at := Departure{binary.BigEndian.Uint64(e.Data), binary.BigEndian.Uint64(e.Data[8:])}
	if at.Index == 0 || at.Index <= d.joinedAfter {
		return // the entry that has let this life in, or an earlier one
	}
	last, _, err := d.writes.lastEntry() // the entry may be in the write under way
	if err != nil {
		d.failed = fmt.Errorf("read the log's last index: %w", err)
		return
	}
	if at.Index <= last {
		if term, err := d.disk.Term(at.Index); err != nil || term == at.Term {
			return // the log holds it, or a snapshot has replaced it
		}
	}
	d.failed = &FormerLifeError{Server: d.id, Departure: at, From: e.From, Last: last}
}
