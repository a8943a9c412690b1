package jute

import (
	"bytes"
	"testing"
)

// TestFramesWhole appends whole frames to what is there, and reads them.
func TestFramesWhole(t *testing.T) {
	t.Parallel()
	q := PathRequest{Path: "/a"}
	record := q.Append(nil)
	request := append([]byte{0, 0, 0, 7, 0, 0, 0, 9}, record...)
	reply := append([]byte{0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 1, 0, 0xff, 0xff, 0xff, 0x9b}, record...)
	h := ReplyHeader{Xid: 7, Zxid: 256, Err: ErrNoNode}
	for name, c := range map[string]struct{ frame, want []byte }{
		"record":          {AppendFrame([]byte("before"), q.Append), record},
		"request":         {AppendRequest([]byte("before"), 7, OpSync, q.Append), request},
		"encoded request": {AppendRequest([]byte("before"), 7, OpSync, Encoded(record)), request},
		"bare request":    {AppendRequest([]byte("before"), 7, OpSync, nil), request[:RequestHeaderSize]},
		"reply":           {AppendReply([]byte("before"), h, q.Append), reply},
		"bare reply":      {AppendReply([]byte("before"), h, nil), reply[:ReplyHeaderSize]},
	} {
		rest, ok := bytes.CutPrefix(c.frame, []byte("before"))
		in := bytes.NewReader(rest)
		got, err := ReadFrame(in, nil, MaxBufferDefault)
		if !ok || err != nil || !bytes.Equal(got, c.want) || in.Len() != 0 {
			t.Errorf("%s: %x, %v; want %x", name, got, err, c.want)
		}
	}
}

// TestFramesCostNothing appends frames to memory that is there without taking more.
func TestFramesCostNothing(t *testing.T) {
	b := make([]byte, 0, 1024)
	q := PathRequest{Path: "/a"}
	if n := testing.AllocsPerRun(100, func() {
		b = AppendReply(AppendRequest(AppendFrame(b[:0], q.Append), 1, OpSync, q.Append), ReplyHeader{}, q.Append)
	}); n != 0 {
		t.Errorf("three frames take memory %v times", n)
	}
}
