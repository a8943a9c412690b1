package main

import (
	"crypto/sha256"
	"encoding/binary"
	"math/bits"
	"math/rand/v2"
	"runtime"
	"sync"

	"github.com/zooid-project/zooid/jute"
)

// attackCollisions creates znodes whose paths collide in the tree's table, if
// the key of its hash is derived from the ensemble's id, as it once was: a
// stranger that knows the server lines can compute both.
func attackCollisions(f *field) error {
	const wanted = 3400 // more than one part of the table holds
	key := guessedKey(f.cluster)
	parent := "/hostile-collides" // its name has 16 bytes
	names := f.colliding(&key, key.child(key.child(0, ""), parent[1:]), wanted)
	f.workers(1, func(i int, _ *rand.Rand) {
		c := orNil(f.connect(f.addr(i), 40_000))
		if c == nil {
			return
		}
		defer c.close()
		c.create(parent, nil, jute.ModePersistent)
		for _, name := range names {
			if c.create(parent+"/"+name, nil, jute.ModePersistent) != nil || f.over() {
				return
			}
		}
	})
	return nil
}

// hashGuess is the key of the tree's hashes, as a stranger computes it.
type hashGuess [4]uint64

func guessedKey(cluster uint64) hashGuess {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("zooid tree key 1"), cluster))
	a, b := binary.LittleEndian.Uint64(sum[:8]), binary.LittleEndian.Uint64(sum[8:16])
	var h hashGuess
	for i := range h {
		a += 0x9e3779b97f4a7c15
		b ^= foldGuess(a^0xbf58476d1ce4e5b9, b^0x94d049bb133111eb)
		h[i] = foldGuess(a^b, b|1) ^ a
	}
	return h
}

func foldGuess(a, b uint64) uint64 {
	hi, lo := bits.Mul64(a, b)
	return hi ^ lo
}

// child hashes a name of 16 bytes below its parent; "" stands for the root.
func (h *hashGuess) child(parent uint64, name string) uint64 {
	if name == "" {
		return foldGuess(1^h[3]^h[0], h[2])
	}
	a, b := binary.LittleEndian.Uint64([]byte(name)), binary.LittleEndian.Uint64([]byte(name[8:]))
	return h.hash(parent, a, b)
}

// hash hashes a name of 16 bytes below its parent.
func (h *hashGuess) hash(parent, a, b uint64) uint64 {
	return foldGuess(h[2]^16, foldGuess(a^h[1], b^parent^h[0]))
}

// colliding searches for names whose hashes have the same first 20 bits.
func (f *field) colliding(h *hashGuess, parent uint64, wanted int) []string {
	var (
		mu    sync.Mutex
		found []string
	)
	full := func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(found) >= wanted
	}
	n := runtime.NumCPU()
	f.workers(n, func(i int, _ *rand.Rand) {
		const perLook = 1 << 16
		for base := uint64(i) * perLook; base < 1<<32 && !f.over() && !full(); base += uint64(n) * perLook {
			for k := base; k < base+perLook; k++ {
				if h.hash(parent, letters(0), letters(uint32(k)))>>44 == 0x5a5a5 { // any 20 bits
					mu.Lock()
					found = append(found, spelled(letters(0))+spelled(letters(uint32(k))))
					mu.Unlock()
				}
			}
		}
	})
	return found
}

// letters spells a number with eight of the letters from a to p.
func letters(v uint32) uint64 {
	x := uint64(v)
	x = (x | x<<16) & 0x0000ffff0000ffff
	x = (x | x<<8) & 0x00ff00ff00ff00ff
	x = (x | x<<4) & 0x0f0f0f0f0f0f0f0f
	return x + 0x6161616161616161
}

func spelled(letters uint64) string { return string(binary.LittleEndian.AppendUint64(nil, letters)) }
