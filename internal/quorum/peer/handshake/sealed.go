package handshake

import (
	"bufio"
	"crypto/aes"
	"crypto/cipher"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"slices"
)

// A sealed connection carries records, each authenticated by AES-256 in GCM with a key
// for its connection and direction:
//
//	record    length(4) of what follows, bytes and tag(16)
//
// The nonce is the record's number, so that a missing, repeated or moved record is
// detected. The length is authenticated too. Until Unveil is called the bytes are also
// encrypted: the hello, its answer and the messages about the ensemble's secret. Messages
// and snapshots aren't encrypted, since that would double the cost of sealing, which is 2 %
// of a write's cost on three servers. Users that need encryption can use TLS: over TLS, to
// which the proof is bound, messages and snapshots aren't sealed a second time.
const (
	recordSizeMax = 64 << 10 // of a record's bytes before they are sealed
	recordHead    = 4
	recordTag     = 16
	// recordsAtOnce bounds the records that are written to the socket, or read from it, at
	// once.
	recordsAtOnce = 4
)

// Sealed is a sealed connection. It buffers what it reads. At most one goroutine at a time may read, and one write.
type Sealed struct {
	net.Conn
	in, out     cipher.AEAD
	unveiled    bool   // records are authenticated, but not encrypted
	opened      bool   // no more records: TLS protects what follows
	read, wrote uint64 // numbers of records
	r           *bufio.Reader
	plain, rest []byte // bytes of the last record read; rest is what Read hasn't returned yet
	behind      int    // bytes of r that hold the last record, to be discarded
	buf         []byte
}

// newSealed seals c after a handshake. Only the two ends know psk and shared.
func newSealed(c net.Conn, psk, shared, transcript []byte, dialled bool) (*Sealed, error) {
	secret := slices.Concat(psk, shared)
	direction := func(what string) (cipher.AEAD, error) {
		block, err := aes.NewCipher(derive(secret, transcript, what))
		if err != nil {
			return nil, err
		}
		return cipher.NewGCM(block)
	}
	s := &Sealed{Conn: c, r: bufio.NewReaderSize(c, recordsAtOnce*(recordHead+recordSizeMax+recordTag))}
	var err, err2 error
	s.in, err = direction("zooid peer listener")
	s.out, err2 = direction("zooid peer dialler")
	if !dialled {
		s.in, s.out = s.out, s.in
	}
	if err = errors.Join(err, err2); err != nil {
		return nil, fmt.Errorf("seal the connection to a peer: %w", err)
	}
	return s, nil
}

// Unveil ends the encryption of the connection, in both directions. The dialler calls it after it has read the answer
// to its hello, and the listener after it has written that answer. Neither sends anything in between.
func (s *Sealed) Unveil() {
	_, s.opened = TLS(s.Conn)
	s.unveiled = true
}

// NetConn returns the underlying connection.
func (s *Sealed) NetConn() net.Conn { return s.Conn }

// nonceOf returns the nonce of record number n.
func nonceOf(n uint64) (nonce [12]byte) {
	binary.BigEndian.PutUint64(nonce[4:], n)
	return nonce
}

// Write writes b as sealed records.
func (s *Sealed) Write(b []byte) (n int, err error) {
	if s.opened {
		return s.Conn.Write(b)
	}
	for len(b) > 0 {
		s.buf = s.buf[:0]
		taken := 0
		for range recordsAtOnce {
			part := b[:min(len(b), recordSizeMax)]
			if len(part) == 0 {
				break
			}
			head := len(s.buf)
			s.buf = binary.BigEndian.AppendUint32(s.buf, uint32(len(part)+recordTag))
			nonce := nonceOf(s.wrote)
			s.wrote++
			if s.unveiled {
				s.buf = append(s.buf, part...)
				s.buf = s.out.Seal(s.buf, nonce[:], nil, s.buf[head:])
			} else {
				s.buf = s.out.Seal(s.buf, nonce[:], part, s.buf[head:head+recordHead])
			}
			b = b[len(part):]
			taken += len(part)
		}
		if _, err := s.Conn.Write(s.buf); err != nil {
			return n, err
		}
		n += taken
	}
	return n, nil
}

// errForged says that a record isn't the one that the peer wrote next.
var errForged = errors.New("a record from the peer was changed on its way, or isn't its next one: the connection is ended")

// Read reads bytes of the next record, once it has authenticated the record.
func (s *Sealed) Read(b []byte) (int, error) {
	for len(s.rest) == 0 {
		s.r.Discard(s.behind)
		s.behind = 0
		if s.opened {
			return s.r.Read(b)
		}
		head, err := s.r.Peek(recordHead)
		if err != nil {
			return 0, err
		}
		n := int(binary.BigEndian.Uint32(head))
		if n < recordTag || n > recordSizeMax+recordTag {
			return 0, fmt.Errorf("%w (it has %d bytes)", errForged, n)
		}
		record, err := s.r.Peek(recordHead + n)
		if err != nil {
			return 0, err
		}
		nonce := nonceOf(s.read)
		s.read++
		if s.unveiled {
			s.rest, s.behind = record[recordHead:recordHead+n-recordTag], len(record)
			_, err = s.in.Open(nil, nonce[:], record[len(record)-recordTag:], record[:len(record)-recordTag])
		} else {
			s.plain, err = s.in.Open(s.plain[:0], nonce[:], record[recordHead:], record[:recordHead])
			s.rest, s.behind = s.plain, len(record)
		}
		if err != nil {
			s.rest = nil
			return 0, errForged
		}
	}
	n := copy(b, s.rest)
	s.rest = s.rest[n:]
	return n, nil
}
