package jute

import (
	"fmt"
	"slices"
)

// multiHeaderSize is the encoded size of a MultiHeader in bytes.
const multiHeaderSize = 9

// appendMultiHeader appends the header before each operation of a multi and before each of its results, or, with type
// -1 and done, the end.
func appendMultiHeader(b []byte, typ Op, done bool, err Code) []byte {
	return AppendInt(AppendBool(AppendInt(b, int32(typ)), done), int32(err))
}

// MultiOp is one operation of a multi or multiRead. Op determines which fields are used: a create of any kind uses all
// but Version (TTL, in milliseconds, only for createTTL), delete and check use Path and Version, setData uses Path,
// Data and Version, and getData and getChildren use Path.
type MultiOp struct {
	Op      Op
	Path    string
	Data    []byte
	ACL     []ACL
	Flags   CreateMode
	TTL     int64
	Version int32
}

// IsRead reports whether the operation belongs in a multiRead.
func (o *MultiOp) IsRead() bool { return o.Op == OpGetData || o.Op == OpGetChildren }

// AppendMulti appends the record of a multi or multiRead request. It doesn't check the operations, unlike DecodeMulti.
func AppendMulti(b []byte, ops []MultiOp) []byte {
	for i := range ops {
		o := &ops[i]
		b = o.Append(appendMultiHeader(b, o.Op, false, -1))
	}
	return appendMultiHeader(b, -1, true, -1)
}

// Append appends the operation's record, which is the same as in a request with only this operation.
func (o *MultiOp) Append(b []byte) []byte {
	switch o.Op {
	case OpCreate, OpCreate2, OpCreateContainer:
		r := CreateRequest{o.Path, o.Data, o.ACL, o.Flags}
		return r.Append(b)
	case OpCreateTTL:
		r := CreateTTLRequest{CreateRequest{o.Path, o.Data, o.ACL, o.Flags}, o.TTL}
		return r.Append(b)
	case OpDelete, OpCheck:
		r := PathVersionRequest{o.Path, o.Version}
		return r.Append(b)
	case OpSetData:
		r := SetDataRequest{o.Path, o.Data, o.Version}
		return r.Append(b)
	}
	r := PathWatchRequest{Path: o.Path}
	return r.Append(b)
}

// DecodeMulti decodes the record of a multi or multiRead request. Like Apache's decoder it fails on an operation that
// can't be part of one, on a mix of reads and writes, and on a create, create2 or createContainer whose flags aren't a
// mode or have a time to live. The returned error is one of these, which d.Err doesn't report, or wraps that of d.Err.
// Zooid's servers answer all of them with ErrMarshallingError. DecodeMulti doesn't know the request's Op: the caller
// refuses reads in a multi, and writes in a multiRead.
func DecodeMulti(d *Decoder) ([]MultiOp, error) {
	return DecodeMultiInto(make([]MultiOp, 0, countMulti(*d)), d)
}

// DecodeMultiInto is like DecodeMulti, but appends the operations to ops. If it fails, it returns ops as it was, whose
// spare capacity may have been used.
func DecodeMultiInto(ops []MultiOp, d *Decoder) ([]MultiOp, error) {
	from := len(ops)
	for {
		op, done := Op(d.Int()), d.Bool()
		d.Int()
		if d.Err() != nil {
			return ops[:from], d.Err()
		}
		if done {
			return ops, nil
		}
		o := MultiOp{Op: op}
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
			var r CreateTTLRequest
			if op == OpCreateTTL {
				r.Decode(d)
			} else {
				r.CreateRequest.Decode(d)
			}
			o.Path, o.Data, o.ACL, o.Flags, o.TTL = r.Path, r.Data, r.ACL, r.Flags, r.TTL
			if d.Err() == nil && op != OpCreateTTL && (!o.Flags.Valid() || o.Flags.TTL()) {
				return ops[:from], fmt.Errorf("decode multi: operation %d (%s): flags %d aren't a valid mode", len(ops)-from, op,
					o.Flags)
			}
		case OpDelete, OpCheck:
			o.Path, o.Version = d.String(), d.Int()
		case OpSetData:
			o.Path, o.Data, o.Version = d.String(), d.Buffer(), d.Int()
		case OpGetData, OpGetChildren:
			o.Path = d.String()
			d.Bool()
		default:
			return ops[:from], fmt.Errorf("decode multi: operation %d is a %s, which can't be part of one", len(ops)-from, op)
		}
		if d.Err() != nil {
			return ops[:from], fmt.Errorf("decode multi: operation %d (%s): %w", len(ops)-from, op, d.Err())
		}
		if len(ops) > from && ops[from].IsRead() != o.IsRead() {
			return ops[:from], fmt.Errorf("decode multi: operation %d (%s): reads and writes can't be mixed", len(ops)-from, op)
		}
		if len(ops) == cap(ops) {
			ops = slices.Grow(ops, 1+countMulti(*d)) // at once: to grow again and again would take longer than to decode
		}
		ops = append(ops, o)
	}
}

// countMulti returns the number of operations in a multi's record before the end or the first error, so that
// what decodes it allocates exactly what it needs: an operation in memory may be eight times as long as in its frame.
func countMulti(d Decoder) int {
	for n := 0; ; n++ {
		op, done := Op(d.Int()), d.Bool()
		d.Int()
		if d.err != nil || done {
			return n
		}
		d.Buffer() // path
		switch op {
		case OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL:
			d.Buffer()
			for range d.Count(aclSizeMin) {
				d.Int()
				d.Buffer()
				d.Buffer()
			}
			d.Int()
			if op == OpCreateTTL {
				d.Long()
			}
		case OpDelete, OpCheck:
			d.Int()
		case OpSetData:
			d.Buffer()
			d.Int()
		case OpGetData, OpGetChildren:
			d.Bool()
		default:
			return n
		}
	}
}

// MultiResult is one result of a multi or multiRead. Op determines which fields are used: OpError has Err, OpCreate has
// Path, OpCreate2 (also for createContainer and createTTL) has Path and Stat, OpSetData has Stat, OpGetData has Data
// and Stat, and OpGetChildren has Children. OpDelete and OpCheck have none. There are no other types.
//
// In a multiRead, an OpError stands for each operation that failed. If a write of a multi fails, the code in the
// ReplyHeader is still OK, and all results are OpError: OK for the operations before the failed one, its code, and
// ErrRuntimeInconsistency for those after it.
type MultiResult struct {
	Op       Op
	Err      Code
	Path     string
	Stat     Stat
	Data     []byte
	Children []string
}

// Append appends the header and the result.
func (r *MultiResult) Append(b []byte) []byte {
	b = appendMultiHeader(b, r.Op, false, r.Err)
	switch r.Op {
	case OpError:
		b = AppendInt(b, int32(r.Err))
	case OpCreate:
		b = AppendString(b, r.Path)
	case OpCreate2:
		b = r.Stat.Append(AppendString(b, r.Path))
	case OpSetData:
		b = r.Stat.Append(b)
	case OpGetData:
		b = r.Stat.Append(AppendBuffer(b, r.Data))
	case OpGetChildren:
		b = AppendStrings(b, r.Children)
	}
	return b
}

// AppendMultiEnd appends the end of the results in the reply to a multi or multiRead, after the last MultiResult.
func AppendMultiEnd(b []byte) []byte { return appendMultiHeader(b, -1, true, -1) }

// DecodeMultiResponse decodes the reply to a multi or multiRead. It fails on a result of an unknown type, which d.Err
// doesn't report. A failed operation isn't an error; see MultiResult.
func DecodeMultiResponse(d *Decoder) ([]MultiResult, error) {
	return DecodeMultiResponseInto(make([]MultiResult, 0, countMultiResponse(*d)), d)
}

// DecodeMultiResponseInto is like DecodeMultiResponse, but appends the results to results. If it fails, it returns
// results as it was, whose spare capacity may have been used.
func DecodeMultiResponseInto(results []MultiResult, d *Decoder) ([]MultiResult, error) {
	from := len(results)
	for {
		r := MultiResult{Op: Op(d.Int())}
		done := d.Bool()
		r.Err = Code(d.Int())
		if d.Err() != nil {
			return results[:from], d.Err()
		}
		if done {
			return results, nil
		}
		switch r.Op {
		case OpError:
			r.Err = Code(d.Int())
		case OpCreate:
			r.Path = d.String()
		case OpCreate2:
			r.Path = d.String()
			r.Stat.Decode(d)
		case OpSetData:
			r.Stat.Decode(d)
		case OpGetData:
			r.Data = d.Buffer()
			r.Stat.Decode(d)
		case OpGetChildren:
			r.Children = d.Strings()
		case OpDelete, OpCheck:
		default:
			return results[:from], fmt.Errorf("decode multi response: result %d has unknown type %d", len(results)-from, r.Op)
		}
		if d.Err() != nil {
			return results[:from], fmt.Errorf("decode multi response: result %d (%s): %w", len(results)-from, r.Op, d.Err())
		}
		results = append(results, r)
	}
}

// countMultiResponse is countMulti for DecodeMultiResponse.
func countMultiResponse(d Decoder) int {
	for n := 0; ; n++ {
		op, done := Op(d.Int()), d.Bool()
		d.Int()
		if d.err != nil || done {
			return n
		}
		switch op {
		case OpError:
			d.Int()
		case OpCreate:
			d.Buffer()
		case OpCreate2, OpGetData:
			d.Buffer()
			d.take(StatSize, "stat")
		case OpSetData:
			d.take(StatSize, "stat")
		case OpGetChildren:
			for range d.Count(4) {
				d.Buffer()
			}
		case OpDelete, OpCheck:
		default:
			return n
		}
	}
}
