package socket

import "net"

// An Output is a connection to which an answer is written, with or without TLS.
type Output struct{ net.Conn }

// Delivered is the function Delivered for the TCP connection below.
func (o Output) Delivered() (n uint64, ok bool) { return Delivered(o.tcp()) }

// Reset closes the connection at once, and discards what the other end has not taken. The other end gets an error
// rather than an end that looks like that of the answer.
func (o Output) Reset() {
	if tcp, ok := o.tcp().(*net.TCPConn); ok {
		tcp.SetLinger(0)
	}
	Below(o.Conn).Close() // an alert of TLS would wait for the write that is under way
}

func (o Output) tcp() net.Conn {
	nc := Below(o.Conn)
	if c, ok := nc.(*counted); ok {
		return c.Conn
	}
	return nc
}
