package peer

import (
	"log/slog"
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// TestUnackedOverTLS: the bound on unacknowledged bytes is on the socket below TLS
// as well.
func TestUnackedOverTLS(t *testing.T) {
	t.Parallel()
	ca := newIssuer(t)
	secure := ca.mutual(ca.issue(t, "127.0.0.1"))
	secure.Keys = sharing("a secret").Keys
	a, addr, _ := runningSecure(t, 1, secure)
	a.setPeer(2, []string{"127.0.0.1:1"})
	theirs := secure
	theirs.Keys = sharing("a secret").Keys
	d := newTransport(2, 7, theirs, slog.New(slog.DiscardHandler))
	c, err := d.greet(t.Context(), addr, hello{connMessages, 7, 2, 1}, false)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	over := c.Conn.(*handshake.Sealed).NetConn().(interface{ NetConn() net.Conn })
	raw, err := over.NetConn().(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	var got int
	if e := raw.Control(func(fd uintptr) {
		got, err = unix.GetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT)
	}); e != nil || err != nil || got != int(unackedMax/time.Millisecond) {
		t.Errorf("TCP_USER_TIMEOUT is %d ms, %v, %v; want %v", got, err, e, unackedMax)
	}
}
