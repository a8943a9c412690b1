package watch

import "math/bits"

// An indexed is a slab whose elements can also be found by the hash of a key. It is a linear hash table: each new
// element adds one bucket, which takes elements from only one other bucket, and each removed element may remove one in
// the same way. So it never rehashes all elements at once, however many it has or had.
//
// Neither the table nor its elements have pointers, so half a million watches cost the garbage collector no time.
type indexed[T any] struct {
	slab[element[T]]
	heads   []*[chunkSize]ref // the first element of each bucket
	buckets uint32
}

// element is a value in its bucket's list.
type element[T any] struct {
	hash  uint32
	next  ref
	value T
}

// at returns the value of element r.
func (x *indexed[T]) at(r ref) *T { return &x.slab.at(r).value }

// first returns the first element with a hash, and after returns the next element with the same hash as r. Both return
// none if there is none.
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

// match returns the first element with the hash, from r on in its bucket's list.
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

// bucket returns the bucket of a hash: the number in its lowest bits, with one bit fewer if that bucket doesn't exist
// yet.
func (x *indexed[T]) bucket(hash uint32) uint32 {
	top := uint32(1) << (bits.Len32(x.buckets) - 1) // the greatest power of two up to buckets
	if b := hash & (2*top - 1); b < x.buckets {
		return b
	}
	return hash & (top - 1)
}

func (x *indexed[T]) head(bucket uint32) *ref { return &x.heads[bucket/chunkSize][bucket%chunkSize] }

// add adds an element with a zero value.
func (x *indexed[T]) add(hash uint32) ref {
	r := x.take()
	if x.size > int(x.buckets) {
		x.grow()
	}
	h := x.head(x.bucket(hash))
	e := x.slab.at(r)
	e.hash, e.next, *h = hash, *h, r
	return r
}

// grow adds a bucket, and moves its share of the elements there from the bucket that it splits.
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

// remove removes element r and frees it.
func (x *indexed[T]) remove(r ref) {
	e := x.slab.at(r)
	at := x.head(x.bucket(e.hash))
	for *at != r {
		at = &x.slab.at(*at).next
	}
	*at = e.next
	x.give(r)
	for range shrinkSteps {
		if int(x.buckets) <= shrinkSlack*x.size+chunkSize {
			return
		}
		x.shrink()
	}
}

// A table with more than shrinkSlack buckets for each element, plus a chunk of them, removes shrinkSteps of them with
// each removed element.
const (
	shrinkSlack = 2
	shrinkSteps = 4
)

// shrink removes the last bucket. Its elements return to the bucket from which grow took them.
func (x *indexed[T]) shrink() {
	x.buckets--
	b := x.buckets
	last := x.head(b)
	if r := *last; r != none {
		end := r
		for e := x.slab.at(end); e.next != none; e = x.slab.at(end) {
			end = e.next
		}
		into := x.head(b &^ (1 << (bits.Len32(b) - 1)))
		x.slab.at(end).next, *into = *into, r
		*last = none
	}
	if b%chunkSize == 0 {
		x.heads[b/chunkSize] = nil
		x.heads = x.heads[:b/chunkSize]
	}
}
