package history

import (
	"cmp"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// connsMax bounds the numbers of connections and servers in a history, since the checker has tables indexed by them.
const connsMax = 1 << 24

// ErrCutShort is wrapped by Read's error if the file ends inside a record, as it does when its writer was killed. Read
// returns the records before that, which are a valid history.
var ErrCutShort = errors.New("history is cut short")

// Read reads a whole history into memory. The events refer to that memory.
func Read(r io.Reader) (*History, error) {
	b, err := io.ReadAll(r)
	if err != nil {
		return nil, fmt.Errorf("read history: %w", err)
	}
	return Parse(b)
}

// Parse parses a history. The events refer to b.
func Parse(b []byte) (*History, error) {
	if len(b) < headerSize || string(b[:len(magic)]) != magic {
		return nil, fmt.Errorf("read history: no %q at its start: this is not a history", magic)
	}
	if v := b[len(magic)]; v != formatVersion {
		return nil, fmt.Errorf("read history: its format is version %d, this program reads version %d", v, formatVersion)
	}
	h := &History{WallStart: int64(binary.BigEndian.Uint64(b[len(magic)+1:]))}
	p := parser{b: b, off: headerSize}
	h.Events = make([]Event, 0, len(b)/44) // a request and its reply take at least 90 bytes
	for p.off < len(b) {
		start := p.off
		p.record(h)
		if p.err != nil {
			return h, fmt.Errorf("read history: record at byte %d of %d: %w", start, len(b), p.err)
		}
	}
	return h, nil
}

type parser struct {
	b    []byte
	off  int
	last int64
	err  error
}

func (p *parser) varint() int64 {
	v, n := binary.Varint(p.b[p.off:])
	return int64(p.took(uint64(v), n))
}

func (p *parser) uvarint() uint64 {
	v, n := binary.Uvarint(p.b[p.off:])
	return p.took(v, n)
}

func (p *parser) took(v uint64, n int) uint64 {
	if n <= 0 {
		p.fail(n)
		return 0
	}
	p.off += n
	return v
}

func (p *parser) fail(n int) {
	if p.err == nil {
		if p.err = ErrCutShort; n < 0 {
			p.err = errors.New("a number is too long: the file is damaged")
		}
	}
	p.off = len(p.b)
}

func (p *parser) body() []byte {
	n := p.uvarint()
	if p.err != nil || n > uint64(len(p.b)-p.off) {
		p.fail(0)
		return nil
	}
	v := p.b[p.off : p.off+int(n) : p.off+int(n)]
	p.off += int(n)
	return v
}

func (p *parser) record(h *History) {
	kind := Kind(p.b[p.off])
	p.off++
	dt, conn := p.varint(), p.uvarint()
	switch {
	case p.err != nil:
		return
	case kind == 0 || kind >= kindEnd:
		p.err = fmt.Errorf("unknown kind %d: the file is damaged", kind)
		return
	case conn >= connsMax:
		p.err = fmt.Errorf("connection %d, of at most %d: the file is damaged", conn, connsMax)
		return
	case kind == kindEntry:
		if e := p.entry(); p.err == nil {
			l := h.log(int32(conn))
			l.Entries = append(l.Entries, e)
		}
		return
	}
	e := Event{Kind: kind, Conn: int32(conn), Time: p.last + dt}
	switch kind {
	case KindConnect:
		e.Zxid, e.Session, e.Num = p.varint(), p.varint(), int32(p.varint())
	case KindConnected:
		e.Session, e.Num = p.varint(), int32(p.varint())
	case KindRequest:
		e.Xid, e.Num, e.Body = int32(p.varint()), int32(p.varint()), p.body()
	case KindReply:
		e.Xid, e.Zxid, e.Num, e.Body = int32(p.varint()), p.varint(), int32(p.varint()), p.body()
	case KindNotification, KindDump:
		e.Zxid, e.Body = p.varint(), p.body()
	case KindIdentity:
		e.Body = p.body()
	}
	if p.err == nil {
		p.last = e.Time
		h.Events = append(h.Events, e)
	}
}

func (p *parser) entry() Entry {
	return Entry{
		Zxid: p.varint(), Session: p.varint(), Cnx: p.varint(), Seq: p.varint(), Time: p.varint(), Term: p.varint(),
		Digest: uint64(p.varint()), Xid: int32(p.varint()), Op: jute.Op(p.varint()), Err: jute.Code(p.varint()),
		Applied: p.varint() != 0, Body: p.body(),
	}
}

// Merge combines histories that different processes recorded at the same time on one host. It renumbers connections and
// orders events by wall clock, which must not have been set meanwhile. It keeps the server logs.
func Merge(parts ...*History) *History {
	if len(parts) == 1 {
		return parts[0]
	}
	all := &History{WallStart: parts[0].WallStart}
	for _, h := range parts[1:] {
		all.WallStart = min(all.WallStart, h.WallStart)
	}
	next := int32(0)
	for _, h := range parts {
		base := next
		for _, e := range h.Events {
			if e.Time += h.WallStart - all.WallStart; e.Kind != KindDump {
				e.Conn += base
				next = max(next, e.Conn+1)
			}
			all.Events = append(all.Events, e)
		}
		for _, s := range h.Servers {
			l := all.log(s.Server)
			l.Entries = append(l.Entries, s.Entries...)
		}
	}
	slices.SortStableFunc(all.Events, func(a, b Event) int { return cmp.Compare(a.Time, b.Time) })
	return all
}
