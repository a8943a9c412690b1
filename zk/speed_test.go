package zk

import (
	"bufio"
	"encoding/binary"
	"errors"
	"net"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// cannedServer answers each request with the reply to a getData of 100 bytes, as fast as it can, so that
// benchmarks measure the client. It returns its address.
func cannedServer(tb testing.TB) string {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				if err := answerCanned(conn); err != nil && !errors.Is(err, net.ErrClosed) {
					return // the client has gone
				}
			}()
		}
	}()
	return listener.Addr().String()
}

func answerCanned(conn net.Conn) error {
	in := bufio.NewReaderSize(conn, 64<<10)
	frame, err := jute.ReadFrame(in, nil, jute.MaxBufferDefault)
	if err != nil {
		return err
	}
	hello := jute.ConnectResponse{Timeout: int32(peerTimeout.Milliseconds()), SessionID: peerSession, Passwd: peerPasswd}
	out := jute.AppendFrame(nil, hello.Append)
	body := binary.BigEndian.AppendUint32(nil, 100)
	body = append(body, make([]byte, 100)...)
	body = new(jute.Stat).Append(body)
	for {
		if _, err := conn.Write(out); err != nil {
			return err
		}
		out = out[:0]
		for len(out) == 0 || in.Buffered() > 0 {
			if frame, err = jute.ReadFrame(in, frame[:0], jute.MaxBufferDefault); err != nil {
				return err
			}
			reply := jute.ReplyHeader{Xid: int32(binary.BigEndian.Uint32(frame)), Zxid: 1}
			out = jute.AppendFrame(out, func(b []byte) []byte { return append(reply.Append(b), body...) })
		}
	}
}

func cannedClient(tb testing.TB, opt Options) *Client {
	tb.Helper()
	c, err := Open(tb.Context(), cannedServer(tb), opt)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { c.Close() })
	return c
}

func BenchmarkGet(b *testing.B) {
	c := cannedClient(b, Options{})
	b.ReportAllocs()
	for b.Loop() {
		if _, _, err := c.Get(b.Context(), "/a"); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkGetByManyCallers(b *testing.B) {
	c := cannedClient(b, Options{})
	b.ReportAllocs()
	b.SetParallelism(32)
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			if _, _, err := c.Get(b.Context(), "/a"); err != nil {
				b.Error(err)
				return
			}
		}
	})
}

func BenchmarkPipelinedGet(b *testing.B) {
	c := cannedClient(b, Options{})
	b.ReportAllocs()
	p := c.Pipeline()
	window := make([]Future[Node], 0, 100)
	for b.Loop() {
		if window = append(window, p.Get(b.Context(), "/a")); len(window) < cap(window) {
			continue
		}
		for _, f := range window {
			if _, err := f.Wait(b.Context()); err != nil {
				b.Fatal(err)
			}
		}
		window = window[:0]
	}
}

// BenchmarkUnusedHooks measures what each call pays for hooks that it doesn't have.
func BenchmarkUnusedHooks(b *testing.B) {
	s, k := &session{}, new(call)
	for b.Loop() {
		s.observe(b.Context(), k)
		s.ended(k, true, nil)
	}
}
