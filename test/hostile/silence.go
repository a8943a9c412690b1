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

// A silence is a way to hold a connection and send nothing, or something untrue.
type silence struct {
	name string
	// first is sent at once; rest follows byte by byte, one every silencePause.
	first, rest []byte
}

// silencePause is the time between two bytes, and the least between a connection and the one that replaces it.
const silencePause = 3 * time.Second

// silenceStart is the time within which all connections begin. If there are more than
// connectionsAtOnce, it is as long as a server waits for a connect request: otherwise all
// of them would end, and begin again, in the same second, and there would be fewer then.
const (
	silenceStart     = time.Second
	silenceStartMany = 10 * time.Second
)

// silences returns all kinds, which are used in turn.
func silences() []silence {
	hello := newSession(20_000)
	request := jute.AppendFrame(nil, hello.Append)
	tlsHello := []byte("\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03half of a client hello, which never ends")
	return []silence{
		{name: "nothing"},
		{name: "half a frame", first: request[:len(request)/2]},
		{name: "wrong length",
			first: append([]byte{0, 0, jute.ConnectRequestSizeMax >> 8, jute.ConnectRequestSizeMax & 0xff}, request[4:]...)},
		{name: "half a TLS hello", first: tlsHello},
		{name: "connect request, then silence", first: request},
		{name: "byte by byte", first: request[:1], rest: request[1:]},
		{name: "half a four-letter word", first: []byte("ru")},
		{name: "half a request", first: append(request[:len(request):len(request)], 0, 0, 0, 20, 0, 0, 0, 1)},
	}
}

// attackSilence holds thousands of connections that send nothing, or lie about what
// they are going to send. A connection that the server ends is opened again.
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

// keepSilent holds a connection until the server has ended it, or the attack is over.
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
		_, err := nc.Read(b) // the server's output doesn't matter
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
