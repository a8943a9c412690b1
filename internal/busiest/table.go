// Package busiest finds what weighs most in a stream of requests: the paths, sessions, identities and operations that a
// server is asked for most often, and those that move most bytes. It takes little memory however many of them there
// are, and what was long ago counts less and less. It asks no clock: the time comes with each request.
//
// A [Table] counts keys, a [Traffic] has the tables of a server, and a [Sampler] decides which requests of a connection
// it is told of.
package busiest

import (
	"cmp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Limits of a Table: some 100 KiB at the most.
const (
	// KeysMax is how many keys it counts, and the share of error: see Table.
	KeysMax = 256
	// KeyBytesMax is how much of a key counts; longer ones are one key if these bytes are the same.
	KeyBytesMax = 256
)

// A Table counts the keys that weigh most, by Space-Saving (Metwally, Agrawal and El Abbadi, 2005): a key that isn't
// counted yet takes over the counter with the least weight, and adds its own to it. So
//
//  1. the weight of a key that is counted is never too small,
//  2. it is too large by Over at most, and Over is at most Total/KeysMax,
//  3. each key that weighs more than Total/KeysMax is counted.
//
// Fading multiplies all weights alike, so this holds of faded weights too. The zero Table is empty and ready; it has no
// lock.
type Table struct {
	counters []counter
	heap     []int // of their indexes, the least weight first
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
	Over   float64 // how much of Weight may be other keys'
}

// Total returns the weight of all keys, counted or not.
func (t *Table) Total() float64 { return t.total }

// Add adds weight to a key, whose memory isn't kept.
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

// short returns what counts of a key.
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

// weight returns that of the counter at a place of the heap.
func (t *Table) weight(place int) float64 { return t.counters[t.heap[place]].weight }

// put puts a counter at a place of the heap.
func (t *Table) put(place, i int) {
	t.heap[place], t.counters[i].place = i, place
}

// up moves what is at a place of the heap before all that weigh more.
func (t *Table) up(place int) {
	i := t.heap[place]
	for parent := (place - 1) / 2; place > 0 && t.weight(parent) > t.counters[i].weight; parent = (place - 1) / 2 {
		t.put(place, t.heap[parent])
		place = parent
	}
	t.put(place, i)
}

// down moves what is at a place of the heap behind all that weigh less.
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

// Fade leaves each key that share of its weight, of 0 to 1.
func (t *Table) Fade(share float64) {
	t.total *= share
	for i := range t.counters {
		t.counters[i].weight *= share
		t.counters[i].over *= share
	}
}

// Top returns the n keys that weigh most, without those of whose weight most may be other keys': a stream without busy
// keys has none.
func (t *Table) Top(n int) []Entry {
	var all []Entry
	for _, c := range t.counters {
		if c.weight > 0 && c.over <= c.weight/2 {
			all = append(all, Entry{Key: c.key, Weight: c.weight, Over: c.over})
		}
	}
	slices.SortFunc(all, func(a, b Entry) int { return cmp.Or(cmp.Compare(b.Weight, a.Weight), strings.Compare(a.Key, b.Key)) })
	return all[:min(n, len(all))]
}
