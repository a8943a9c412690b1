package jute

import (
	"bytes"
	"reflect"
	"testing"
)

// Every harness below starts from the golden frames and checks the same rules: no bytes cause a panic, and what decodes
// is the same record after it is encoded and decoded again.

func FuzzRequest(f *testing.F) {
	for _, g := range readGolden(f) {
		if g.fromClient && g.op != "connect" {
			f.Add(g.frame)
		}
	}
	f.Fuzz(func(t *testing.T, frame []byte) {
		var h RequestHeader
		d := NewDecoder(frame)
		h.Decode(d)
		if d.Err() != nil {
			return
		}
		stable(t, d.Rest(), func(b []byte) ([]byte, error) { return recodeRequestBody(nil, h.Op, NewDecoder(b)) })
	})
}

func FuzzReply(f *testing.F) {
	for _, g := range readGolden(f) {
		if !g.fromClient && g.op != "connect" {
			f.Add(int32(opNamed(g.op)), g.frame)
		}
	}
	f.Fuzz(func(t *testing.T, op int32, frame []byte) {
		var h ReplyHeader
		d := NewDecoder(frame)
		h.Decode(d)
		if d.Err() != nil {
			return
		}
		stable(t, d.Rest(), func(b []byte) ([]byte, error) { return recodeReplyBody(nil, Op(op), NewDecoder(b)) })
	})
}

func FuzzConnect(f *testing.F) {
	for _, g := range readGolden(f) {
		if g.op == "connect" {
			f.Add(g.fromClient, g.frame)
		}
	}
	f.Fuzz(func(t *testing.T, request bool, frame []byte) {
		stable(t, frame, func(b []byte) ([]byte, error) {
			if request {
				return recodeRequest("connect", b)
			}
			b, _, err := recodeReply("connect", b)
			return b, err
		})
	})
}

func FuzzMulti(f *testing.F) {
	for _, g := range readGolden(f) {
		if g.fromClient && (g.op == "multi" || g.op == "multiRead") {
			f.Add(g.frame[RequestHeaderSize:])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		ops, err := DecodeMulti(NewDecoder(body))
		if err != nil {
			return
		}
		if cap(ops) != len(ops) {
			t.Errorf("room for %d operations, there are %d", cap(ops), len(ops))
		}
		again, err := DecodeMulti(NewDecoder(AppendMulti(nil, ops)))
		if err != nil || !reflect.DeepEqual(ops, again) {
			t.Errorf("%x: %v\nfirst %+v\nagain %+v", body, err, ops, again)
		}
	})
}

func FuzzMultiResponse(f *testing.F) {
	for _, g := range readGolden(f) {
		if !g.fromClient && (g.op == "multi" || g.op == "multiRead") && len(g.frame) > ReplyHeaderSize {
			f.Add(g.frame[ReplyHeaderSize:])
		}
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		results, err := DecodeMultiResponse(NewDecoder(body))
		if err == nil && cap(results) != len(results) {
			t.Errorf("room for %d results, there are %d", cap(results), len(results))
		}
		stable(t, body, func(b []byte) ([]byte, error) { return recodeReplyBody(nil, OpMulti, NewDecoder(b)) })
	})
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte("\x00\x00\x00\x03abc"), 0)
	f.Add([]byte("\xff\xff\xff\xff"), 10)
	f.Add([]byte("\x00\x10\x00\x00a"), 3)
	f.Fuzz(func(t *testing.T, stream []byte, room int) {
		const limit = 1 << 20
		got, err := ReadFrame(bytes.NewReader(stream), make([]byte, max(0, min(room, 1<<16))), limit)
		if err != nil {
			return
		}
		if len(got) > limit || !bytes.Equal(AppendBuffer(nil, append([]byte{}, got...)), stream[:4+len(got)]) {
			t.Errorf("%x is read from %x", got, stream)
		}
	})
}

// stable fails if bytes that recode accepts change in a second round. The first round may drop ignored bytes; the
// second must change nothing.
func stable(t *testing.T, b []byte, recode func([]byte) ([]byte, error)) {
	t.Helper()
	once, err := recode(b)
	if err != nil {
		return
	}
	twice, err := recode(once)
	if err != nil || !bytes.Equal(once, twice) {
		t.Errorf("%x: %v\nonce  %x\ntwice %x", b, err, once, twice)
	}
}
