package crash

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

// pulsePause is the time between two writes of a Pulse.
const pulsePause = 2 * time.Millisecond

// A Pulse is a client of one server that writes all the time, one write after another,
// and records how long each took: it shows a fault's effect on an application.
type Pulse struct {
	Server int // index
	c      *traffic.Client
	path   string
	stop   chan struct{}
	wg     sync.WaitGroup

	mu     sync.Mutex
	beats  []beat
	breaks []broken
	errors []string // answers other than OK
	serial int
}

// beat is one answered write.
type beat struct{ sent, answered time.Time }

// StartPulse begins to write below root, which must exist.
func StartPulse(j *history.Journal, addr, root string, server int) (*Pulse, error) {
	p := &Pulse{Server: server, path: fmt.Sprintf("%s/pulse%d", root, server), stop: make(chan struct{})}
	p.c = traffic.NewClient(j, traffic.ClientOptions{Timeout: sessionTimeout}, addr)
	if err := connect(p.c); err != nil {
		return nil, fmt.Errorf("start the pulse on server %d: %w", server+1, err)
	}
	q := jute.CreateRequest{Path: p.path, Data: []byte("0"), ACL: jute.WorldACL(jute.PermAll)}
	call, err := p.c.Do(jute.OpCreate, q.Append(nil))
	if err == nil && call.Err != jute.OK {
		err = call.Err
	}
	if err != nil {
		return nil, fmt.Errorf("start the pulse on server %d: %w", server+1, err)
	}
	p.wg.Go(p.run)
	return p, nil
}

func (p *Pulse) run() {
	connected := time.Now()
	for {
		select {
		case <-p.stop:
			return
		case <-time.After(pulsePause):
		}
		p.serial++
		q := jute.SetDataRequest{Path: p.path, Data: fmt.Appendf(nil, "pulse%d-%d", p.Server, p.serial), Version: -1}
		sent := time.Now()
		call, err := p.c.Do(jute.OpSetData, q.Append(nil))
		now := time.Now()
		p.mu.Lock()
		switch {
		case err != nil:
			p.breaks = append(p.breaks, broken{connected, now})
		case call.Err != jute.OK:
			p.errors = append(p.errors, fmt.Sprintf("set %s: %v", q.Path, call.Err))
		default:
			p.beats = append(p.beats, beat{sent, now})
		}
		p.mu.Unlock()
		for err != nil {
			select {
			case <-p.stop:
				return
			case <-time.After(redialPause):
			}
			err, connected = p.c.Connect(), time.Now()
		}
	}
}

// Stop ends the writing; the session stays.
func (p *Pulse) Stop() {
	select {
	case <-p.stop:
	default:
		close(p.stop)
	}
	p.wg.Wait()
}

// Close ends the session.
func (p *Pulse) Close() { p.c.Close() }

// Longest returns the duration of the longest write between two times: of those
// answered after from and sent before to. It is 0 if there was none.
func (p *Pulse) Longest(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest time.Duration
	for _, b := range slices.Backward(p.beats) {
		if b.answered.Before(from) {
			break
		}
		if b.sent.Before(to) {
			longest = max(longest, b.answered.Sub(b.sent))
		}
	}
	return longest
}

// Silent returns the longest time between the answers to two successive writes, of which one is after from and
// the other before to. Writes that were lost with their connection don't end it.
func (p *Pulse) Silent(from, to time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var longest time.Duration
	for i := len(p.beats) - 1; i > 0; i-- {
		before, after := p.beats[i-1].answered, p.beats[i].answered
		if after.Before(from) {
			break
		}
		if before.Before(to) {
			longest = max(longest, after.Sub(before))
		}
	}
	return longest
}

// Beats returns the number of writes sent and answered between two times.
func (p *Pulse) Beats(from, to time.Time) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	n := 0
	for _, b := range p.beats {
		if b.sent.After(from) && b.answered.Before(to) {
			n++
		}
	}
	return n
}

// Durations returns the durations of the writes that were sent and answered
// between two times.
func (p *Pulse) Durations(from, to time.Time) []time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	var list []time.Duration
	for _, b := range p.beats {
		if b.sent.After(from) && b.answered.Before(to) {
			list = append(list, b.answered.Sub(b.sent))
		}
	}
	return list
}

// FirstBeat waits until a write that was sent after from is answered, and
// returns the time of the answer.
func (p *Pulse) FirstBeat(from time.Time, patience time.Duration) (time.Time, error) {
	deadline := time.Now().Add(patience)
	for {
		p.mu.Lock()
		var at time.Time
		for _, b := range slices.Backward(p.beats) {
			if b.sent.Before(from) {
				break
			}
			at = b.answered
		}
		p.mu.Unlock()
		if !at.IsZero() {
			return at, nil
		}
		if time.Now().After(deadline) {
			return at, fmt.Errorf("no write over server %d was answered within %v", p.Server+1, patience)
		}
		time.Sleep(pulsePause)
	}
}

// broken returns the connections that ended, and the answers other than OK.
func (p *Pulse) broken() ([]broken, []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.breaks), slices.Clone(p.errors)
}
