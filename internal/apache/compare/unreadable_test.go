package compare

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"io"
	"maps"
	"net"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// TestLostACL: a znode that a server answers with MarshallingError, as Apache 3.5 does if it has lost the ACL, is
// reported as one that can't be read, and the others are compared.
func TestLostACL(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	addr := zktest.Start(t, zktest.Options{}).Connect()
	open := func(addr string) *zk.Client {
		c, err := zk.Open(ctx, addr, zk.Options{SessionTimeout: zktest.MaxSessionTimeout})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	whole := open(addr)
	for _, path := range []string{"/a", "/a/lost", "/a/lost/below", "/z"} {
		if _, err := whole.Create(ctx, path, []byte(path), zk.ModePersistent, zk.OpenACL()); err != nil {
			t.Fatal(err)
		}
	}
	lossy := open(withoutZnode(t, addr, "/a/lost"))
	want := map[string]Verdict{"/a/lost": Unreadable}
	for _, sides := range [][2]*zk.Client{{whole, lossy}, {lossy, whole}} {
		have := map[string]Verdict{}
		counts, err := Trees(ctx, OpenLive(sides[0]), OpenLive(sides[1]),
			Options{Patience: time.Millisecond, Tell: func(d *Difference) error {
				if have[d.Path] = d.Verdict; !errors.Is(d.Err, zk.ErrMarshallingError) {
					t.Errorf("%s: %v", d.Path, d.Err)
				}
				return nil
			}})
		if err != nil || !maps.Equal(have, want) || counts.Unreadable != 1 || counts.Different != 0 {
			t.Errorf("%v, %+v, %v; want %v", have, counts, err, want)
		}
	}
}

// withoutZnode returns the address of a server like another, but for the reads of one znode, which it answers with
// MarshallingError.
func withoutZnode(t *testing.T, addr, path string) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", addr)
			if err != nil {
				client.Close()
				continue
			}
			var mu sync.Mutex
			var lost []int32 // xids of reads of the path
			copyFrames := func(to, from net.Conn, change func(n int, frame []byte) []byte) {
				defer to.Close()
				for n := 0; ; n++ {
					length := make([]byte, 4)
					if _, err := io.ReadFull(from, length); err != nil {
						return
					}
					frame := make([]byte, binary.BigEndian.Uint32(length))
					if _, err := io.ReadFull(from, frame); err != nil {
						return
					}
					frame = change(n, frame)
					if _, err := to.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
						return
					}
				}
			}
			named := append(binary.BigEndian.AppendUint32(nil, uint32(len(path))), path...)
			go func() {
				copyFrames(server, client, func(n int, frame []byte) []byte {
					if n > 0 && len(frame) > 8 && bytes.HasPrefix(frame[8:], named) {
						mu.Lock()
						lost = append(lost, int32(binary.BigEndian.Uint32(frame)))
						mu.Unlock()
					}
					return frame
				})
			}()
			go func() {
				copyFrames(client, server, func(n int, frame []byte) []byte {
					mu.Lock()
					defer mu.Unlock()
					if n == 0 || !slices.Contains(lost, int32(binary.BigEndian.Uint32(frame))) {
						return frame
					}
					code := int32(jute.ErrMarshallingError)
					return binary.BigEndian.AppendUint32(frame[:12:12], uint32(code))
				})
			}()
		}
	}()
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}
