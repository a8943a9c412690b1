package main

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"crypto/ecdh"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"slices"
	"time"
)

// sealedMode is the kind of proof of a peer that knows the ensemble's secret
// (internal/quorum/peer/handshake/proof.go).
const sealedMode = 1

// A sealedConn is an insider's connection to the peer port: whatever it writes
// is sealed as the protocol requires.
type sealedConn struct {
	net.Conn
	r       *bufio.Reader
	in, out cipher.AEAD
	reads   uint64
	writes  uint64
}

// dialInside connects to a peer port in the name of a server, with the ensemble's
// secret.
func (f *field) dialInside(x extreme, addr string, from uint64) (*sealedConn, error) {
	nc, err := f.dial(addr)
	if err != nil {
		return nil, err
	}
	nc.SetDeadline(time.Now().Add(4 * sendPatience))
	c, err := f.prove(x, nc, from)
	if err != nil {
		nc.Close()
		return nil, err
	}
	return c, nil
}

func (f *field) prove(x extreme, nc net.Conn, from uint64) (*sealedConn, error) {
	own, err := ecdh.X25519().NewPrivateKey(x.noise(32))
	if err != nil {
		return nil, err
	}
	said := append([]byte(peerMagic), 3, sealedMode)
	said = binary.BigEndian.AppendUint64(said, from)
	said = append(append(said, x.noise(32)...), own.PublicKey().Bytes()...)
	if _, err := nc.Write(said); err != nil {
		return nil, err
	}
	var challenge [64]byte
	if _, err := io.ReadFull(nc, challenge[:]); err != nil {
		return nil, err
	}
	theirs, err := ecdh.X25519().NewPublicKey(challenge[32:])
	if err != nil {
		return nil, err
	}
	shared, err := own.ECDH(theirs)
	if err != nil {
		return nil, err
	}
	transcript := sha256.Sum256(append(said, challenge[:]...))
	both := slices.Concat(f.secret, shared)
	key, err := hkdf.Key(sha256.New, both, transcript[:], "zooid peer proof 3", 32)
	if err != nil {
		return nil, err
	}
	mac := hmac.New(sha256.New, key)
	mac.Write(transcript[:])
	if _, err := nc.Write(mac.Sum(nil)); err != nil {
		return nil, err
	}
	c := &sealedConn{Conn: nc, r: bufio.NewReader(nc)}
	c.in, err = direction(both, transcript[:], "zooid peer listener")
	if err == nil {
		c.out, err = direction(both, transcript[:], "zooid peer dialler")
	}
	return c, err
}

func direction(secret, transcript []byte, what string) (cipher.AEAD, error) {
	key, err := hkdf.Key(sha256.New, secret, transcript, what, 32)
	if err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return cipher.NewGCM(block)
}

// Write seals b in records of at most 64 KiB.
func (c *sealedConn) Write(b []byte) (int, error) {
	for part := range slices.Chunk(b, 64<<10) {
		record := binary.BigEndian.AppendUint32(nil, uint32(len(part)+c.out.Overhead()))
		var nonce [12]byte
		binary.BigEndian.PutUint64(nonce[4:], c.writes)
		c.writes++
		record = c.out.Seal(record, nonce[:], part, record[:4])
		if _, err := c.Conn.Write(record); err != nil {
			return 0, err
		}
	}
	return len(b), nil
}

// answer reads the answer to a hello, and reports whether the hello is accepted.
func (c *sealedConn) answer() (accepted bool, err error) {
	var head [4]byte
	if _, err := io.ReadFull(c.r, head[:]); err != nil {
		return false, err
	}
	n := binary.BigEndian.Uint32(head[:])
	if n > 65<<10 {
		return false, errors.New("the record is too long")
	}
	record := make([]byte, n)
	if _, err := io.ReadFull(c.r, record); err != nil {
		return false, err
	}
	var nonce [12]byte
	binary.BigEndian.PutUint64(nonce[4:], c.reads)
	c.reads++
	plain, err := c.in.Open(nil, nonce[:], record, head[:])
	if err != nil {
		return false, err
	}
	return len(plain) == 4 && binary.BigEndian.Uint32(plain) == 0, nil
}
