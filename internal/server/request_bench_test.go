package server

import (
	"io"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// BenchmarkRequests measures a request and its reply over a connection: what the server allocates for it counts, since
// this client allocates nothing.
func BenchmarkRequests(b *testing.B) {
	for _, bench := range []struct {
		name   string
		op     jute.Op
		record func([]byte) []byte
	}{
		{"read", jute.OpGetData, reading("/bench", false)},
		{"write", jute.OpSetData, setting("/bench", make([]byte, 100))},
	} {
		b.Run(bench.name, func(b *testing.B) {
			s := open(b, Options{})
			c := connect(b, s.Addrs()[0].String(), 0, nil)
			if h, _ := c.call(jute.OpCreate, creating("/bench", make([]byte, 100), 0)); h.Err != jute.OK {
				b.Fatal(h.Err)
			}
			request := c.request(nil, bench.op, bench.record)
			if _, err := c.conn.Write(request); err != nil {
				b.Fatal(err)
			}
			_, body := c.reply()
			reply := make([]byte, 4+jute.ReplyHeaderSize+len(body))
			b.ReportAllocs()
			for b.Loop() {
				if _, err := c.conn.Write(request); err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(c.conn, reply); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
