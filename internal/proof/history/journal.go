package history

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"io"
	"sync"
	"time"
)

// The file format. Numbers are varints (zigzag if they may be negative), except
// for those in the header, which are big-endian.
//
//	header  8 bytes "zooidhis" | byte version=1 | 8 bytes wall clock, ns
//	record  byte kind | varint ns since the record before | uvarint conn | fields
//
//	KindConnect       zxid session timeout
//	KindConnected     session timeout
//	KindRequest       xid op body
//	KindReply         xid zxid err body
//	KindNotification  zxid body
//	KindDisconnect    -
//	KindIdentity      body
//	KindDump          zxid body
//	entry (9)         zxid session cnx seq time term digest xid op err applied body
//
//	body    uvarint length | bytes
const (
	magic         = "zooidhis"
	formatVersion = 1
	headerSize    = len(magic) + 1 + 8
)

// journalBuffer is the size of a Journal's write buffer. It is large, so that the file system doesn't affect
// measurements.
const journalBuffer = 1 << 20

// A Journal writes a history. Many clients may use it at once. It takes each record's time while it holds its lock, so
// the order of the records is the order of their times. A client must record a request before it sends the first byte,
// and a reply after the last byte has arrived: the checker's conclusions from times depend on that.
type Journal struct {
	mu    sync.Mutex
	w     *bufio.Writer
	clock func() int64
	buf   []byte
	last  int64
	conns int32
	err   error
}

// NewJournal starts a history on w with the host's monotonic clock.
func NewJournal(w io.Writer) *Journal {
	start := time.Now()
	return NewJournalClock(w, start.UnixNano(), func() int64 { return int64(time.Since(start)) })
}

// NewJournalClock starts a history on w with a clock that returns nanoseconds and never goes back. wall is the wall
// clock, in nanoseconds, when clock was 0.
func NewJournalClock(w io.Writer, wall int64, clock func() int64) *Journal {
	j := &Journal{w: bufio.NewWriterSize(w, journalBuffer), clock: clock}
	head := append([]byte(magic), formatVersion)
	_, j.err = j.w.Write(binary.BigEndian.AppendUint64(head, uint64(wall)))
	return j
}

// NewConn returns the number of a new connection.
func (j *Journal) NewConn() int32 {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.conns++
	return j.conns - 1
}

// Record sets e.Time, appends e and returns the time.
func (j *Journal) Record(e Event) int64 {
	j.mu.Lock()
	defer j.mu.Unlock()
	e.Time = j.clock()
	j.buf = appendEvent(j.buf[:0], &e, j.last)
	j.last = e.Time
	j.write()
	return e.Time
}

// Entry appends one committed request of a server's log.
func (j *Journal) Entry(server int32, e *Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.buf = appendEntry(j.buf[:0], server, e)
	j.write()
}

func (j *Journal) write() {
	if j.err == nil {
		_, j.err = j.w.Write(j.buf)
	}
}

// Flush writes buffered records and returns the first error of any write.
func (j *Journal) Flush() error {
	j.mu.Lock()
	defer j.mu.Unlock()
	if j.err == nil {
		j.err = j.w.Flush()
	}
	if j.err != nil {
		return fmt.Errorf("write history: %w", j.err)
	}
	return nil
}

func appendEvent(b []byte, e *Event, last int64) []byte {
	b = append(b, byte(e.Kind))
	b = binary.AppendVarint(b, e.Time-last)
	b = binary.AppendUvarint(b, uint64(e.Conn))
	switch e.Kind {
	case KindConnect:
		b = appendVarints(b, e.Zxid, e.Session, int64(e.Num))
	case KindConnected:
		b = appendVarints(b, e.Session, int64(e.Num))
	case KindRequest:
		b = appendBody(appendVarints(b, int64(e.Xid), int64(e.Num)), e.Body)
	case KindReply:
		b = appendBody(appendVarints(b, int64(e.Xid), e.Zxid, int64(e.Num)), e.Body)
	case KindNotification, KindDump:
		b = appendBody(appendVarints(b, e.Zxid), e.Body)
	case KindIdentity:
		b = appendBody(b, e.Body)
	}
	return b
}

func appendEntry(b []byte, server int32, e *Entry) []byte {
	b = append(b, byte(kindEntry), 0) // an entry has no time by the journal's clock
	b = binary.AppendUvarint(b, uint64(server))
	applied := int64(0)
	if e.Applied {
		applied = 1
	}
	b = appendVarints(b, e.Zxid, e.Session, e.Cnx, e.Seq, e.Time, e.Term, int64(e.Digest),
		int64(e.Xid), int64(e.Op), int64(e.Err), applied)
	return appendBody(b, e.Body)
}

func appendVarints(b []byte, v ...int64) []byte {
	for _, x := range v {
		b = binary.AppendVarint(b, x)
	}
	return b
}

func appendBody(b, body []byte) []byte {
	return append(binary.AppendUvarint(b, uint64(len(body))), body...)
}

// Write writes h in the format of a Journal.
func (h *History) Write(w io.Writer) error {
	j := NewJournalClock(w, h.WallStart, nil)
	for i := range h.Events {
		j.buf = appendEvent(j.buf[:0], &h.Events[i], j.last)
		j.last = h.Events[i].Time
		j.write()
	}
	for _, s := range h.Servers {
		for i := range s.Entries {
			j.Entry(s.Server, &s.Entries[i])
		}
	}
	return j.Flush()
}
