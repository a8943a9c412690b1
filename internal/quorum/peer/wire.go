package peer

import (
	"encoding/binary"
	"fmt"
	"io"
	"sync"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// The protocol between peers. A connection carries messages in one direction only: each
// server dials every other server to send messages, and listens to receive theirs. A
// connection begins with a proof (package handshake) or TLS, then a hello and its answer:
//
//	hello    "ZOOIDPEER" version(1) kind(1) cluster(8) from(8) to(8), and lineage(8) if the kind says so (lineage.go)
//	answer   length(4) reason; an empty reason accepts
//
// Frames follow:
//
//	frame    length(4) kind(1) payload; length counts kind and payload
//
// The accepting side sends only notes, in frames with kinds of their own: its feature level
// (internal/quorum/levels.go) and its decisions to skip entries (internal/quorum/skips.go).
//
// All integers are big-endian.
const (
	helloVersion = 1
	helloSize    = len(handshake.Magic) + 2 + 3*8

	reasonMax = 1 << 10
)

// The kinds of connection.
const (
	connMessages byte = 1
	connSnapshot byte = 2
	connJoin     byte = 3 // see join.go
	connPing     byte = 4 // only checks that a server answers
	connLife     byte = 5 // asks a server with an empty data directory for its life(4); see internal/quorum/lostdisk.go
	connMeet     byte = 6 // see agree.go
	connGuest    byte = 7 // asks to follow without being a member; see visit.go
	connClaim    byte = 8 // asks a server for its state; see claim.go
)

type hello struct {
	kind              byte
	cluster, from, to uint64
}

func (h *hello) append(b []byte) []byte {
	b = append(b, handshake.Magic...)
	b = append(b, helloVersion, h.kind)
	for _, v := range []uint64{h.cluster, h.from, h.to} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

func readHello(r io.Reader) (h hello, err error) {
	version, err := handshake.ReadVersion(r)
	if err != nil {
		return h, err
	}
	if version != helloVersion {
		return h, fmt.Errorf("read a peer's hello: it speaks version %d, this server %d: upgrade the older one", version,
			helloVersion)
	}
	return readHelloRest(r)
}

// readHelloRest reads the rest of a hello whose magic and version have been read.
func readHelloRest(r io.Reader) (h hello, err error) {
	var b [helloSize - len(handshake.Magic) - 1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return h, fmt.Errorf("read a peer's hello: %w", err)
	}
	h.kind = b[0]
	h.cluster, h.from, h.to = binary.BigEndian.Uint64(b[1:]), binary.BigEndian.Uint64(b[9:]),
		binary.BigEndian.Uint64(b[17:])
	return h, nil
}

func writeAnswer(w io.Writer, reason string) error {
	reason = reason[:min(len(reason), reasonMax)]
	_, err := w.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(reason))), reason...))
	return err
}

// readAnswer reads the answer to a hello. It returns nil if the peer accepts, and a refusedError
// with the peer's reason if it refuses.
func readAnswer(r io.Reader) error {
	var n [4]byte
	if _, err := io.ReadFull(r, n[:]); err != nil {
		return fmt.Errorf("read the answer to hello: %w", err)
	}
	size := binary.BigEndian.Uint32(n[:])
	if size > reasonMax {
		return fmt.Errorf("read the answer to hello: its length %d can't be right; is this address a Zooid peer port?", size)
	}
	reason := make([]byte, size)
	if _, err := io.ReadFull(r, reason); err != nil {
		return fmt.Errorf("read the answer to hello: %w", err)
	}
	if size > 0 {
		return &refusedError{string(reason)}
	}
	return nil
}

// A refusedError is a peer's refusal. The next attempt is refused too, unless a
// configuration is changed.
type refusedError struct{ reason string }

func (e *refusedError) Error() string { return "the peer refused: " + e.reason }

// appendFrameHead appends a frame's length and kind for a payload of n bytes.
func appendFrameHead(b []byte, kind quorum.FrameKind, n int) []byte {
	return append(binary.BigEndian.AppendUint32(b, uint32(n+1)), byte(kind))
}

// readFrame reads one frame into buf, which grows as bytes arrive.
func readFrame(r io.Reader, buf []byte) (kind quorum.FrameKind, payload []byte, err error) {
	var head [5]byte
	if _, err := io.ReadFull(r, head[:]); err != nil {
		return 0, buf, err
	}
	n, most := int(binary.BigEndian.Uint32(head[:])), quorum.FrameKind(head[4]).SizeMax()
	if n < 1 || n > most {
		return 0, buf, fmt.Errorf("a frame of %d bytes; at most %d", n, most)
	}
	buf = buf[:0]
	for n--; len(buf) < n; {
		const step = 1 << 20
		part := min(n-len(buf), step)
		buf = append(buf, make([]byte, part)...)
		if _, err := io.ReadFull(r, buf[len(buf)-part:]); err != nil {
			return 0, buf, fmt.Errorf("a frame is cut short: %w", err)
		}
	}
	return quorum.FrameKind(head[4]), buf, nil
}

// frames is a pool of buffers for frames.
type frames struct{ pool sync.Pool }

// take returns a buffer to read a frame into, or nil.
func (f *frames) take() []byte {
	b, _ := f.pool.Get().(*[]byte)
	if b == nil {
		return nil
	}
	return (*b)[:0]
}

// give puts a buffer back into the pool. The caller must not use it afterwards.
func (f *frames) give(b []byte) {
	if cap(b) <= quorum.FrameKeepBytes {
		f.pool.Put(&b)
	}
}
