package wire

import (
	"encoding/binary"
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// Kind says how a reply is evaluated.
type Kind uint8

// The bits of a Kind. A read has none of them.
const (
	KindWrite     Kind = 1 << iota // counted as a write
	KindMulti                      // errors are in the body; the header says OK
	KindMissingOK                  // NoNode isn't an error: the znode may already be gone
)

// Request appends one frame to b; the loop sets the xid. i is the number of the request: among those of this connection
// in a timed trial, and among those of all connections in a counted one. A Request belongs to one connection and may
// have state.
type Request func(b []byte, i uint64) ([]byte, Kind)

// Source returns the Request of a connection. Connections are numbered from 0.
type Source func(conn int) Request

// preparedMax bounds the memory of requests encoded in advance. More would displace the server from the shared cache.
const preparedMax = 256 << 20

// Encode returns a frame with xid 0. A nil appendRecord means no record.
func Encode(op jute.Op, appendRecord func([]byte) []byte) []byte {
	return jute.AppendRequest(nil, 0, op, appendRecord)
}

// PutXid sets the xid of the frame at the start of b.
func PutXid(b []byte, xid int32) { binary.BigEndian.PutUint32(b[4:], uint32(xid)) }

// NextXid returns the next xid, which is positive as for other clients.
func NextXid(xid int32) int32 { return (xid + 1) & 0x7fffffff }

// GetFrame encodes a getData.
func GetFrame(path string, watch bool) []byte {
	r := jute.PathWatchRequest{Path: path, Watch: watch}
	return Encode(jute.OpGetData, r.Append)
}

// SetFrame encodes a setData of any version.
func SetFrame(path string, data []byte) []byte {
	r := jute.SetDataRequest{Path: path, Data: data, Version: -1}
	return Encode(jute.OpSetData, r.Append)
}

// ChildrenFrame encodes a getChildren.
func ChildrenFrame(path string) []byte {
	r := jute.PathWatchRequest{Path: path}
	return Encode(jute.OpGetChildren, r.Append)
}

// CreateFrame encodes the creation of a persistent znode with an open ACL.
func CreateFrame(path string, data []byte) []byte {
	r := jute.CreateRequest{Path: path, Data: data, ACL: jute.WorldACL(jute.PermAll)}
	return Encode(jute.OpCreate, r.Append)
}

// DeleteFrame encodes a delete of any version.
func DeleteFrame(path string) []byte {
	r := jute.PathVersionRequest{Path: path, Version: -1}
	return Encode(jute.OpDelete, r.Append)
}

// MultiFrame encodes a multi, or a multiRead if its operations read.
func MultiFrame(ops []jute.MultiOp) []byte {
	op := jute.OpMulti
	if len(ops) > 0 && ops[0].IsRead() {
		op = jute.OpMultiRead
	}
	return Encode(op, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
}

// Prepare encodes n frames, with at most preparedMax bytes in total.
func Prepare(n int, frame func(i int) []byte) ([][]byte, error) {
	frames := make([][]byte, n)
	size := 0
	for i := range frames {
		frames[i] = frame(i)
		if size += len(frames[i]); size > preparedMax {
			return nil, fmt.Errorf("encode requests in advance: %d of %d znodes fill %d MiB; ask for fewer -keys or a smaller -size",
				i+1, n, preparedMax>>20)
		}
	}
	return frames, nil
}

// numberWidth is the number of digits of a numbered request.
const numberWidth = 10

// numbered is a frame whose path ends in a number of numberWidth digits. It is
// copied and patched for each request.
type numbered struct {
	frame []byte
	at    int // offset of the first digit in frame
}

// NewNumbered returns the frame for paths that consist of a prefix and a number. build encodes the request for one
// path.
func NewNumbered(prefix string, build func(path string) []byte) numbered {
	const zeros = "0000000000"
	return numbered{frame: build(prefix + zeros), at: 4 + jute.RequestHeaderSize + 4 + len(prefix)}
}

// Append appends the frame for number i, of which it uses the last numberWidth digits.
func (n numbered) Append(b []byte, i uint64) []byte {
	start := len(b)
	b = append(b, n.frame...)
	PutDigits(b[start+n.at:start+n.at+numberWidth], i)
	return b
}

// PutDigits fills d with the decimal digits of i, padded with zeros.
func PutDigits(d []byte, i uint64) {
	for at := len(d) - 1; at >= 0; at-- {
		d[at] = byte('0' + i%10)
		i /= 10
	}
}

// NumberedPath returns the path with prefix in request number i.
func NumberedPath(prefix string, i int) string { return fmt.Sprintf("%s%0*d", prefix, numberWidth, i) }

// MultiError returns the error in the reply body of a multi or multiRead: that of the first result that failed by
// itself. It ignores results that were rolled back or never tried because of another.
func MultiError(body []byte) jute.Code {
	var d jute.Decoder
	d.Reset(body)
	var stat jute.Stat
	for {
		op, done := jute.Op(d.Int()), d.Bool()
		d.Int()
		if d.Err() != nil {
			return jute.ErrMarshallingError
		}
		if done {
			return jute.OK
		}
		switch op {
		case jute.OpError:
			if c := jute.Code(d.Int()); c != jute.OK {
				return c
			}
		case jute.OpCreate:
			_ = d.String()
		case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			_ = d.String()
			stat.Decode(&d)
		case jute.OpSetData:
			stat.Decode(&d)
		case jute.OpGetData:
			d.Buffer()
			stat.Decode(&d)
		case jute.OpGetChildren:
			for range max(d.Count(4), 0) {
				_ = d.String()
			}
		}
	}
}
