// Package busiest finds the busiest items in a stream of requests: the paths, sessions, identities and operations with
// the most requests, and those that move the most bytes. It takes little memory however many there are, and old
// requests count less and less. It reads no clock: each request comes with its time.
//
// A [Table] counts keys, a [Traffic] holds the tables of a server, and a [Sampler] decides which requests of a
// connection are counted.
package busiest

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a Table: some 100 KiB at the most.
const (
	// KeysMax is how many keys a Table counts. It also determines the error: see Table.
	KeysMax = 256
	// KeyBytesMax is how many bytes of a key count; longer keys with the same prefix of this length are the same key.
	KeyBytesMax = 256
)

// A Table counts the heaviest keys by the Space-Saving algorithm (Metwally, Agrawal and El Abbadi, 2005): a key
// without a counter takes over the counter with the least weight, and adds its own weight to it. So
//
//  1. the weight of a counted key is never too small,
//  2. it is too large by Over at most, and Over is at most Total/KeysMax,
//  3. each key that weighs more than Total/KeysMax is counted.
//
// Fading multiplies all weights by the same factor, so this also holds for faded weights. The zero Table is empty and
// ready to use. It isn't safe for concurrent use.
type Table struct {
	counters []counter
	heap     []int // indexes of counters, as a heap with the least weight first
	at       map[string]int
	total    float64
}

type counter struct {
	key          string
	weight, over float64
	place        int // in heap
}

// An Entry is one key of a Table.
type Entry struct {
	Key    string
	Weight float64
	Over   float64 // the part of Weight that may belong to other keys
}

// Total returns the weight of all keys, counted or not.
func (t *Table) Total() float64 { return t.total }

// Add adds weight to a key. It doesn't retain the key's memory.
func (t *Table) Add(key string, weight float64) {
	key = short(key)
	t.total += weight
	i, known := t.at[key]
	switch {
	case known:
	case len(t.counters) < KeysMax:
		if t.at == nil {
			t.at = make(map[string]int, KeysMax)
		}
		i = len(t.counters)
		key = strings.Clone(key)
		t.counters, t.at[key] = append(t.counters, counter{key: key, place: i}), i
		t.heap = append(t.heap, i)
		t.up(i)
	default:
		i = t.heap[0]
		c := &t.counters[i]
		delete(t.at, c.key)
		c.key, c.over = strings.Clone(key), c.weight
		t.at[c.key] = i
	}
	t.counters[i].weight += weight
	t.down(t.counters[i].place)
}

// short returns the part of a key that counts.
func short(key string) string {
	if len(key) <= KeyBytesMax {
		return key
	}
	n := KeyBytesMax
	for n > KeyBytesMax-utf8.UTFMax && !utf8.RuneStart(key[n]) {
		n--
	}
	return key[:n]
}

// weight returns the weight of the counter at a place in the heap.
func (t *Table) weight(place int) float64 { return t.counters[t.heap[place]].weight }

// put puts a counter at a place in the heap.
func (t *Table) put(place, i int) {
	t.heap[place], t.counters[i].place = i, place
}

// up moves the counter at a place in the heap up, past heavier ones.
func (t *Table) up(place int) {
	i := t.heap[place]
	for parent := (place - 1) / 2; place > 0 && t.weight(parent) > t.counters[i].weight; parent = (place - 1) / 2 {
		t.put(place, t.heap[parent])
		place = parent
	}
	t.put(place, i)
}

// down moves the counter at a place in the heap down, past lighter ones.
func (t *Table) down(place int) {
	i := t.heap[place]
	for {
		child := 2*place + 1
		if child+1 < len(t.heap) && t.weight(child+1) < t.weight(child) {
			child++
		}
		if child >= len(t.heap) || t.weight(child) >= t.counters[i].weight {
			break
		}
		t.put(place, t.heap[child])
		place = child
	}
	t.put(place, i)
}

// Fade multiplies each weight by share, which is from 0 to 1.
func (t *Table) Fade(share float64) {
	t.total *= share
	for i := range t.counters {
		t.counters[i].weight *= share
		t.counters[i].over *= share
	}
}

// Top returns the n heaviest keys, except those whose weight may belong mostly to other keys: a stream without busy
// keys has none.
func (t *Table) Top(n int) []Entry {
	var all []Entry
	for _, c := range t.counters {
		if c.weight > 0 && c.over <= c.weight/2 {
			all = append(all, Entry{Key: c.key, Weight: c.weight, Over: c.over})
		}
	}
	slices.SortFunc(all,
		func(a, b Entry) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Key, b.Key)) })
	return all[:min(n, len(all))]
}
