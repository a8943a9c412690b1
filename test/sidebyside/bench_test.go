package sidebyside

import (
	"bufio"
	"context"
	"fmt"
	"net"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// standIn answers exists, get and set over loopback TCP as cheaply as can be, so
// that benchmarks measure the client.
func standIn(b testing.TB) string {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go standInConn(conn)
		}
	}()
	return listener.Addr().String()
}

func standInConn(conn net.Conn) {
	defer conn.Close()
	in := bufio.NewReaderSize(conn, 64<<10)
	buf := make([]byte, 0, 4096)
	if _, err := jute.ReadFrame(in, buf, 4096); err != nil {
		return
	}
	hello := jute.ConnectResponse{Timeout: 10000, SessionID: 1, Passwd: make([]byte, 16), HasReadOnly: true}
	conn.Write(jute.AppendFrame(nil, hello.Append))
	got := jute.GetDataResponse{Data: make([]byte, 128)}
	body := got.Append(nil)
	var out []byte
	for zxid := int64(1); ; zxid++ {
		payload, err := jute.ReadFrame(in, buf, 1<<20)
		if err != nil {
			return
		}
		var d jute.Decoder
		d.Reset(payload)
		var h jute.RequestHeader
		h.Decode(&d)
		reply := jute.ReplyHeader{Xid: h.Xid, Zxid: zxid}
		var at int
		out, at = jute.BeginFrame(out)
		out = reply.Append(out)
		switch h.Op {
		case jute.OpGetData:
			out = append(out, body...)
		case jute.OpSetData, jute.OpExists:
			out = append(out, body[len(body)-jute.StatSize:]...)
		}
		out = jute.EndFrame(out, at)
		if in.Buffered() == 0 {
			if _, err := conn.Write(out); err != nil {
				return
			}
			out = out[:0]
		}
	}
}

// BenchmarkClient measures blocking calls: conns clients, depth goroutines each.
func BenchmarkClient(b *testing.B) {
	value := make([]byte, 128)
	for _, op := range []struct {
		name string
		do   func(context.Context, *zk.Client) error
	}{
		{"get", func(ctx context.Context, c *zk.Client) error { _, _, err := c.Get(ctx, "/bench/key"); return err }},
		{"set", func(ctx context.Context, c *zk.Client) error {
			_, err := c.Set(ctx, "/bench/key", value, -1)
			return err
		}},
	} {
		for _, shape := range [][2]int{{1, 1}, {1, 16}, {16, 16}} {
			b.Run(fmt.Sprintf("%s/%dx%d", op.name, shape[0], shape[1]), func(b *testing.B) {
				address, ctx := standIn(b), context.Background()
				var left atomic.Int64
				left.Store(int64(b.N))
				var wait sync.WaitGroup
				b.ReportAllocs()
				var clients []*zk.Client
				for range shape[0] {
					c, err := zk.Open(ctx, address, zk.Options{})
					if err != nil {
						b.Fatal(err)
					}
					clients = append(clients, c)
				}
				b.ResetTimer()
				for _, c := range clients {
					for range shape[1] {
						wait.Go(func() {
							for left.Add(-1) >= 0 {
								if err := op.do(ctx, c); err != nil {
									b.Error(err)
									return
								}
							}
						})
					}
				}
				wait.Wait()
				b.StopTimer()
				for _, c := range clients {
					c.Close()
				}
			})
		}
	}
}

// BenchmarkPipeline keeps 256 gets under way from one goroutine.
func BenchmarkPipeline(b *testing.B) {
	ctx := context.Background()
	c, err := zk.Open(ctx, standIn(b), zk.Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	b.ReportAllocs()
	p := c.Pipeline()
	var open []zk.Future[zk.Node]
	for range b.N {
		open = append(open, p.Get(ctx, "/bench/key"))
		if len(open) == 256 {
			for _, f := range open {
				if _, err := f.Wait(ctx); err != nil {
					b.Fatal(err)
				}
			}
			open = open[:0]
		}
	}
}
