package server

import (
	"crypto/x509"
	"net"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/socket"
)

// A clientSocket is the connection below a client, as the replica sees it.
type clientSocket struct {
	out   *replies
	nc    net.Conn
	c     *replica.Client
	acked func() bool      // nil if that can't be determined
	try   func([]byte) int // nil if writes may block, as those of TLS do

	shown []*x509.Certificate // that the client has presented
	self  bool                // the client is the server itself
}

// Wake makes another goroutine flush.
func (k *clientSocket) Wake() {
	if k.try != nil {
		k.out.flushPool.add(k)
	} else {
		go k.out.flush(k.nc, k.c)
	}
}

func (k *clientSocket) Try(out []byte) int {
	if k.try == nil {
		return 0
	}
	return k.try(out)
}

func (k *clientSocket) Tries() bool               { return k.try != nil }
func (k *clientSocket) Push()                     { k.out.pushTo(k.nc, k.c) }
func (k *clientSocket) Rest(d time.Duration)      { k.out.pause(d) }
func (k *clientSocket) Abort()                    { go socket.Below(k.nc).Close() }
func (k *clientSocket) Delivered() (uint64, bool) { return socket.Delivered(socket.Below(k.nc)) }
func (k *clientSocket) Acked() bool               { return k.acked == nil || k.acked() }
