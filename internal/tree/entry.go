package tree

import (
	"bytes"
	"encoding/binary"
	"fmt"

	"github.com/zooid-project/zooid/jute"
)

// A Request is one record of a batch.
//
//	record := int length-of-rest | int op | long session | long cnx | long seq | int xid | vector<ID> identities | body
//
// From feature level 2 on, a null vector stands for the identities of the record before.
type Request struct {
	Op         jute.Op
	Session    int64     // 0 for internal requests
	Cnx        int64     // connection it came on, unique in the cluster
	Seq        int64     // 1, 2, 3... per connection
	Xid        int32     // the client's number
	Identities []jute.ID // of the connection
	Body       []byte    // the client's record as sent, not decoded
}

// A batch begins with its format and the leader's time, in milliseconds.
const (
	batchFormat     = 1
	batchHeaderSize = 9
	recordFixedSize = 4 + 8 + 8 + 8 + 4 // op to xid
)

// AppendBatchHeader appends what begins a batch: its format and time, in
// milliseconds since 1970.
func AppendBatchHeader(b []byte, ms int64) []byte { return jute.AppendLong(append(b, batchFormat), ms) }

// AppendRecord appends a request as a record. Records are self-delimiting and
// may be copied from batch to batch.
func AppendRecord(b []byte, q *Request) []byte {
	b, start := beginRecord(b, q)
	b = jute.AppendInt(b, int32(len(q.Identities)))
	for i := range q.Identities {
		b = q.Identities[i].Append(b)
	}
	return jute.EndFrame(append(b, q.Body...), start)
}

// AppendNextRecord appends a request whose identities are those of the record that b
// ends with. It may be copied only together with that one, or cut off by CutRecords.
func AppendNextRecord(b []byte, q *Request) []byte {
	b, start := beginRecord(b, q)
	return jute.EndFrame(append(jute.AppendInt(b, asBefore), q.Body...), start)
}

// asBefore is the number of identities that stands for those of the record before.
const asBefore = -1

// beginRecord appends a record up to its identities.
func beginRecord(b []byte, q *Request) (record []byte, start int) {
	b, start = jute.BeginFrame(b)
	b = jute.AppendInt(b, int32(q.Op))
	b = jute.AppendLong(jute.AppendLong(jute.AppendLong(b, q.Session), q.Cnx), q.Seq)
	return jute.AppendInt(b, q.Xid), start
}

// RecordSize returns the size of what AppendRecord appends, in bytes.
func RecordSize(q *Request) int {
	const fixed = 4 + 4 + 3*8 + 4 + 4
	n := fixed + len(q.Body)
	for i := range q.Identities {
		n += 8 + len(q.Identities[i].Scheme) + len(q.Identities[i].ID)
	}
	return n
}

// CutRecords cuts records behind the fewest that have aim bytes or more, or behind all
// of them if they have less. A first record of the other kind is rewritten, so that each
// part may be copied alone.
func CutRecords(records []byte, aim int) (head, rest []byte) {
	r := RecordsOf(records)
	var q Request
	for r.Next(&q) {
		n := len(records) - len(r.rest)
		if n < aim || n == len(records) {
			continue
		}
		if head, rest = records[:n], r.rest; r.Next(&q) && asBeforeAt(rest) {
			rest = append(AppendRecord(make([]byte, 0, len(rest)+len(r.identities)), &q), r.rest...)
		}
		return head, rest
	}
	return records, nil
}

// WithoutRecords returns records without those that drop picks, and how many these were. What
// is left and had the identities of one that is dropped has them itself.
func WithoutRecords(records []byte, drop func(*Request) bool) (left []byte, dropped int) {
	left = make([]byte, 0, len(records))
	r := RecordsOf(records)
	var q Request
	for lost := false; ; {
		before := r.rest
		if !r.Next(&q) {
			return append(left, before...), dropped // nothing, or what can't be read
		}
		switch {
		case drop(&q):
			lost = true
			dropped++
		case lost && asBeforeAt(before):
			left = AppendRecord(left, &q)
			lost = false
		default:
			left = append(left, before[:len(before)-len(r.rest)]...)
			lost = false
		}
	}
}

// asBeforeAt reports whether the record that b begins with has the identities of the
// one before.
func asBeforeAt(b []byte) bool {
	return int32(binary.BigEndian.Uint32(b[4+recordFixedSize:])) == asBefore
}

// AppendDeleteContainer appends the body of a deleteContainer request. A
// container that never had a child is only deleted if it is older than
// neverUsed milliseconds; 0 is forever.
func AppendDeleteContainer(b []byte, path string, neverUsed int64) []byte {
	return jute.AppendLong(jute.AppendString(b, path), neverUsed)
}

// Records iterates over the requests of a batch.
type Records struct {
	time  int64
	rest  []byte
	total int
	err   error
	cache *identityCache

	// Of the record before, since most have the same: the identities' bytes, and
	// what they are, nil if nobody asked.
	identities []byte
	decoded    []jute.ID
}

// NewRecords begins to read a batch, which it aliases.
func NewRecords(batch []byte) Records {
	var r Records
	r.begin(batch, new(identityCache))
	return r
}

// RecordsOf iterates over records that are in no batch.
func RecordsOf(records []byte) Records {
	return Records{rest: records, total: len(records), cache: new(identityCache)}
}

func (r *Records) begin(batch []byte, cache *identityCache) {
	*r = Records{total: len(batch), cache: cache}
	switch {
	case len(batch) < batchHeaderSize:
		r.err = fmt.Errorf("decode batch: %d bytes, too short for its header", len(batch))
	case batch[0] != batchFormat:
		r.err = &NewerError{What: fmt.Sprintf("the batch format %d (this version reads %d)", batch[0], batchFormat), This: batchFormat, Wants: int32(batch[0])}
	default:
		r.time = int64(binary.BigEndian.Uint64(batch[1:]))
		r.rest = batch[batchHeaderSize:]
	}
}

// Time returns the batch's time, milliseconds since 1970 by the leader's clock.
func (r *Records) Time() int64 { return r.time }

// Err returns why Next stopped before the end, or nil.
func (r *Records) Err() error { return r.err }

// Next reads the next request into q, whose Body aliases the batch; the
// identities may be shared between requests. It returns false at the end and on
// an error.
func (r *Records) Next(q *Request) bool {
	raw, ok := r.next(q)
	if !ok {
		return false
	}
	if r.decoded == nil {
		r.decoded = r.cache.decode(raw)
	}
	q.Identities = r.decoded
	return true
}

// next is Next with the identities left as they are.
func (r *Records) next(q *Request) (identities []byte, ok bool) {
	if r.err != nil || len(r.rest) == 0 {
		return nil, false
	}
	b := r.rest
	if len(b) < 4 || int(int32(binary.BigEndian.Uint32(b))) < recordFixedSize+4 || int(binary.BigEndian.Uint32(b)) > len(b)-4 {
		r.err = fmt.Errorf("decode batch: record at offset %d of %d: length doesn't fit", r.total-len(b), r.total)
		return nil, false
	}
	n := 4 + int(binary.BigEndian.Uint32(b))
	r.rest, b = b[n:], b[4:n:n]
	q.Op = jute.Op(binary.BigEndian.Uint32(b))
	q.Session = int64(binary.BigEndian.Uint64(b[4:]))
	q.Cnx = int64(binary.BigEndian.Uint64(b[12:]))
	q.Seq = int64(binary.BigEndian.Uint64(b[20:]))
	q.Xid = int32(binary.BigEndian.Uint32(b[28:]))
	b = b[recordFixedSize:]
	if int32(binary.BigEndian.Uint32(b)) == asBefore {
		if len(r.identities) == 0 {
			r.err = fmt.Errorf("decode batch: the first record, which ends at offset %d of %d, has no identities of its own", r.total-len(r.rest), r.total)
			return nil, false
		}
		q.Body = b[4:]
		return r.identities, true
	}
	if len(r.identities) == 0 || !bytes.HasPrefix(b, r.identities) { // a vector tells its own end
		size, err := identitiesSize(b)
		if err != nil {
			r.err = fmt.Errorf("decode batch: identities of the record that ends at offset %d of %d: %w", r.total-len(r.rest), r.total, err)
			return nil, false
		}
		r.identities, r.decoded = b[:size], nil
	}
	q.Body = b[len(r.identities):]
	return r.identities, true
}

// identitiesSize returns the encoded size of the vector of ID that b begins with.
func identitiesSize(b []byte) (int, error) {
	var d jute.Decoder
	d.Reset(b)
	for range max(d.Count(8), 0) {
		_, _ = d.String(), d.String()
	}
	return d.Offset(), d.Err()
}

// validate reads a whole batch, so that one that is corrupt or from a newer
// version changes nothing, and returns its records, which can't fail any more. It is the
// only place where an entry is refused.
func (t *Tree) validate(batch []byte) (Records, error) {
	var r Records
	r.begin(batch, &t.identities)
	records := r
	level := t.settings.FeatureLevel
	var q Request
	for {
		if _, ok := r.next(&q); !ok {
			return records, r.err
		}
		if needs := LevelOf(q.Op); needs == 0 || needs > level {
			return records, &NewerError{What: fmt.Sprintf("operation %d of session %#x at feature level %d", q.Op, q.Session, level), This: level, Wants: needs}
		}
		if q.Op == OpSettings && q.Session == 0 {
			s, err := t.decodeSettings(jute.NewDecoder(q.Body))
			if err != nil {
				return records, err
			}
			level = max(level, s.FeatureLevel)
		}
		if q.Op == OpChange && q.Session == 0 {
			if _, _, err := decodeStep(q.Body); err != nil {
				return records, err
			}
		}
	}
}
