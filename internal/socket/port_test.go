package socket

import (
	"bufio"
	"io"
	"net"
	"testing"
	"time"
)

// TestPortEvicts: a host that takes all connections of a port doesn't keep another host out, which takes the place of
// the oldest, and whom the flood doesn't put out again.
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
	go func() { // an echo
		for {
			nc, err := p.Accept()
			if err != nil {
				return
			}
			go func() {
				defer nc.Close()
				io.Copy(nc, nc) // ends with the connection
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
	lives := func(nc net.Conn) bool {
		nc.Write([]byte{'x'}) // a failure shows below
		_, err := bufio.NewReader(nc).ReadByte()
		return err == nil
	}
	var flood []net.Conn
	for range most {
		nc := from("127.0.0.2")
		if !lives(nc) {
			t.Fatal("there is no room for the first connections")
		}
		flood = append(flood, nc)
	}
	if lives(from("127.0.0.2")) {
		t.Error("a host that has all connections gets one more")
	}
	other := from("127.0.0.3")
	if !lives(other) {
		t.Fatal("another host is kept out")
	}
	if lives(flood[0]) || !lives(flood[1]) || !lives(flood[2]) || !lives(flood[3]) {
		t.Error("not the oldest connection has made room")
	}
	for range most {
		if lives(from("127.0.0.2")) {
			t.Error("the host that has the most gets one more")
		}
	}
	if !lives(other) {
		t.Error("the other host's connection has made room for the flood")
	}
	if n := p.Connections(); n != most {
		t.Errorf("%d connections are counted, want %d", n, most)
	}
	flood[1].Close()
	for !lives(from("127.0.0.2")) {
		time.Sleep(time.Millisecond) // until the end of the other has shown
	}
}
