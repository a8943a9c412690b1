package jute

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"
)

// fill sets v, a record, to random contents, with all the corner cases of the
// encoding: empty and long strings, null and empty buffers and vectors.
func fill(rnd *rand.Rand, v reflect.Value) {
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			fill(rnd, v.Field(i))
		}
	case reflect.Pointer:
		if rnd.IntN(3) > 0 {
			v.Set(reflect.New(v.Type().Elem()))
			fill(rnd, v.Elem())
		}
	case reflect.Slice:
		if n := rnd.IntN(5) - 1; n >= 0 {
			v.Set(reflect.MakeSlice(v.Type(), n, n))
			for i := range n {
				fill(rnd, v.Index(i))
			}
		}
	case reflect.String:
		b := make([]byte, rnd.IntN(9))
		for i := range b {
			b[i] = byte(rnd.Uint32())
		}
		v.SetString(string(b))
	case reflect.Bool:
		v.SetBool(rnd.IntN(2) == 0)
	case reflect.Uint8:
		v.SetUint(uint64(byte(rnd.Uint32())))
	case reflect.Int32, reflect.Int64:
		v.SetInt([]int64{0, 1, -1, int64(rnd.Uint32()), int64(rnd.Uint64())}[rnd.IntN(5)])
		if v.Kind() == reflect.Int32 {
			v.SetInt(int64(int32(v.Int())))
		}
	default:
		panic("records have no " + v.Kind().String())
	}
}

// wireRecords returns a zero record of each type with a fixed shape.
func wireRecords() []wireRecord {
	records := []wireRecord{
		new(ConnectRequest), new(ConnectResponse), new(RequestHeader), new(ReplyHeader), new(ID), new(ACL),
	}
	seen := map[reflect.Type]bool{}
	for op := Op(-20); op < 120; op++ {
		for _, r := range []wireRecord{requestRecord(op), replyRecord(op)} {
			if r != nil && !seen[reflect.TypeOf(r)] {
				seen[reflect.TypeOf(r)] = true
				records = append(records, r)
			}
		}
	}
	return records
}

// TestRoundTrip: a record encoded and decoded is the same record, nothing is
// left over, and no shorter encoding passes for it.
func TestRoundTrip(t *testing.T) {
	for _, zero := range wireRecords() {
		typ := reflect.TypeOf(zero).Elem()
		t.Run(typ.Name(), func(t *testing.T) {
			for seed := range uint64(300) {
				rnd := rand.New(rand.NewPCG(seed, 1))
				want := reflect.New(typ)
				fill(rnd, want.Elem())
				canonical(want.Interface())
				b := want.Interface().(wireRecord).Append(nil)
				roundTrip(t, want, b)
			}
		})
	}
}

// canonical takes out what a record can hold and its encoding can't.
func canonical(r any) {
	switch r := r.(type) {
	case *ConnectRequest:
		r.ReadOnly = r.ReadOnly && r.HasReadOnly
	case *ConnectResponse:
		r.ReadOnly = r.ReadOnly && r.HasReadOnly
	case *WhoAmIResponse:
		if r.Clients == nil {
			r.Clients = []ClientInfo{}
		}
	}
}

func roundTrip(t *testing.T, want reflect.Value, b []byte) {
	t.Helper()
	d := NewDecoder(b)
	got := reflect.New(want.Type().Elem())
	fill(rand.New(rand.NewPCG(99, 99)), got.Elem()) // what was there before must not matter
	got.Interface().(wireRecord).Decode(d)
	if d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(got.Interface(), want.Interface()) {
		t.Fatalf("%x: %v, %d bytes left\nhave %+v\nwant %+v", b, d.Err(), d.Remaining(), got.Elem(), want.Elem())
	}
	// The old form of the handshake is a whole record cut short by one byte.
	old := len(b)
	switch r := want.Interface().(type) {
	case *ConnectRequest:
		old = len((&ConnectRequest{Passwd: r.Passwd}).Append(nil))
	case *ConnectResponse:
		old = len((&ConnectResponse{Passwd: r.Passwd}).Append(nil))
	}
	for n := range len(b) {
		d := NewDecoder(b[:n])
		got.Interface().(wireRecord).Decode(d)
		if (n != old) != errors.Is(d.Err(), ErrTruncated) {
			t.Fatalf("%d of the %d bytes %x: %v", n, len(b), b, d.Err())
		}
	}
}

func TestRoundTripSetWatches(t *testing.T) {
	for seed := range uint64(300) {
		for _, op := range []Op{OpSetWatches, OpSetWatches2} {
			var want, got SetWatches
			fill(rand.New(rand.NewPCG(seed, 2)), reflect.ValueOf(&want).Elem())
			fill(rand.New(rand.NewPCG(seed, 3)), reflect.ValueOf(&got).Elem())
			if op == OpSetWatches {
				want.Persistent, want.PersistentTree = nil, nil
			}
			d := NewDecoder(want.Append(nil, op))
			got.Decode(d, op)
			if d.Err() != nil || d.Remaining() != 0 || !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %v, %d bytes left\nhave %+v\nwant %+v", op, d.Err(), d.Remaining(), got, want)
			}
		}
	}
}

func TestRoundTripMulti(t *testing.T) {
	writes := []Op{OpCreate, OpCreate2, OpCreateContainer, OpCreateTTL, OpDelete, OpCheck, OpSetData}
	reads := []Op{OpGetData, OpGetChildren}
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		kinds := writes
		if seed%3 == 0 {
			kinds = reads
		}
		want := make([]MultiOp, 0, 8)
		for range rnd.IntN(8) {
			o := MultiOp{Op: kinds[rnd.IntN(len(kinds))]}
			var full MultiOp
			fill(rnd, reflect.ValueOf(&full).Elem())
			o.Path = full.Path
			switch o.Op {
			case OpCreateTTL:
				o.Data, o.ACL, o.Flags, o.TTL = full.Data, full.ACL, full.Flags, full.TTL
			case OpCreate, OpCreate2, OpCreateContainer:
				o.Data, o.ACL, o.Flags = full.Data, full.ACL, CreateMode(rnd.IntN(5))
			case OpDelete, OpCheck:
				o.Version = full.Version
			case OpSetData:
				o.Data, o.Version = full.Data, full.Version
			}
			want = append(want, o)
		}
		b := AppendMulti(nil, want)
		d := NewDecoder(b)
		got, err := DecodeMulti(d)
		if err != nil || d.Remaining() != 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, %d bytes left\nhave %+v\nwant %+v", err, d.Remaining(), got, want)
		}
		if cap(got) != len(got) {
			t.Fatalf("room for %d operations, there are %d", cap(got), len(got))
		}
		for n := range len(b) {
			if _, err := DecodeMulti(NewDecoder(b[:n])); !errors.Is(err, ErrTruncated) {
				t.Fatalf("%d of the %d bytes %x: %v", n, len(b), b, err)
			}
		}
	}
}

func TestRoundTripMultiResponse(t *testing.T) {
	kinds := []Op{OpError, OpCreate, OpCreate2, OpSetData, OpGetData, OpGetChildren, OpDelete, OpCheck}
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 5))
		want := make([]MultiResult, 0, 8)
		var b []byte
		for range rnd.IntN(8) {
			r := MultiResult{Op: kinds[rnd.IntN(len(kinds))]}
			var full MultiResult
			fill(rnd, reflect.ValueOf(&full).Elem())
			switch r.Op {
			case OpError:
				r.Err = full.Err
			case OpCreate:
				r.Path = full.Path
			case OpCreate2:
				r.Path, r.Stat = full.Path, full.Stat
			case OpSetData:
				r.Stat = full.Stat
			case OpGetData:
				r.Data, r.Stat = full.Data, full.Stat
			case OpGetChildren:
				r.Children = full.Children
			}
			want = append(want, r)
			b = r.Append(b)
		}
		b = AppendMultiEnd(b)
		d := NewDecoder(b)
		got, err := DecodeMultiResponse(d)
		if err != nil || d.Remaining() != 0 || !reflect.DeepEqual(got, want) {
			t.Fatalf("%v, %d bytes left\nhave %+v\nwant %+v", err, d.Remaining(), got, want)
		}
		if cap(got) != len(got) {
			t.Fatalf("room for %d results, there are %d", cap(got), len(got))
		}
		for n := range len(b) {
			if _, err := DecodeMultiResponse(NewDecoder(b[:n])); !errors.Is(err, ErrTruncated) {
				t.Fatalf("%d of the %d bytes %x: %v", n, len(b), b, err)
			}
		}
	}
}

func TestMultiRefused(t *testing.T) {
	end := AppendMultiEnd(nil)
	op := func(o MultiOp) []byte { b := AppendMulti(nil, []MultiOp{o}); return b[:len(b)-len(end)] }
	for name, body := range map[string][]byte{
		"getACL":                  op(MultiOp{Op: OpGetACL}),
		"an unknown type":         op(MultiOp{Op: 77}),
		"deleteContainer":         op(MultiOp{Op: OpDeleteContainer}),
		"a read, then a write":    append(op(MultiOp{Op: OpGetData}), op(MultiOp{Op: OpDelete})...),
		"a write, then a read":    append(op(MultiOp{Op: OpCheck}), op(MultiOp{Op: OpGetChildren})...),
		"create with flags 7":     op(MultiOp{Op: OpCreate, Flags: 7}),
		"create2 with flags -1":   op(MultiOp{Op: OpCreate2, Flags: -1}),
		"create with a TTL mode":  op(MultiOp{Op: OpCreate, Flags: ModePersistentWithTTL}),
		"container with TTL mode": op(MultiOp{Op: OpCreateContainer, Flags: ModePersistentSequentialWithTTL}),
		"a type of its own, -1":   op(MultiOp{Op: OpError}),
	} {
		if ops, err := DecodeMulti(NewDecoder(append(body, end...))); err == nil {
			t.Errorf("%s is taken: %+v", name, ops)
		}
	}
	if ops, err := DecodeMulti(NewDecoder(end)); err != nil || len(ops) != 0 {
		t.Errorf("the empty multi: %v, %v", ops, err)
	}
	for _, typ := range []Op{77, OpCreateContainer, OpCreateTTL, OpExists} {
		body := append((&MultiResult{Op: OpCreate2}).Append(nil), end...)
		copy(body, AppendInt(nil, int32(typ)))
		if _, err := DecodeMultiResponse(NewDecoder(body)); err == nil {
			t.Errorf("a result of type %s is taken", typ)
		}
	}
}

// TestHandshakeForms has the two forms of both records, byte by byte.
func TestHandshakeForms(t *testing.T) {
	const (
		request = "\x00\x00\x00\x00" + "\x00\x00\x00\x00\x00\x00\x00\x07" + "\x00\x00\x75\x30" +
			"\x00\x00\x00\x00\x00\x00\x00\x09" + "\x00\x00\x00\x02pw"
		response = "\x00\x00\x00\x00" + "\x00\x00\x75\x30" + "\x00\x00\x00\x00\x00\x00\x00\x09" + "\x00\x00\x00\x02pw"
	)
	for tail, want := range map[string][2]bool{
		"": {false, false}, "\x00": {true, false}, "\x01": {true, true}, "\x07": {true, true}, "\x00rest": {true, false},
	} {
		var q ConnectRequest
		d := NewDecoder([]byte(request + tail))
		q.Decode(d)
		if wantQ := (ConnectRequest{0, 7, 30000, 9, []byte("pw"), want[1], want[0]}); d.Err() != nil ||
			!reflect.DeepEqual(q, wantQ) {
			t.Errorf("request with %q at its end: %+v, %v", tail, q, d.Err())
		}
		var p ConnectResponse
		d = NewDecoder([]byte(response + tail))
		p.Decode(d)
		if wantP := (ConnectResponse{0, 30000, 9, []byte("pw"), want[1], want[0]}); d.Err() != nil ||
			!reflect.DeepEqual(p, wantP) {
			t.Errorf("response with %q at its end: %+v, %v", tail, p, d.Err())
		}
		if len(tail) < 2 && tail != "\x07" {
			if got := string(q.Append(nil)); got != request+tail {
				t.Errorf("request encoded: %x, want %x", got, request+tail)
			}
			if got := string(p.Append(nil)); got != response+tail {
				t.Errorf("response encoded: %x, want %x", got, response+tail)
			}
		}
	}
}

func TestNullAndEmpty(t *testing.T) {
	null, empty := []byte{0xff, 0xff, 0xff, 0xff}, []byte{0, 0, 0, 0}
	if b := NewDecoder(null).Buffer(); b != nil {
		t.Errorf("null buffer: %#v", b)
	}
	if b := NewDecoder(empty).Buffer(); b == nil || len(b) != 0 {
		t.Errorf("empty buffer: %#v", b)
	}
	if s, ok := NewDecoder(null).NullString(); s != "" || ok {
		t.Errorf("null string: %q, %v", s, ok)
	}
	if s, ok := NewDecoder(empty).NullString(); s != "" || !ok {
		t.Errorf("empty string: %q, %v", s, ok)
	}
	if v := NewDecoder(null).Strings(); v != nil {
		t.Errorf("null vector: %#v", v)
	}
	if v := NewDecoder(empty).Strings(); v == nil || len(v) != 0 {
		t.Errorf("empty vector: %#v", v)
	}
	if v := DecodeACLs(NewDecoder(null)); v != nil {
		t.Errorf("null ACL: %#v", v)
	}
	if v := DecodeACLs(NewDecoder(empty)); v == nil || len(v) != 0 {
		t.Errorf("empty ACL: %#v", v)
	}
	// Negative counts other than -1 read as empty, negative lengths fail.
	minusTwo := []byte{0xff, 0xff, 0xff, 0xfe}
	if v := NewDecoder(minusTwo).Strings(); v == nil || len(v) != 0 {
		t.Errorf("a vector of -2 elements: %#v", v)
	}
	d := NewDecoder(minusTwo)
	if b := d.Buffer(); b != nil || d.Err() == nil {
		t.Errorf("a buffer of -2 bytes: %#v, %v", b, d.Err())
	}
}

// TestDecoderAfterError: after the first error everything reads as zero and the
// first error stays.
func TestDecoderAfterError(t *testing.T) {
	d := NewDecoder([]byte{0, 0, 0, 9, 1, 2, 3, 4, 5, 6, 7, 8})
	d.Buffer()
	first := d.Err()
	if !errors.Is(first, ErrTruncated) {
		t.Fatalf("a buffer that goes on: %v", first)
	}
	s, ok := d.NullString()
	if d.Int() != 0 || d.Long() != 0 || d.Bool() || d.Byte() != 0 || d.Buffer() != nil || s != "" || ok ||
		d.Strings() != nil || d.Count(1) != -1 || d.Remaining() != 0 {
		t.Error("something is read after an error")
	}
	if d.Err() != first {
		t.Errorf("the error became %v", d.Err())
	}
	d.Reset([]byte{0, 0, 0, 1})
	if d.Int() != 1 || d.Err() != nil || d.Offset() != 4 {
		t.Errorf("after Reset: %v", d.Err())
	}
}

// TestCapacity: appending to a decoded buffer must not write into the frame.
func TestCapacity(t *testing.T) {
	frame := []byte{0, 0, 0, 1, 'a', 'b'}
	_ = append(NewDecoder(frame).Buffer(), 'X')
	if string(frame[4:]) != "ab" {
		t.Errorf("the frame became %q", frame)
	}
}

func TestNames(t *testing.T) {
	for _, tc := range []struct{ have, want fmt.Stringer }{
		{OpGetData, name("getData")}, {Op(77), name("op(77)")}, {ErrNoNode, name("NoNode")}, {Code(-9), name("code -9")},
		{OK, name("ok")},
	} {
		if tc.have.String() != tc.want.String() {
			t.Errorf("%q, want %q", tc.have, tc.want)
		}
	}
	if err := fmt.Errorf("get /a: %w", ErrNoNode); !errors.Is(err, ErrNoNode) || errors.Is(err, ErrNoAuth) {
		t.Error("errors.Is doesn't tell codes apart")
	}
}

type name string

func (n name) String() string { return string(n) }

// TestCountAtTheLimit reads vectors whose elements take as few bytes as they can, and refuses one element more.
func TestCountAtTheLimit(t *testing.T) {
	acls := make([]ACL, 3)
	who := WhoAmIResponse{Clients: make([]ClientInfo, 3)}
	for name, c := range map[string]struct {
		record []byte
		read   func(*Decoder) int
	}{
		"bytes":    {append(AppendInt(nil, 3), 1, 2, 3), func(d *Decoder) int { return d.Count(1) }},
		"no size":  {append(AppendInt(nil, 3), 1, 2, 3), func(d *Decoder) int { return d.Count(0) }},
		"strings":  {AppendStrings(nil, make([]string, 3)), func(d *Decoder) int { return len(d.Strings()) }},
		"ACLs":     {AppendACLs(nil, acls), func(d *Decoder) int { return len(DecodeACLs(d)) }},
		"identity": {who.Append(nil), func(d *Decoder) int { var r WhoAmIResponse; r.Decode(d); return len(r.Clients) }},
	} {
		d := NewDecoder(c.record)
		if n := c.read(d); n != 3 || d.Err() != nil {
			t.Errorf("%s: %d elements, %v", name, n, d.Err())
		}
		c.record[3]++
		d = NewDecoder(c.record)
		if n := c.read(d); n > 0 || !errors.Is(d.Err(), ErrTruncated) {
			t.Errorf("%s, one more than there are: %d elements, %v", name, n, d.Err())
		}
	}
	d := NewDecoder(AppendInt(nil, 1))
	if n := d.Count(1); n != -1 || !errors.Is(d.Err(), ErrTruncated) {
		t.Errorf("a count of what isn't there is %d, %v", n, d.Err())
	}
	if n := d.Count(1); n != -1 {
		t.Errorf("a count behind an error is %d", n)
	}
	for n, want := range map[int32]int{-1: -1, -2: 0, 0: 0} {
		d := NewDecoder(AppendInt(nil, n))
		if got := d.Count(1); got != want || d.Err() != nil {
			t.Errorf("count %d reads as %d, %v; want %d", n, got, d.Err(), want)
		}
	}
}

// TestMultiTakesWhatItNeeds: a multi whose ACLs have empty names, and results without children, are counted whole.
func TestMultiTakesWhatItNeeds(t *testing.T) {
	var ops []MultiOp
	var results []byte
	for range 3 {
		ops = append(ops, MultiOp{Op: OpCreate, Path: "/a", ACL: make([]ACL, 20)})
		results = (&MultiResult{Op: OpGetChildren, Children: make([]string, 20)}).Append(results)
	}
	if got, err := DecodeMulti(NewDecoder(AppendMulti(nil, ops))); err != nil || len(got) != 3 || cap(got) != 3 {
		t.Errorf("%d operations with room for %d, %v", len(got), cap(got), err)
	}
	got, err := DecodeMultiResponse(NewDecoder(AppendMultiEnd(results)))
	if err != nil || len(got) != 3 || cap(got) != 3 {
		t.Errorf("%d results with room for %d, %v", len(got), cap(got), err)
	}
}
