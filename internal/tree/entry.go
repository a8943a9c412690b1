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
// From feature level 2 on, a null vector means the identities of the previous record.
type Request struct {
	Op         jute.Op
	Session    int64     // 0 for internal requests
	Cnx        int64     // connection on which it arrived; the number is unique in the cluster
	Seq        int64     // 1, 2, 3... per connection
	Xid        int32     // the client's number for it
	Identities []jute.ID // of the connection
	Body       []byte    // the client's record as sent, not decoded
}

// A batch begins with its format and the leader's time, in milliseconds.
const (
	batchFormat     = 1
	batchHeaderSize = 9
	recordFixedSize = 4 + 8 + 8 + 8 + 4 // op to xid
)

// AppendBatchHeader appends the header of a batch: its format and its time, in milliseconds since 1970.
func AppendBatchHeader(b []byte, ms int64) []byte { return jute.AppendLong(append(b, batchFormat), ms) }

// AppendRecord appends a request as a record. Records are self-delimiting and may be copied from batch to batch.
func AppendRecord(b []byte, q *Request) []byte {
	b, start := beginRecord(b, q)
	b = jute.AppendInt(b, int32(len(q.Identities)))
	for i := range q.Identities {
		b = q.Identities[i].Append(b)
	}
	return jute.EndFrame(append(b, q.Body...), start)
}

// AppendNextRecord appends a request with the identities of the last record in b. The new record may be copied only
// together with that record, or after CutRecords has separated them.
func AppendNextRecord(b []byte, q *Request) []byte {
	b, start := beginRecord(b, q)
	return jute.EndFrame(append(jute.AppendInt(b, asBefore), q.Body...), start)
}

// asBefore is the number of identities that means "the identities of the previous record".
const asBefore = -1

// beginRecord appends the part of a record before its identities.
func beginRecord(b []byte, q *Request) (record []byte, start int) {
	b, start = jute.BeginFrame(b)
	b = jute.AppendInt(b, int32(q.Op))
	b = jute.AppendLong(jute.AppendLong(jute.AppendLong(b, q.Session), q.Cnx), q.Seq)
	return jute.AppendInt(b, q.Xid), start
}

// RecordSize returns the size in bytes of the record that AppendRecord appends.
func RecordSize(q *Request) int {
	const fixed = 4 + 4 + 3*8 + 4 + 4
	n := fixed + len(q.Body)
	for i := range q.Identities {
		n += 8 + len(q.Identities[i].Scheme) + len(q.Identities[i].ID)
	}
	return n
}

// CutRecords splits records: head has the fewest records of aim bytes or more in total, or all
// of them if they have less. If the first record of rest refers to the identities of the
// previous record, it is rewritten, so that each part may be copied alone.
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

// WithoutRecords returns records without those for which drop returns true, and the number of those. A remaining record
// that refers to the identities of a dropped one is rewritten to contain them.
func WithoutRecords(records []byte, drop func(*Request) bool) (left []byte, dropped int) {
	left = make([]byte, 0, len(records))
	r := RecordsOf(records)
	var q Request
	for lost := false; ; {
		before := r.rest
		if !r.Next(&q) {
			return append(left, before...), dropped // before is empty or can't be decoded
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

// asBeforeAt reports whether the first record in b refers to the identities of the previous one.
func asBeforeAt(b []byte) bool {
	return int32(binary.BigEndian.Uint32(b[4+recordFixedSize:])) == asBefore
}

// AppendDeleteContainer appends the body of a deleteContainer request. A container that never had a child is deleted
// only if it has been idle for more than neverUsed milliseconds; 0 means never.
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

	// The identities of the previous record, since most records have the same: their encoding, and the decoded list,
	// nil if not decoded yet.
	identities []byte
	decoded    []jute.ID
}

// NewRecords returns an iterator over the requests of a batch, which it retains.
func NewRecords(batch []byte) Records {
	var r Records
	r.begin(batch, new(identityCache))
	return r
}

// RecordsOf returns an iterator over records that have no batch header.
func RecordsOf(records []byte) Records {
	return Records{rest: records, total: len(records), cache: new(identityCache)}
}

func (r *Records) begin(batch []byte, cache *identityCache) {
	*r = Records{total: len(batch), cache: cache}
	switch {
	case len(batch) < batchHeaderSize:
		r.err = fmt.Errorf("decode batch: %d bytes, too short for its header", len(batch))
	case batch[0] != batchFormat:
		r.err = &NewerError{
			What: fmt.Sprintf("the batch format %d (this version reads %d)", batch[0], batchFormat), This: batchFormat,
			Wants: int32(batch[0]),
		}
	default:
		r.time = int64(binary.BigEndian.Uint64(batch[1:]))
		r.rest = batch[batchHeaderSize:]
	}
}

// Time returns the batch's time by the leader's clock, in milliseconds since 1970.
func (r *Records) Time() int64 { return r.time }

// Err returns the error that stopped Next before the end, or nil.
func (r *Records) Err() error { return r.err }

// Next decodes the next request into q. Its Body refers to the batch; its identities may be shared between requests.
// Next returns false at the end and on an error.
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

// next is Next, but returns the identities undecoded.
func (r *Records) next(q *Request) (identities []byte, ok bool) {
	if r.err != nil || len(r.rest) == 0 {
		return nil, false
	}
	b := r.rest
	if len(b) < 4 || int(int32(binary.BigEndian.Uint32(b))) < recordFixedSize+4 ||
		int(binary.BigEndian.Uint32(b)) > len(b)-4 {
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
			r.err = fmt.Errorf("decode batch: the first record, which ends at offset %d of %d, has no identities of its own",
				r.total-len(r.rest), r.total)
			return nil, false
		}
		q.Body = b[4:]
		return r.identities, true
	}
	if len(r.identities) == 0 || !bytes.HasPrefix(b, r.identities) { // an encoded vector shows where it ends
		size, err := identitiesSize(b)
		if err != nil {
			r.err = fmt.Errorf("decode batch: identities of the record that ends at offset %d of %d: %w", r.total-len(r.rest),
				r.total, err)
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

// validate decodes a whole batch and returns its records, which are then certain to decode again. A batch that is
// corrupt or from a newer version is refused only here, so it changes nothing.
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
			return records, &NewerError{
				What: fmt.Sprintf("operation %d of session %#x at feature level %d", q.Op, q.Session, level), This: level,
				Wants: needs,
			}
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
