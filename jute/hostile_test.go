package jute

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"math"
	"runtime"
	"strconv"
	"testing"
	"testing/iotest"
)

// memoryPerByte is the most memory that decoding takes per byte of a frame: the
// result of a delete in a multi takes 9 bytes in a frame, and 144 as a MultiResult.
const (
	memoryPerByte = 16
	memoryFixed   = 64 << 10
)

// decoders is every way to decode a frame.
var decoders = map[string]func(b []byte){
	"connect request":     func(b []byte) { new(ConnectRequest).Decode(NewDecoder(b)) },
	"connect response":    func(b []byte) { new(ConnectResponse).Decode(NewDecoder(b)) },
	"create":              func(b []byte) { new(CreateTTLRequest).Decode(NewDecoder(b)) },
	"setACL":              func(b []byte) { new(SetACLRequest).Decode(NewDecoder(b)) },
	"setWatches2":         func(b []byte) { new(SetWatches).Decode(NewDecoder(b), OpSetWatches2) },
	"reconfig":            func(b []byte) { new(ReconfigRequest).Decode(NewDecoder(b)) },
	"auth":                func(b []byte) { new(AuthPacket).Decode(NewDecoder(b)) },
	"multi":               func(b []byte) { DecodeMulti(NewDecoder(b)) },
	"multi response":      func(b []byte) { DecodeMultiResponse(NewDecoder(b)) },
	"getACL response":     func(b []byte) { new(GetACLResponse).Decode(NewDecoder(b)) },
	"children response":   func(b []byte) { new(ChildrenResponse).Decode(NewDecoder(b)) },
	"getChildren2 answer": func(b []byte) { new(Children2Response).Decode(NewDecoder(b)) },
	"whoAmI response":     func(b []byte) { new(WhoAmIResponse).Decode(NewDecoder(b)) },
	"frame":               func(b []byte) { ReadFrame(bytes.NewReader(b), nil, math.MaxInt32) },
}

// hostile returns frames that promise more than they hold, and frames that hold
// as many elements as their bytes allow.
func hostile() map[string][]byte {
	int4 := func(n int32) []byte { return AppendInt(nil, n) }
	repeat := func(head, element []byte, size int) []byte {
		return append(append([]byte(nil), head...), bytes.Repeat(element, (size-len(head))/len(element))...)
	}
	const size = 1 << 20
	op := AppendMulti(nil, []MultiOp{{Op: OpGetData}})
	op = op[:len(op)-multiHeaderSize]
	del := AppendMulti(nil, []MultiOp{{Op: OpDelete}})
	del = del[:len(del)-multiHeaderSize]
	acls := AppendACLs(AppendBuffer(AppendString(nil, ""), nil), make([]ACL, size/12))
	frames := map[string][]byte{
		"empty":                     {},
		"zeros":                     make([]byte, size),
		"ones":                      bytes.Repeat([]byte{0xff}, size),
		"reads of a multi":          bytes.Repeat(op, size/len(op)),
		"deletes of a multi":        bytes.Repeat(del, size/len(del)),
		"deletes of a multi, ended": AppendMultiEnd(bytes.Repeat(del, size/len(del))),
		"results of deletes": AppendMultiEnd(bytes.Repeat(appendMultiHeader(nil, OpDelete, false, 0),
			size/multiHeaderSize)),
		"results of deletes, open":   bytes.Repeat(appendMultiHeader(nil, OpDelete, false, 0), size/multiHeaderSize),
		"error results":              AppendMultiEnd(bytes.Repeat((&MultiResult{Op: OpError}).Append(nil), size/13)),
		"ACL of a create":            acls,
		"ACL of a create in a multi": AppendMultiEnd(append(appendMultiHeader(nil, OpCreate, false, -1), acls...)),
	}
	for _, n := range []int32{math.MaxInt32, math.MaxInt32 / 4, 1 << 20, 1 << 16, 4096, -2, math.MinInt32} {
		name := strconv.Itoa(int(n))
		frames["length "+name] = int4(n)
		frames["length and some "+name] = repeat(int4(n), []byte{0}, 4096)
		frames["lengths "+name] = bytes.Repeat(int4(n), size/4)
		frames["path, then length "+name] = append(AppendString(nil, "/a"), int4(n)...)
		frames["long, then length "+name] = append(AppendLong(nil, 1), int4(n)...)
		frames["path, data, length and zeros "+name] = repeat(AppendInt(AppendBuffer(AppendString(nil, "/a"), nil), n),
			[]byte{0}, size)
		frames["long, length and zeros "+name] = repeat(AppendInt(AppendLong(nil, 1), n), []byte{0}, size)
	}
	// Counts that fit exactly, for elements of the smallest size.
	for _, element := range []int{4, 8, 12} {
		frames["strings of "+strconv.Itoa(element)] = repeat(int4(int32((size-4)/element)), make([]byte, element), size)
		frames["after a long, strings of "+strconv.Itoa(element)] = repeat(AppendInt(AppendLong(nil, 0),
			int32((size-12)/element)), make([]byte, element), size)
	}
	return frames
}

// TestAllocationBound: no frame of n bytes makes a decoder allocate more than a
// small multiple of n.
func TestAllocationBound(t *testing.T) {
	frames := hostile()
	for name, decode := range decoders {
		for what, frame := range frames {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			decode(frame)
			runtime.ReadMemStats(&after)
			bound := uint64(memoryPerByte*len(frame) + memoryFixed)
			if used := after.TotalAlloc - before.TotalAlloc; used > bound {
				t.Errorf("%s: the frame %q of %d bytes makes it allocate %d, the bound is %d", name, what, len(frame), used, bound)
			}
		}
	}
}

func TestReadFrame(t *testing.T) {
	frame := func(n int32, p string) string { return string(AppendInt(nil, n)) + p }
	long := string(bytes.Repeat([]byte("0123456789"), 30_000))
	for _, tc := range []struct {
		in    string
		limit int
		want  string
		err   error
	}{
		{frame(3, "abc"), 10, "abc", nil},
		{frame(0, ""), 10, "", nil},
		{frame(10, "0123456789"), 10, "0123456789", nil},
		{frame(300_000, long), 1 << 20, long, nil},
		{"", 10, "", io.EOF},
		{"\x00\x00", 10, "", io.ErrUnexpectedEOF},
		{frame(3, ""), 10, "", io.ErrUnexpectedEOF},
		{frame(3, "ab"), 10, "", io.ErrUnexpectedEOF},
		{frame(300_001, long), 1 << 20, "", io.ErrUnexpectedEOF},
		{frame(11, "0123456789a"), 10, "", &FrameSizeError{11, 10}},
		{frame(-1, ""), 10, "", &FrameSizeError{-1, 10}},
		{frame(math.MinInt32, ""), 10, "", &FrameSizeError{math.MinInt32, 10}},
		{frame(math.MaxInt32, ""), 10, "", &FrameSizeError{math.MaxInt32, 10}},
	} {
		for _, buf := range [][]byte{nil, make([]byte, 2), make([]byte, 0, 5), make([]byte, 1<<19)} {
			for _, r := range []io.Reader{
				bytes.NewReader([]byte(tc.in)), iotest.HalfReader(bytes.NewReader([]byte(tc.in))),
				iotest.DataErrReader(bytes.NewReader([]byte(tc.in))),
			} {
				got, err := ReadFrame(r, buf, tc.limit)
				var have, want *FrameSizeError
				same := errors.Is(err, tc.err) || errors.As(err, &have) && errors.As(tc.err, &want) && *have == *want
				if !same || string(got) != tc.want {
					t.Errorf("%.20q, limit %d, buffer of %d: %d bytes, %v; want %d, %v", tc.in, tc.limit, cap(buf), len(got), err,
						len(tc.want), tc.err)
				}
			}
		}
	}
}

// TestReadFrameReusesItsBuffer: a connection reads all its frames into one.
func TestReadFrameReusesItsBuffer(t *testing.T) {
	in := append(binary.BigEndian.AppendUint32(nil, 1000), make([]byte, 1000)...)
	r := bytes.NewReader(in)
	buf := make([]byte, 0, 4096)
	n := testing.AllocsPerRun(50, func() {
		r.Reset(in)
		if got, err := ReadFrame(r, buf, 1<<20); err != nil || len(got) != 1000 || &got[0] != &buf[:1][0] {
			t.Fatalf("%d bytes, %v", len(got), err)
		}
	})
	if n > 1 { // the four bytes of the length escape through io.Reader
		t.Errorf("%v allocations", n)
	}
}

func TestBeginEndFrame(t *testing.T) {
	b := []byte("before")
	b, start := BeginFrame(b)
	b = EndFrame(append(b, "payload"...), start)
	if got, want := string(b), "before\x00\x00\x00\x07payload"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	head := make([]byte, ReplyHeaderSize)
	h := ReplyHeader{Xid: -2, Zxid: 1<<40 + 5, Err: ErrNoNode}
	PutReplyHeader(head, h)
	if !bytes.Equal(head, h.Append(nil)) {
		t.Errorf("PutReplyHeader writes %x, Append %x", head, h.Append(nil))
	}
}
