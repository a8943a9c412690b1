package tree

import (
	"encoding/binary"
	"math/bits"
	"unsafe"
)

// A hashKey keys every hash of the package. The multiply-and-fold hash below is fast but not cryptographic: without the
// key an attacker can't construct collisions in the table, and no hash value leaves the server.
type hashKey [4]uint64

// newHashKey expands the 16 bytes of Options.Key.
func newHashKey(k [16]byte) hashKey {
	a, b := binary.LittleEndian.Uint64(k[:8]), binary.LittleEndian.Uint64(k[8:])
	var h hashKey
	for i := range h {
		a += 0x9e3779b97f4a7c15
		b ^= fold(a^0xbf58476d1ce4e5b9, b^0x94d049bb133111eb)
		h[i] = fold(a^b, b|1) ^ a
	}
	return h
}

// fold multiplies to 128 bits and folds the halves.
func fold(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// bytes hashes p, continuing from seed.
func (k *hashKey) bytes(seed uint64, p []byte) uint64 {
	n := uint64(len(p))
	seed ^= k[0]
	for len(p) > 16 {
		seed = fold(binary.LittleEndian.Uint64(p)^k[1], binary.LittleEndian.Uint64(p[8:])^seed)
		p = p[16:]
	}
	var a, b uint64
	switch {
	case len(p) >= 8:
		a, b = binary.LittleEndian.Uint64(p), binary.LittleEndian.Uint64(p[len(p)-8:])
	case len(p) >= 4:
		a, b = uint64(binary.LittleEndian.Uint32(p)), uint64(binary.LittleEndian.Uint32(p[len(p)-4:]))
	case len(p) > 0:
		a = uint64(p[0])<<16 | uint64(p[len(p)/2])<<8 | uint64(p[len(p)-1])
	}
	return fold(k[2]^n, fold(a^k[1], b^seed))
}

// child hashes the path of a child with the name name. parent is the hash of its parent's path.
func (k *hashKey) child(parent uint64, name string) uint64 {
	return k.bytes(parent, unsafe.Slice(unsafe.StringData(name), len(name)))
}

// words hashes a few words, continuing from seed.
func (k *hashKey) words(seed uint64, w ...uint64) uint64 {
	seed ^= k[3]
	for len(w) >= 2 {
		seed = fold(w[0]^k[1], w[1]^seed)
		w = w[2:]
	}
	if len(w) == 1 {
		seed = fold(w[0]^k[2], seed^k[1])
	}
	return fold(seed^k[0], k[2])
}

// root is the hash of the path "/".
func (k *hashKey) root() uint64 { return k.words(1) }
