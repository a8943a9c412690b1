package socket

import (
	"crypto/tls"
	"errors"
	"net"
	"os"
	"time"
)

const (
	// lingerBytesMax bounds how much Linger discards: more than the largest request by default.
	lingerBytesMax = 1 << 20
	// lingerReadBytes is small: many connections may linger at a time.
	lingerReadBytes = 512
)

// EndOutput ends the output of a connection, which may use TLS: the other end reads all that was written, and then the
// end.
func EndOutput(nc net.Conn) error {
	if secure, ok := nc.(*tls.Conn); ok {
		secure.CloseWrite() // an alert; without it, the end counts as an attack
	}
	half, ok := Below(nc).(interface{ CloseWrite() error })
	if !ok {
		return errors.ErrUnsupported
	}
	return half.CloseWrite()
}

// Linger ends the output of a connection, and discards its input until the other end closes the connection, for at most
// patience and lingerBytesMax. Then the caller closes it. The caller no longer reads or writes, but it may have another
// goroutine that ends the output too, or sets a read deadline that has passed. Closing nc meanwhile ends Linger.
//
// Without Linger, input that isn't read, or that arrives later, would be answered with a reset. Then the other end's
// next write fails, and many clients don't read the reply that explains the end. Some systems even discard the reply.
func Linger(nc net.Conn, patience time.Duration) {
	below := Below(nc)
	over := time.AfterFunc(patience, func() { below.Close() }) // ends writes, too: the alert may wait for another one
	defer over.Stop()
	if EndOutput(nc) != nil {
		return
	}
	in := make([]byte, lingerReadBytes)
	for left := lingerBytesMax; left > 0; {
		n, err := below.Read(in)
		left -= n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			err = below.SetReadDeadline(time.Time{})
		}
		if err != nil {
			return
		}
	}
}
