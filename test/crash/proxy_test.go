package crash

import (
	"bytes"
	"io"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// echo listens and sends everything back.
func echo(t *testing.T) string {
	return freeport.Serve(t, func(c net.Conn) { io.Copy(c, c) })
}

func proxied(t *testing.T) (*Proxy, net.Conn) {
	p, err := NewProxy(echo(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Close)
	c, err := net.Dial("tcp", p.Addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return p, c
}

// roundTrip sends b and reads it back.
func roundTrip(t *testing.T, c net.Conn, b []byte) {
	t.Helper()
	go c.Write(b)
	back := make([]byte, len(b))
	c.SetReadDeadline(time.Now().Add(10 * time.Second))
	if _, err := io.ReadFull(c, back); err != nil || !bytes.Equal(back, b) {
		t.Fatalf("sent %d bytes and did not get them back: %v", len(b), err)
	}
}

func TestProxyPasses(t *testing.T) {
	t.Parallel()
	_, c := proxied(t)
	roundTrip(t, c, bytes.Repeat([]byte("zooid"), 100_000))
}

// TestProxyBlocks shows that blocked bytes wait and then go on, each way.
func TestProxyBlocks(t *testing.T) {
	t.Parallel()
	for name, f := range map[string]Faults{"up": {Up: Line{Block: true}}, "down": {Down: Line{Block: true}}} {
		t.Run(name, func(t *testing.T) {
			p, c := proxied(t)
			roundTrip(t, c, []byte("before"))
			p.Set(f)
			c.Write([]byte("held"))
			c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
			if n, err := c.Read(make([]byte, 4)); n > 0 || err == nil {
				t.Fatalf("%d bytes passed a blocked proxy (%v)", n, err)
			}
			p.Set(Faults{})
			back := make([]byte, 4)
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if _, err := io.ReadFull(c, back); err != nil || string(back) != "held" {
				t.Fatalf("after the block came %q, %v", back, err)
			}
		})
	}
}

func TestProxyBreaks(t *testing.T) {
	t.Parallel()
	for name, hurt := range map[string]func(*Proxy, net.Conn){
		"reset": func(p *Proxy, c net.Conn) { p.Reset() },
		"cut":   func(p *Proxy, c net.Conn) { p.CutAfter(3); c.Write([]byte("12345")) },
	} {
		t.Run(name, func(t *testing.T) {
			p, c := proxied(t)
			roundTrip(t, c, []byte("before"))
			hurt(p, c)
			c.SetReadDeadline(time.Now().Add(10 * time.Second))
			if n, err := c.Read(make([]byte, 8)); err == nil || isTimeout(err) {
				t.Fatalf("the connection goes on: %d bytes, %v", n, err)
			}
			c2, err := net.Dial("tcp", p.Addr())
			if err != nil {
				t.Fatal(err)
			}
			defer c2.Close()
			roundTrip(t, c2, []byte("the next one works"))
		})
	}
}

func TestProxyCallsOffACut(t *testing.T) {
	t.Parallel()
	p, c := proxied(t)
	p.CutAfter(3)
	p.Set(Faults{})
	roundTrip(t, c, []byte("longer than three bytes"))
}

func TestProxyHalfOpen(t *testing.T) {
	t.Parallel()
	p, c := proxied(t)
	roundTrip(t, c, []byte("before"))
	if n := p.HalfOpen(); n != 1 {
		t.Fatalf("broke %d connections, not 1", n)
	}
	c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if n, err := c.Read(make([]byte, 4)); !isTimeout(err) {
		t.Fatalf("the dialler noticed: %d bytes, %v", n, err)
	}
}

func TestProxyRefuses(t *testing.T) {
	t.Parallel()
	p, _ := proxied(t)
	p.Set(Faults{Refuse: true})
	c, err := net.Dial("tcp", p.Addr())
	if err == nil {
		defer c.Close()
		c.SetReadDeadline(time.Now().Add(10 * time.Second))
		if _, err := c.Read(make([]byte, 1)); err == nil || isTimeout(err) {
			t.Fatalf("a refused connection lives: %v", err)
		}
	}
}

func isTimeout(err error) bool {
	e, ok := err.(net.Error)
	return ok && e.Timeout()
}
