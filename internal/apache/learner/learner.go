package learner

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/jute"
)

// A Learner is one connection to a leader. The leader's packets drive it.
type Learner struct {
	o     Options
	phase phase
	epoch int64
	zxid  int64 // of the last transaction returned, or of the snapshot
	fuzzy bool  // a snapshot was received; transactions up to its zxid may come again
	// proposals haven't been committed yet.
	proposals [][]byte
	bytes     int // size of proposals
	config    []byte
}

// Options describe the learner and what it has.
type Options struct {
	ID            int64 // the learner's id, which no server has
	AcceptedEpoch int64 // the highest that was promised to a leader
	CurrentEpoch  int64 // of the leader followed last
	Zxid          int64 // of the last transaction it has; 0 for none
	ConfigVersion int64 // of the newest known configuration
}

// phase says which packet is expected next.
type phase int

const (
	hello   phase = iota // LEADERINFO
	choice               // DIFF, TRUNC or SNAP
	syncing              // what is missing, then NEWLEADER
	waiting              // UPTODATE
	serving
)

func (p phase) String() string {
	return [...]string{"LEADERINFO", "DIFF, TRUNC or SNAP", "NEWLEADER", "UPTODATE", "INFORM or PING"}[p]
}

// Limits on proposals that wait for their commit while the learner is being synchronized.
const (
	proposalsMax     = 100_000
	proposalBytesMax = 256 << 20
)

// A Step is what a packet asks the caller to do, in the order of the fields.
type Step struct {
	// Accept is an epoch to be stored as accepted before Send is sent; 0 for none.
	Accept int64
	// Snapshot says that a snapshot follows on the connection, at the learner's current zxid.
	Snapshot bool
	// Records are transactions to apply. They are valid until the next step.
	Records [][]byte
	// Current is the epoch of a leader whose state was taken over, to be stored with all of the above before Send is
	// sent; 0 for none.
	Current int64
	// Announced is the configuration that the leader begins with, before Current is stored. Config repeats it later.
	Announced []byte
	// Config is the text of a new configuration.
	Config []byte
	// Send is sent to the leader.
	Send []byte
	// Live says that the learner has everything that the leader had when it accepted the learner.
	Live bool
	// Proposed is the zxid last proposed by the leader, from a ping; 0 if the packet isn't a ping.
	Proposed int64
}

// ErrStartOver says that the learner's data isn't part of the leader's history: everything must be received from the
// leader again.
var ErrStartOver = errors.New("the leader has another history, and everything must be fetched from it again")

const protocolVersion = 0x10000

// New returns a learner, and the first packet to send.
func New(o Options) (l *Learner, send []byte) {
	data := jute.AppendLong(jute.AppendInt(jute.AppendLong(nil, o.ID), protocolVersion), o.ConfigVersion)
	p := Packet{ObserverHello, o.AcceptedEpoch << 32, data}
	return &Learner{o: o, zxid: o.Zxid}, p.Append(nil)
}

// Zxid returns the zxid of the last transaction returned, or of the snapshot.
func (l *Learner) Zxid() int64 { return l.zxid }

// Step processes one packet. After an error the connection must be closed.
func (l *Learner) Step(p *Packet) (Step, error) {
	var s Step
	var err error
	switch {
	case p.Type == Ping && l.phase >= syncing:
		s.Proposed = p.Zxid
		s.Send = (&Packet{Ping, p.Zxid, []byte{}}).Append(nil)
	case l.phase == hello && p.Type == LeaderHello:
		err = l.greet(p, &s)
	case l.phase == choice && (p.Type == Diff || p.Type == Trunc || p.Type == Snap):
		err = l.choose(p, &s)
	case l.phase == syncing && p.Type == NewLeader:
		err = l.follow(p, &s)
	case l.phase == waiting && p.Type == UpToDate:
		l.phase, s.Live = serving, true
		s.Config, l.config = l.config, nil
		s.Send = (&Packet{Ack, l.epoch << 32, nil}).Append(nil)
	case l.phase >= syncing:
		err = l.commit(p, &s)
	default:
		err = l.unexpected(p)
	}
	return s, err
}

func (l *Learner) unexpected(p *Packet) error {
	return fmt.Errorf("the leader sends %v at zxid %#x; want %v", p.Type, uint64(p.Zxid), l.phase)
}

// greet processes the leader's epoch.
func (l *Learner) greet(p *Packet, s *Step) error {
	epoch := p.Zxid >> 32
	switch {
	case len(p.Data) < 4 || binary.BigEndian.Uint32(p.Data) < protocolVersion:
		return errors.New("the leader speaks a protocol older than 3.4's")
	case epoch < 1 || epoch > files.EpochMax:
		return fmt.Errorf("the leader's epoch is %d; want 1 to %d", epoch, files.EpochMax)
	case epoch < l.o.AcceptedEpoch:
		return fmt.Errorf("the leader's epoch %d is lower than %d, which was promised to another leader", epoch,
			l.o.AcceptedEpoch)
	}
	current := int32(-1) // the leader has already counted this learner's promise
	if epoch > l.o.AcceptedEpoch {
		s.Accept, current = epoch, int32(l.o.CurrentEpoch)
	}
	l.epoch, l.phase = epoch, choice
	s.Send = (&Packet{AckEpoch, l.zxid, jute.AppendInt(nil, current)}).Append(nil)
	return nil
}

// choose processes the leader's choice of how to synchronize.
func (l *Learner) choose(p *Packet, s *Step) error {
	switch p.Type {
	case Trunc:
		return fmt.Errorf("%w: it ends at zxid %#x, the copy at %#x", ErrStartOver, uint64(p.Zxid), uint64(l.zxid))
	case Snap:
		if p.Zxid < 0 {
			return l.unexpected(p)
		}
		s.Snapshot, l.fuzzy, l.zxid = true, true, p.Zxid
	}
	l.phase = syncing
	return nil
}

// follow accepts the leader: everything that it had committed was returned.
func (l *Learner) follow(p *Packet, s *Step) error {
	if p.Zxid>>32 != l.epoch || p.Zxid&0xffffffff != 0 {
		return fmt.Errorf("the leader begins epoch %#x, but announced %#x", uint64(p.Zxid)>>32, l.epoch)
	}
	if len(p.Data) > ConfigBytesMax {
		return fmt.Errorf("a configuration of %d bytes; at most %d", len(p.Data), ConfigBytesMax)
	}
	l.phase, l.fuzzy = waiting, false
	l.config = append([]byte{}, p.Data...)
	s.Current, s.Announced = l.epoch, l.config
	s.Send = (&Packet{Ack, l.epoch << 32, nil}).Append(nil)
	return nil
}

// commit processes packets that carry or commit transactions.
func (l *Learner) commit(p *Packet, s *Step) error {
	switch p.Type {
	case Proposal:
		if len(l.proposals) == proposalsMax || l.bytes+len(p.Data) > proposalBytesMax {
			return fmt.Errorf("the leader proposes more than %d transactions or %d bytes and commits none", proposalsMax,
				proposalBytesMax)
		}
		l.proposals = append(l.proposals, append([]byte{}, p.Data...))
		l.bytes += len(p.Data)
		return nil
	case Commit, CommitAndActivate:
		if len(l.proposals) == 0 {
			return fmt.Errorf("the leader commits zxid %#x, which it hasn't proposed", uint64(p.Zxid))
		}
		record := l.proposals[0]
		l.proposals = l.proposals[1:]
		l.bytes -= len(record)
		return l.hand(p.Zxid, record, s)
	case Inform:
		return l.hand(p.Zxid, p.Data, s)
	case InformAndActivate:
		if len(p.Data) < 8 {
			return fmt.Errorf("INFORMANDACTIVATE with %d bytes of data", len(p.Data))
		}
		record := p.Data[8:] // after the id of the designated leader
		s.Config = files.ConfigIn(record)
		return l.hand(p.Zxid, record, s)
	case Revalidate, Sync:
		return nil // answers to questions that the learner never asks
	}
	return l.unexpected(p)
}

// hand returns a committed transaction to the caller. Zxids are consecutive, except where an epoch begins;
// transactions that a snapshot may include come again.
func (l *Learner) hand(zxid int64, record []byte, s *Step) error {
	found, err := files.TxnZxid(record)
	switch {
	case err != nil:
		return err
	case found != zxid:
		return fmt.Errorf("the leader commits zxid %#x, but the transaction's is %#x", uint64(zxid), uint64(found))
	case l.fuzzy && zxid <= l.zxid && zxid > 0:
		s.Records = append(s.Records, record)
		return nil
	case zxid != l.zxid+1 && !(zxid>>32 > l.zxid>>32 && zxid&0xffffffff == 1):
		return fmt.Errorf("%w: zxid %#x follows %#x", ErrStartOver, uint64(zxid), uint64(l.zxid))
	}
	l.zxid = zxid
	s.Records = append(s.Records, record)
	return nil
}
