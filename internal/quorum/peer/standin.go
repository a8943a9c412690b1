package peer

import (
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
)

// The loop's goroutine does its tasks itself: handing each to another goroutine would cost more than
// most of them take. But if a task takes longer than a tick, standIn turns the loop in its place until the task ends,
// so that this server's messages, its ticks and the reports about its clients wait neither for the disk nor for the
// replica. The goroutine that holds Peer.mu turns the loop.

// standInPause is how long a stand-in waits before it looks for events again.
const standInPause = 5 * time.Millisecond

// tasks tells standIn about the loop's tasks.
type tasks struct {
	number  atomic.Uint64 // odd while a task is under way; grows with each begin and end
	watched atomic.Bool   // the timer runs
	timer   *time.Timer   // calls Peer.watchTask
}

// do does a task that is due, and releases mu meanwhile. The caller holds mu.
func (p *Peer) do(t *quorum.Task) {
	p.tasks.number.Add(1)
	if !p.tasks.watched.Load() && p.tasks.watched.CompareAndSwap(false, true) {
		p.tasks.timer.Reset(p.o.Tick)
	}
	p.mu.Unlock()
	func() {
		defer p.mu.Lock()
		t.Do()
	}()
	p.tasks.number.Add(1)
	p.loop.Done()
}

// watchTask runs a tick after the first task, and then at each tick while there are tasks. A task that is still under
// way at the next run gets a stand-in.
func (p *Peer) watchTask() {
	seen := p.tasks.number.Load()
	for p.rest(p.o.Tick) {
		now := p.tasks.number.Load()
		if now == seen && now%2 == 0 {
			p.tasks.watched.Store(false)
			if p.tasks.number.Load() == now || p.tasks.watched.Swap(true) {
				return // no task has begun since, or its start has set the timer
			}
		}
		if now == seen {
			p.standIn(now)
		}
		seen = p.tasks.number.Load()
	}
}

// standIn turns the loop while the task with that number is under way.
func (p *Peer) standIn(number uint64) {
	ticked := time.Now()
	for p.standInOnce(number, &ticked) && p.rest(standInPause) {
	}
}

// rest waits, and reports false if the Peer has ended.
func (p *Peer) rest(d time.Duration) bool {
	select {
	case <-p.done:
		return false
	case <-time.After(d):
		return true
	}
}

// standInOnce does the waiting work, and reports whether the task is still under way.
func (p *Peer) standInOnce(number uint64, ticked *time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.tasks.number.Load() != number || p.loop.Failed() != nil {
		return false
	}
	defer func() {
		if failure := recover(); failure != nil {
			err := unreadable(failure)
			if err == nil {
				panic(failure)
			}
			go p.o.Fatal(err)
		}
	}()
	p.handleWaiting()
	p.loop.Advance() // nothing is due before the task ends
	if time.Since(*ticked) >= p.o.Tick {
		*ticked = time.Now()
		p.tick()
		p.loop.Advance()
	}
	select {
	case <-p.transfer:
		p.loop.TransferLeadership()
	default:
	}
	return true
}

// tick tells the loop that a tick has passed.
func (p *Peer) tick() {
	p.loop.Tick()
	p.turned.Store(int64(time.Since(p.began)))
}

// SinceTurn returns how long the loop has not turned: the time since its last tick.
func (p *Peer) SinceTurn() time.Duration {
	return max(0, time.Since(p.began)-time.Duration(p.turned.Load()))
}
