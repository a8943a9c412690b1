package socket

import "net"

// Replay returns a connection that reads as nc does before head, its first bytes, was taken
// from it. It keeps head.
func Replay(nc net.Conn, head []byte) net.Conn { return &replayed{Conn: nc, head: head} }

type replayed struct {
	net.Conn
	head []byte // still to be read
}

// Read returns what was taken already, then what comes.
func (r *replayed) Read(b []byte) (int, error) {
	if len(r.head) == 0 {
		return r.Conn.Read(b)
	}
	n := copy(b, r.head)
	r.head = r.head[n:]
	return n, nil
}

// NetConn returns the connection below, as that of package tls does.
func (r *replayed) NetConn() net.Conn { return r.Conn }
