package learner

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"github.com/zooid-project/zooid/jute"
)

// A Type is the type of a packet.
type Type int32

// The types that a leader and an observer send.
const (
	Request           Type = 1
	Proposal          Type = 2
	Ack               Type = 3
	Commit            Type = 4
	Ping              Type = 5
	Revalidate        Type = 6
	Sync              Type = 7
	Inform            Type = 8
	CommitAndActivate Type = 9
	NewLeader         Type = 10
	FollowerHello     Type = 11 // FOLLOWERINFO
	UpToDate          Type = 12
	Diff              Type = 13
	Trunc             Type = 14
	Snap              Type = 15
	ObserverHello     Type = 16 // OBSERVERINFO
	LeaderHello       Type = 17 // LEADERINFO
	AckEpoch          Type = 18
	InformAndActivate Type = 19
)

var typeNames = map[Type]string{
	Request: "REQUEST", Proposal: "PROPOSAL", Ack: "ACK", Commit: "COMMIT", Ping: "PING", Revalidate: "REVALIDATE",
	Sync: "SYNC", Inform: "INFORM",
	CommitAndActivate: "COMMITANDACTIVATE", NewLeader: "NEWLEADER", FollowerHello: "FOLLOWERINFO", UpToDate: "UPTODATE",
	Diff: "DIFF", Trunc: "TRUNC",
	Snap: "SNAP", ObserverHello: "OBSERVERINFO", LeaderHello: "LEADERINFO", AckEpoch: "ACKEPOCH",
	InformAndActivate: "INFORMANDACTIVATE",
}

// String returns Apache's name of the type.
func (t Type) String() string {
	if name := typeNames[t]; name != "" {
		return name
	}
	return fmt.Sprintf("type %d", int32(t))
}

// A Packet is what leader and learner send each other, without any framing:
//
//	int type | long zxid | buffer data | vector<ustring scheme, ustring id> authinfo
//
// Packets from a leader to an observer have no authinfo.
type Packet struct {
	Type Type
	Zxid int64
	Data []byte // nil for null
}

// Limits of a packet.
const (
	// DataBytesMax bounds a packet's data: a transaction, which may be a multi of many znodes.
	DataBytesMax = 64 << 20
	// authEntriesMax and authBytesMax bound the identities, which are read and dropped.
	authEntriesMax = 64
	authBytesMax   = 4 << 10
)

// Append appends the packet's bytes.
func (p *Packet) Append(b []byte) []byte {
	b = jute.AppendLong(jute.AppendInt(b, int32(p.Type)), p.Zxid)
	return jute.AppendInt(jute.AppendBuffer(b, p.Data), -1)
}

// A Reader reads packets.
type Reader struct {
	R io.Reader
	// Max, if not 0, bounds a packet's data in addition to DataBytesMax.
	Max  int
	head [16]byte
	buf  []byte
}

// readStep is how much is allocated at once for a packet's data: so a claimed length costs no memory by itself.
const readStep = 64 << 10

// Next reads a packet, whose data is valid until the next call. The error is io.EOF only between two packets.
func (r *Reader) Next() (p Packet, err error) {
	if _, err := io.ReadFull(r.R, r.head[:]); err != nil {
		return p, err
	}
	be := binary.BigEndian
	p.Type, p.Zxid = Type(be.Uint32(r.head[:])), int64(be.Uint64(r.head[4:]))
	limit := DataBytesMax
	if r.Max != 0 {
		limit = min(r.Max, limit)
	}
	if p.Data, err = r.bytes(int32(be.Uint32(r.head[12:])), limit); err == nil {
		err = r.skipAuth()
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	if err != nil {
		return p, fmt.Errorf("read a packet of %v: %w", p.Type, err)
	}
	return p, nil
}

// bytes reads a buffer of n bytes; -1 stands for null.
func (r *Reader) bytes(n int32, limit int) ([]byte, error) {
	switch {
	case n == -1:
		return nil, nil
	case n < 0 || int(n) > limit:
		return nil, fmt.Errorf("a length of %d bytes; at most %d", n, limit)
	case n == 0:
		return []byte{}, nil
	}
	r.buf = r.buf[:0]
	for len(r.buf) < int(n) {
		have := len(r.buf)
		step := min(int(n)-have, max(readStep, cap(r.buf)-have))
		if cap(r.buf)-have < step {
			r.buf = append(r.buf, make([]byte, max(step, have))...)[:have]
			step = min(int(n)-have, cap(r.buf)-have)
		}
		if _, err := io.ReadFull(r.R, r.buf[have:have+step]); err != nil {
			return nil, err
		}
		r.buf = r.buf[:have+step]
	}
	return r.buf, nil
}

// skipAuth reads and discards the identities.
func (r *Reader) skipAuth() error {
	n, err := r.int()
	if err != nil || n == -1 {
		return err
	}
	if n < 0 || n > authEntriesMax {
		return fmt.Errorf("%d identities; at most %d", n, authEntriesMax)
	}
	var drop [authBytesMax]byte
	for range 2 * n {
		length, err := r.int()
		if err != nil {
			return err
		}
		if length < -1 || length > authBytesMax {
			return fmt.Errorf("an identity of %d bytes; at most %d", length, authBytesMax)
		}
		if _, err := io.ReadFull(r.R, drop[:max(length, 0)]); err != nil {
			return err
		}
	}
	return nil
}

func (r *Reader) int() (int32, error) {
	if _, err := io.ReadFull(r.R, r.head[:4]); err != nil {
		return 0, err
	}
	return int32(binary.BigEndian.Uint32(r.head[:])), nil
}
