package socket

import "net"

// Replay returns a connection whose reads return head and then the data of nc. head are the first bytes, which were
// already read from nc. Replay retains head.
func Replay(nc net.Conn, head []byte) net.Conn { return &replayed{Conn: nc, head: head} }

type replayed struct {
	net.Conn
	head []byte // still to be read
}

// Read reads the rest of head, then from the connection.
func (r *replayed) Read(b []byte) (int, error) {
	if len(r.head) == 0 {
		return r.Conn.Read(b)
	}
	n := copy(b, r.head)
	if r.head = r.head[n:]; len(r.head) == 0 {
		r.head = nil // frees its memory
	}
	return n, nil
}

// NetConn returns the underlying connection, as tls.Conn.NetConn does.
func (r *replayed) NetConn() net.Conn { return r.Conn }

// Below returns the connection at the bottom of nc, following NetConn.
func Below(nc net.Conn) net.Conn {
	for {
		above, ok := nc.(interface{ NetConn() net.Conn })
		if !ok {
			return nc
		}
		nc = above.NetConn()
	}
}
