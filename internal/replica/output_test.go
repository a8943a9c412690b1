package replica

import (
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestShortMemoryKeepsNoBuffers: while room is short, a connection with nothing to write keeps only small buffers.
func TestShortMemoryKeepsNoBuffers(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		short         bool
		frames, spare int
		kept          int
	}{
		{false, outputFreeBytes, 1, outputFreeBytes + 1}, {true, outputFreeBytes, 1, 0},
		{true, outputFreeBytes - 1, 1, outputFreeBytes}, {true, 0, outputFreeBytes + 1, 0},
	} {
		s := newStage(t, Options{})
		c, _ := s.idle()
		c.out.frames, c.out.spare, c.out.flushing = make([]byte, 0, of.frames), make([]byte, 0, of.spare), true
		if of.short {
			s.r.rooms.bound(unreadShare * 1000)
			s.r.rooms.replies.Holder("another", nil).Note(600)
		}
		if out, _ := c.TakeOutput(nil); out != nil || c.out.flushing {
			t.Errorf("%+v: %d bytes to write", of, len(out))
		}
		if kept := cap(c.out.frames) + cap(c.out.spare); kept != of.kept {
			t.Errorf("%+v: %d bytes are kept", of, kept)
		}
	}
}

// TestOutputBuffers: of a buffer that was written, the next output uses the memory, unless it is large and nothing
// waits, or memory is short.
func TestOutputBuffers(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		name        string
		done, waits int
		short       bool
		spare       int // the buffer kept for the next output
		large       int // the one kept for other connections
	}{
		{"none", 0, 0, false, 0, 0},
		{"small", 100, 0, false, 100, 0},
		{"the largest to be kept", outputKeepBytes, 0, false, outputKeepBytes, 0},
		{"a larger one", outputKeepBytes + 1, 0, false, 0, outputKeepBytes + 1},
		{"a larger one, and more to write", outputKeepBytes + 1, 5, false, outputKeepBytes + 1, 0},
		{"the largest, and more to write", outputPauseBytes, 5, false, outputPauseBytes, 0},
		{"too large for that, too", outputPauseBytes + 1, 5, false, 0, outputPauseBytes + 1},
		{"small, while memory is short", outputFreeBytes, 0, true, outputFreeBytes, 0},
		{"larger, while memory is short", outputFreeBytes + 1, 0, true, 0, 0},
	} {
		s := newStage(t, Options{})
		c, _ := s.idle()
		c.out.frames, c.out.spare = nil, nil
		if of.short {
			s.r.rooms.bound(unreadShare * 1000)
			s.r.rooms.replies.Holder("another", nil).Note(600)
		}
		if of.waits > 0 {
			c.out.frames = make([]byte, of.waits)
		}
		c.out.flushing = true
		out, _ := c.TakeOutput(make([]byte, 10, max(of.done, 10))[:min(of.done, 10)][:0:of.done])
		spare := cap(c.out.frames) // it is the next buffer at once
		large := cap(s.r.large.Get(max(of.large, 1)))
		if len(out) != of.waits || spare != of.spare || large != of.large {
			t.Errorf("%s: %d bytes to write, %d are kept here and %d for others; want %d, %d, %d", of.name, len(out), spare,
				large, of.waits, of.spare, of.large)
		}
	}
}

// TestPush: an Apply writes to a client by itself if that is the only one, nobody else writes, and it is little.
func TestPush(t *testing.T) {
	t.Parallel()
	for _, of := range []struct {
		name   string
		bytes  int
		change func(s *localStage, c *Client, w *waker)
		pushed bool
		woken  int
	}{
		{"little", pushBytesMax, nil, true, 0},
		{"much", pushBytesMax + 1, nil, false, 1},
		{"nothing", 0, nil, false, 0},
		{"a socket that blocks", 1, func(_ *localStage, _ *Client, w *waker) { w.tries = false }, false, 1},
		{"somebody writes", 1, func(_ *localStage, c *Client, _ *waker) { c.out.flushing = true }, false, 0},
		{"it is withheld", 1, func(_ *localStage, c *Client, _ *waker) { c.out.withheld = true }, false, 0},
		{"long reads are next", 1, func(_ *localStage, c *Client, _ *waker) { c.steps.due = true }, false, 1},
		{"only long reads", 0, func(_ *localStage, c *Client, _ *waker) { c.steps.due = true }, false, 1},
		{"it only ends", 0, func(_ *localStage, c *Client, _ *waker) { c.closing = true }, true, 0},
		{"two", 1, func(s *localStage, c *Client, _ *waker) {
			other := NewClient(c.id+1, "other", jute.ID{}, Woken(func() {}))
			s.r.touch(other)
		}, false, 1},
	} {
		s := newStage(t, Options{})
		c, w := s.idle()
		c.out.frames, w.tries = make([]byte, of.bytes), true
		s.r.mu.Lock()
		if of.change != nil {
			of.change(s, c, w)
		}
		s.r.touch(c)
		s.r.touch(c)
		push := s.r.flush(s.r.now())
		s.r.mu.Unlock()
		if (push == c) != of.pushed || w.wakes != of.woken {
			t.Errorf("%s: pushed %t, woken %d times; want %t, %d", of.name, push == c, w.wakes, of.pushed, of.woken)
		}
		if len(s.r.telling.touched) != 0 || c.arrival.touched {
			t.Errorf("%s: it still counts as touched", of.name)
		}
	}
}

// TestFull: a client is sent no further replies from outputPauseBytes on, or outputFreeBytes while memory is short.
func TestFull(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	for _, short := range []bool{false, true} {
		most := outputPauseBytes
		if short {
			most = outputFreeBytes
			s.r.rooms.bound(unreadShare * 1000)
			s.r.rooms.replies.Holder("another", nil).Note(600)
		}
		for _, n := range []int{most - 1, most} {
			if c.out.frames = make([]byte, n); c.out.full() != (n == most) {
				t.Errorf("memory is short: %t; %d bytes are too many: %t", short, n, c.out.full())
			}
			if reads := c.status().Interest&InterestRead != 0; reads == (n == most) {
				t.Errorf("memory is short: %t; it is read with %d bytes of output: %t", short, n, reads)
			}
		}
	}
}

// TestAwaitsApplyOnce: what an Apply has added to the output is written once that has ended; what follows needn't wait.
func TestAwaitsApplyOnce(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	awaited := 0
	c.out.awaitApply = func() { awaited++ }
	for i, applied := range []bool{false, true, false} {
		c.out.frames, c.out.applied = []byte("abc"), c.out.applied || applied
		if out, _ := c.TakeOutput(nil); len(out) != 3 {
			t.Fatalf("%d bytes to write", len(out))
		}
		if want := min(i, 1); awaited != want {
			t.Errorf("output %d: awaited %d times, want %d", i, awaited, want)
		}
	}
}
