package socket

import (
	"bufio"
	"net"
	"testing"
	"time"
)

// TestPortEvicts: a host that takes all connections of a port can't keep others out, neither another host nor another
// client on the same host. The oldest of its connections makes room, but never one that was kept.
func TestPortEvicts(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	const most = 4
	p := NewPort(l, nil, time.Hour, most)
	t.Cleanup(func() {
		p.Close()
		p.Wait()
	})
	go func() { // an echo; it keeps who sends a k
		for {
			nc, err := p.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				for b := make([]byte, 1); ; {
					if _, err := nc.Read(b); err != nil {
						return
					}
					if b[0] == 'k' {
						p.Keep(nc)
					}
					nc.Write(b) // a failure shows in the next read
				}
			}()
		}
	}()
	from := func(host string) net.Conn {
		d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(host)}}
		nc, err := d.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { nc.Close() })
		nc.SetDeadline(time.Now().Add(time.Minute))
		return nc
	}
	says := func(nc net.Conn, b byte) bool {
		nc.Write([]byte{b}) // a failure shows below
		_, err := bufio.NewReader(nc).ReadByte()
		return err == nil
	}
	lives := func(nc net.Conn) bool { return says(nc, 'x') }
	var flood []net.Conn
	for range most {
		nc := from("127.0.0.2")
		if !lives(nc) {
			t.Fatal("there is no room for the first connections")
		}
		flood = append(flood, nc)
	}
	if !lives(from("127.0.0.2")) || lives(flood[0]) || !lives(flood[1]) {
		t.Error("another client of the host doesn't take the place of the oldest")
	}
	other := from("127.0.0.3")
	if !lives(other) || lives(flood[1]) || !lives(flood[2]) {
		t.Error("another host's client doesn't take the place of the oldest")
	}
	for range 2 * most {
		if !lives(from("127.0.0.2")) {
			t.Error("the flood doesn't make room for itself")
		}
	}
	if !lives(other) {
		t.Error("the other host's connection has made room for the flood")
	}
	if n := p.Connections(); n != most {
		t.Errorf("%d connections are counted, want %d", n, most)
	}
	kept := []net.Conn{other}
	for len(kept) < most {
		kept = append(kept, from("127.0.0.2"))
	}
	for _, nc := range kept {
		if !says(nc, 'k') {
			t.Fatal("no room")
		}
	}
	if lives(from("127.0.0.4")) {
		t.Error("there are more connections than may be")
	}
	for _, nc := range kept {
		if !lives(nc) {
			t.Error("a connection that was kept has made room")
		}
	}
	other.Close()
	for !lives(from("127.0.0.4")) {
		time.Sleep(time.Millisecond) // until the end of the other has shown
	}
}
