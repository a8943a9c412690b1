package watch

import "math/bits"

// An indexed is a slab whose elements are also found by the hash of a key. It is a linear
// hash table: each new element adds one bucket, to which only elements of one other bucket
// move. So it never rehashes everything at once, however many elements it has.
//
// Neither it nor its elements have pointers: half a million watches take the
// garbage collector no time.
type indexed[T any] struct {
	slab[element[T]]
	heads   []*[chunkSize]ref // by bucket, its first element
	buckets uint32
	size    int
}

// element is a value in its bucket's list.
type element[T any] struct {
	hash  uint32
	next  ref
	value T
}

// at returns the value of element r.
func (x *indexed[T]) at(r ref) *T { return &x.slab.at(r).value }

// first returns the first element of the bucket that a hash has its elements in,
// and after the one behind another whose hash is the same.
func (x *indexed[T]) first(hash uint32) ref {
	if x.size == 0 {
		return none
	}
	return x.match(*x.head(x.bucket(hash)), hash)
}

func (x *indexed[T]) after(r ref) ref {
	e := x.slab.at(r)
	return x.match(e.next, e.hash)
}

// match returns the first element from r on that has the hash.
func (x *indexed[T]) match(r ref, hash uint32) ref {
	for r != none {
		e := x.slab.at(r)
		if e.hash == hash {
			return r
		}
		r = e.next
	}
	return none
}

// bucket returns the bucket of a hash: its lowest bits, one bit less where that
// bucket isn't there yet.
func (x *indexed[T]) bucket(hash uint32) uint32 {
	top := uint32(1) << (bits.Len32(x.buckets) - 1) // the greatest power of two up to buckets
	if b := hash & (2*top - 1); b < x.buckets {
		return b
	}
	return hash & (top - 1)
}

func (x *indexed[T]) head(bucket uint32) *ref { return &x.heads[bucket/chunkSize][bucket%chunkSize] }

// add makes an element with a zero value.
func (x *indexed[T]) add(hash uint32) ref {
	if x.size++; x.size > int(x.buckets) {
		x.grow()
	}
	r := x.take()
	h := x.head(x.bucket(hash))
	e := x.slab.at(r)
	e.hash, e.next, *h = hash, *h, r
	return r
}

// grow adds a bucket, and gives it its part of the elements of the bucket that it
// halves.
func (x *indexed[T]) grow() {
	b := x.buckets
	if int(b/chunkSize) >= len(x.heads) {
		x.heads = append(x.heads, new([chunkSize]ref))
	}
	x.buckets++
	if b == 0 {
		return
	}
	old := x.head(b &^ (1 << (bits.Len32(b) - 1)))
	r := *old
	*old = none
	for r != none {
		e := x.slab.at(r)
		h := x.head(x.bucket(e.hash))
		r, e.next, *h = e.next, *h, r
	}
}

// remove takes element r out.
func (x *indexed[T]) remove(r ref) {
	e := x.slab.at(r)
	at := x.head(x.bucket(e.hash))
	for *at != r {
		at = &x.slab.at(*at).next
	}
	*at = e.next
	x.give(r)
	x.size--
}
