// Package small has a mutant of each kind. Some of them its tests kill, some they don't, some they never reach.
package small

import (
	"errors"
	"sync"
)

const countMax = 10

var (
	errFull  = errors.New("full")
	errWrite = errors.New("write")
	mu       sync.Mutex
)

// Box counts.
type Box struct {
	n, writes int
	closed    bool
}

// Add adds n.
func (b *Box) Add(n int, write func() error) error {
	mu.Lock()
	defer mu.Unlock()
	if b.closed || b.n+n > countMax {
		return errFull
	}
	b.n += n
	if err := write(); err != nil {
		return err
	}
	b.writes++
	return nil
}

// Sum is that of the numbers up to n.
func Sum(n uint8) (sum uint8) {
	for n > 0 {
		sum += n
		n--
	}
	return sum
}

// Odd says whether one is odd.
func (b *Box) Odd() bool {
	switch {
	case b.n%2 == 1 && !b.closed:
		return true
	}
	return false
}

// Wait waits for a word.
func Wait() string {
	c := make(chan string, 1)
	c <- "word"
	return <-c
}

// Dec takes one.
func (b *Box) Dec() {
	b.n--
}
