package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"os"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// A silence is a way to hold a connection and say nothing, or something that isn't true.
type silence struct {
	name string
	// first is what is said at once, and rest what follows it byte by byte, each silencePause.
	first, rest []byte
}

// silencePause is the time between two bytes, and the least between two connections of one that is held.
const silencePause = 3 * time.Second

// silenceStart is the time within which all connections begin. More than connectionsAtOnce take as
// long as a server waits for a connect request: else they would all end, and begin again, in the
// same second, and be fewer then.
const (
	silenceStart     = time.Second
	silenceStartMany = 10 * time.Second
)

// silences are all kinds, which take turns.
func silences() []silence {
	hello := newSession(20_000)
	request := jute.AppendFrame(nil, hello.Append)
	tlsHello := []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03half of a client hello, which never ends")
	return []silence{
		{name: "nothing"},
		{name: "half a frame", first: request[:len(request)/2]},
		{name: "wrong length", first: append([]byte{0, 0, jute.ConnectRequestSizeMax >> 8, jute.ConnectRequestSizeMax & 0xff}, request[4:]...)},
		{name: "half a TLS hello", first: tlsHello},
		{name: "connect request, then silence", first: request},
		{name: "byte by byte", first: request[:1], rest: request[1:]},
		{name: "half a four-letter word", first: []byte("ru")},
		{name: "half a request", first: append(request[:len(request):len(request)], 0, 0, 0, 20, 0, 0, 0, 1)},
	}
}

// attackSilence holds thousands of connections that say nothing, or lie about what they are
// going to say. One that the server ends begins again.
func attackSilence(f *field) error {
	kinds, start := silences(), silenceStart
	if f.connections > connectionsAtOnce {
		start = silenceStartMany
	}
	f.workers(f.connections, func(i int, rng *rand.Rand) {
		k := kinds[i%len(kinds)]
		f.sleep(time.Duration(rng.Int64N(int64(start))))
		for !f.over() {
			began := time.Now()
			if nc, err := f.dial(f.addr(i)); err == nil {
				f.counts.held.Add(1)
				f.keepSilent(nc, &k)
				f.counts.held.Add(-1)
				nc.Close()
			}
			if !f.over() {
				f.counts.lost.Add(1)
				f.sleep(time.Until(began.Add(silencePause)))
			}
		}
	})
	return nil
}

// keepSilent returns when the server has ended the connection, or the attack is over.
func (f *field) keepSilent(nc net.Conn, k *silence) {
	defer context.AfterFunc(f.ctx, func() { nc.Close() })()
	b := make([]byte, 64)
	nc.Write(k.first)
	for rest := k.rest; !f.over(); {
		patience := time.Minute
		if len(rest) > 0 {
			patience = silencePause
		}
		nc.SetReadDeadline(time.Now().Add(patience))
		_, err := nc.Read(b) // what the server says is of no interest
		switch {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return
		case len(rest) > 0:
			nc.Write(rest[:1])
			rest = rest[1:]
		}
	}
}
