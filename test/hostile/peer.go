package main

import (
	"encoding/binary"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"net"
	"sync/atomic"
	"time"
)

// The protocol of peers (internal/quorum/peer/wire.go): a hello with its
// answer, then frames. Insiders first prove that they know the secret
// (sealed.go); servers of the first version had nothing to prove.
const (
	peerMagic    = "ZOOIDPEER"
	peerMessages = 1
	peerSnapshot = 2
	peerJoin     = 3
	peerPing     = 4

	frameRaft    = 1
	frameForward = 2
	frameHeard   = 3
)

// peerHello returns a hello; nothing in it is checked.
func peerHello(version, kind byte, cluster, from, to uint64) []byte {
	b := append([]byte(peerMagic), version, kind)
	for _, v := range []uint64{cluster, from, to} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// peerFrame returns a frame whose length may be wrong.
func peerFrame(length uint32, kind byte, payload []byte) []byte {
	return append(append(binary.BigEndian.AppendUint32(nil, length), kind), payload...)
}

// attackPeerGarbage sends garbage to the peer port, from many connections.
func attackPeerGarbage(f *field) error { return f.babble(f.peers) }

// attackPeerSilence holds idle connections to the peer port, more than the
// servers have descriptors for.
func attackPeerSilence(f *field) error {
	return f.hold(f.peers, 1500*len(f.peers), peerHello(1, peerMessages, f.cluster, 1, 2))
}

// attackPeerJoins asks every server to let each of the servers join, as one
// whose disk is empty.
func attackPeerJoins(f *field) error {
	f.workers(3*len(f.peers), func(i int, _ *rand.Rand) {
		to, from := i%len(f.peers), i/len(f.peers)%len(f.peers)
		for !f.over() {
			if nc, err := f.dial(f.peers[to]); err == nil {
				nc.SetDeadline(time.Now().Add(sendPatience))
				f.counts.requests.Add(1)
				nc.Write(peerHello(1, peerJoin, 0, uint64(from+1), uint64(to+1)))
				if n, _ := io.CopyN(io.Discard, nc, 21); n == 21 {
					f.counts.replies.Add(1)
				}
				nc.Close()
			}
			f.sleep(20 * time.Millisecond)
		}
	})
	return nil
}

// attackPeerHellos asks to join in the names of running servers, and sends
// every kind of hello in their names.
func attackPeerHellos(f *field) error {
	f.workers(64, func(i int, rng *rand.Rand) {
		x := extreme{rng}
		for n := i; !f.over(); n++ {
			to := n % len(f.peers)
			nc, err := f.dial(f.peers[to])
			if err != nil {
				continue
			}
			from := pick(x, []uint64{1, 2, 3, uint64(to + 1), 0, 4, 255, math.MaxUint64, rng.Uint64()})
			kind := pick(x, []byte{peerJoin, peerJoin, peerJoin, peerMessages, peerSnapshot, peerPing, 0, 5, 255})
			cluster := pick(x, []uint64{0, f.cluster, f.cluster, rng.Uint64()})
			version := pick(x, []byte{1, 1, 1, 1, 0, 3, 255})
			nc.SetDeadline(time.Now().Add(sendPatience))
			f.counts.requests.Add(1)
			hello := peerHello(version, kind, cluster, from, uint64(to+1))
			if x.IntN(2) == 0 {
				hello = x.peerOpening(from)
			}
			nc.Write(hello[:pick(x, []int{len(hello), len(hello), len(hello), rng.IntN(len(hello))})])
			if m, _ := nc.Read(make([]byte, 1<<10)); m > 0 {
				f.counts.replies.Add(1)
				nc.Write(x.noise(x.IntN(100))) // an invalid proof
			}
			nc.Close()
		}
	})
	return nil
}

// attackPeerRaft sends a hello in the name of another server, and then frames.
func attackPeerRaft(f *field) error {
	f.workers(6, func(i int, rng *rand.Rand) {
		x := extreme{rng}
		for n := i; !f.over(); n++ {
			to := n % len(f.peers)
			from := uint64((to+1+rng.IntN(len(f.peers)-1))%len(f.peers) + 1)
			nc, err := f.dial(f.peers[to])
			if err != nil {
				continue
			}
			nc.SetDeadline(time.Now().Add(sendPatience))
			kind := pick(x, []byte{peerMessages, peerMessages, peerMessages, peerSnapshot})
			nc.Write(peerHello(1, kind, f.cluster, from, uint64(to+1)))
			var answer [4]byte
			if _, err := io.ReadFull(nc, answer[:]); err == nil && binary.BigEndian.Uint32(answer[:]) == 0 {
				f.sendFrames(nc, x, uint64(to+1), from)
			}
			nc.Close()
			f.sleep(time.Millisecond)
		}
	})
	return nil
}

// errNotInside says that an insider's proof was not accepted, so the attack
// would show nothing.
var errNotInside = errors.New("no server has accepted the proof of an insider")

// attackPeerInside is attackPeerRaft by an attacker that knows the ensemble's secret.
func attackPeerInside(f *field) error {
	var accepted atomic.Int64
	f.workers(6, func(i int, rng *rand.Rand) {
		x := extreme{rng}
		for n := i; !f.over(); n++ {
			to := n % len(f.peers)
			from := uint64((to+1+rng.IntN(len(f.peers)-1))%len(f.peers) + 1)
			if c, err := f.dialInside(x, f.peers[to], from); err == nil {
				kind := pick(x, []byte{peerMessages, peerMessages, peerMessages, peerSnapshot, peerJoin, peerPing, 0, 200})
				c.Write(peerHello(1, kind, f.cluster, from, uint64(to+1)))
				if ok, _ := c.answer(); ok {
					accepted.Add(1)
					f.sendFrames(c, x, uint64(to+1), from)
				}
				c.Close()
			}
			f.sleep(time.Millisecond)
		}
	})
	if accepted.Load() == 0 && f.counts.connections.Load() > 0 {
		return errNotInside
	}
	f.counts.replies.Add(accepted.Load())
	return nil
}

// sendFrames sends frames of every kind until the connection ends.
func (f *field) sendFrames(nc net.Conn, x extreme, to, from uint64) {
	for range 1 + x.IntN(30) {
		if f.over() {
			return
		}
		kind, payload := x.peerPayload(to, from)
		length := uint32(len(payload) + 1)
		if x.IntN(20) == 0 {
			length = pick(x, []uint32{0, 1, 64 << 20, 64<<20 + 1, math.MaxUint32})
		}
		b := peerFrame(length, kind, payload)
		f.counts.requests.Add(1)
		f.pace(len(b))
		if _, err := nc.Write(b); err != nil {
			return
		}
	}
}

// peerOpening returns the beginning of the protocol by which servers prove their
// identity, without any proof.
func (x extreme) peerOpening(from uint64) []byte {
	b := append([]byte(peerMagic), 2, byte(x.IntN(5)))
	b = binary.BigEndian.AppendUint64(b, from)
	b = append(b, x.noise(32)...)
	if x.IntN(3) == 0 {
		return append(b, make([]byte, 32)...) // a public key that yields no shared secret
	}
	return append(b, x.noise(32)...)
}

// peerPayload returns the kind and the payload of a frame.
func (x extreme) peerPayload(to, from uint64) (kind byte, payload []byte) {
	switch x.IntN(8) {
	case 0:
		return frameForward, x.noise(x.size(100_000))
	case 1:
		return frameHeard, x.noise(8 * x.size(10_000))
	case 2:
		return byte(x.IntN(256)), x.noise(x.size(1000))
	}
	return frameRaft, x.raftMessage(to, from)
}

func (x extreme) noise(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(x.Uint32())
	}
	return b
}
