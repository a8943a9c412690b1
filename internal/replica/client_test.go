package replica

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestQueue plays pushes and pops on a queue, and on a list that is as simple as can be. The queue keeps no more memory
// than a few times its longest length, and nothing of the requests that were popped.
func TestQueue(t *testing.T) {
	t.Parallel()
	var q queue
	var list []request
	writes := int64(0)
	random := rand.New(rand.NewPCG(1, 0))
	for n := range 20_000 {
		if len(list) > 0 && (len(list) == 8 || random.IntN(2) == 0) {
			q.pop()
			list = list[1:]
		} else {
			r := request{xid: int32(n), op: &ops[jute.OpGetData], size: random.IntN(100), body: []byte("x")}
			if random.IntN(2) == 0 {
				writes++
				r.op, r.seq = &ops[jute.OpCreate], writes
			}
			q.push(r)
			list = append(list, r)
			if !r.isWrite() {
				q.work += 10
			}
		}
		bytes, reads := 0, 0
		for i := range list {
			bytes += list[i].size
			if !list[i].isWrite() {
				reads++
			}
			if got := q.items[q.head+i].xid; got != list[i].xid {
				t.Fatalf("step %d: request %d of the queue is %d, want %d", n, i, got, list[i].xid)
			}
		}
		if q.len() != len(list) || q.bytes != bytes || q.reads != reads {
			t.Fatalf("step %d: %d requests of %d bytes, %d reads; want %d, %d, %d", n, q.len(), q.bytes, q.reads, len(list),
				bytes, reads)
		}
		if len(list) > 0 && q.front().xid != list[0].xid {
			t.Fatalf("step %d: %d is the first, want %d", n, q.front().xid, list[0].xid)
		}
		if (q.work != 0) && reads == 0 || reads > 0 && q.work == 0 {
			t.Fatalf("step %d: the work of %d reads is %d", n, reads, q.work)
		}
		all := q.items[:cap(q.items)]
		if cap(q.items) > 8 {
			t.Fatalf("step %d: room for %d requests, of which there never were more than 8", n, cap(q.items))
		}
		for i := range all {
			if used := i >= q.head && i < len(q.items); !used && all[i].body != nil {
				t.Fatalf("step %d: the queue keeps a request that was popped", n)
			}
		}
	}
}

// A waker is a Socket that counts what is asked of it.
type waker struct {
	wakes, aborts, pushes int
	tries                 bool
	Woken
}

func (w *waker) Wake()       { w.wakes++ }
func (w *waker) Push()       { w.pushes++ }
func (w *waker) Abort()      { w.aborts++ }
func (w *waker) Tries() bool { return w.tries }

// idle returns a client of a stage to which nothing is owed, and its Socket.
func (s *localStage) idle() (*Client, *waker) {
	c := s.session()
	for out, _ := c.TakeOutput(nil); out != nil; out, _ = c.TakeOutput(out) {
	}
	w := &waker{}
	c.Socket = w
	return c, w
}

// TestBeginFlush: in each state of a connection, somebody may begin to write if nobody writes, there is something, and
// it isn't withheld or parked. The connection is over once it is gone, or closes and has nothing left to write.
func TestBeginFlush(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for state := range 1 << 7 {
		is := func(bit int) bool { return state>>bit&1 == 1 }
		c, _ := s.idle()
		writes, withheld, closes, gone, some, due, parked := is(0), is(1), is(2), is(3), is(4), is(5), is(6)
		c.out.flushing, c.out.withheld, c.closing, c.closed = writes, withheld, closes, gone
		c.steps.due, c.steps.parked = due, parked
		if c.out.frames = nil; some {
			c.out.frames = []byte{1}
		}
		has := some || due && !parked
		may := has
		if withheld && !closes || writes {
			may = false
		}
		over := false
		if !may && !writes {
			over = gone || closes && !some
		}
		if begun, ended := c.BeginFlush(); begun != may || ended != over || c.out.flushing != (writes || may) {
			t.Errorf("writes %t withheld %t closes %t gone %t some %t due %t parked %t: begun %t, ended %t, want %t, %t",
				writes, withheld, closes, gone, some, due, parked, begun, ended, may, over)
		}
	}
}

// TestEndsWake: whoever closes a connection wakes somebody to write what is left, once, and nobody if somebody writes,
// or if the connection is gone. To cut it drops what is left, and ends a write under way.
func TestEndsWake(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for _, of := range []struct {
		name                string
		flushing, gone, cut bool
		wakes, aborts, left int
	}{
		{"idle", false, false, false, 1, 0, 3}, {"being written", true, false, false, 0, 0, 3},
		{"gone", false, true, false, 0, 0, 3}, {"cut", false, false, true, 1, 1, 0},
		{"cut while it is written", true, false, true, 0, 1, 0}, {"cut and gone", false, true, true, 0, 1, 0},
	} {
		c, w := s.idle()
		c.out.frames, c.out.flushing, c.closed = []byte("abc"), of.flushing, of.gone
		c.out.events.waiting = 2
		for _, why := range []string{"first", "second"} {
			if of.cut {
				c.mu.Lock()
				c.cut(why)
				c.mu.Unlock()
			} else {
				c.CloseAfter(why)
			}
			if c.Ending() != "first" {
				t.Errorf("%s: it ends because %q", of.name, c.Ending())
			}
			if of.cut {
				of.aborts, w.aborts = of.aborts-w.aborts+1, 1
			}
		}
		if w.wakes != of.wakes || (w.aborts > 0) != of.cut || len(c.out.frames) != of.left {
			t.Errorf("%s: woken %d times, aborted %d times, %d bytes are left; want %d, %t, %d", of.name, w.wakes, w.aborts,
				len(c.out.frames), of.wakes, of.cut, of.left)
		}
		if of.cut && c.out.events.waiting != 0 {
			t.Errorf("%s: %d bytes of notifications count as unread", of.name, c.out.events.waiting)
		}
	}
}

// TestLost: when a write has failed, nobody writes any more, and whoever waits for that goes on.
func TestLost(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, w := s.idle()
	c.out.frames, c.out.flushing = []byte("abc"), true
	awaited := make(chan bool)
	go func() {
		c.AwaitFlush()
		awaited <- true
	}()
	c.Lost()
	<-awaited
	c.reply(jute.ReplyHeader{}, nil)
	if len(c.out.frames) != 3 || w.wakes != 0 {
		t.Errorf("a connection that is gone has %d bytes to write, and was woken %d times", len(c.out.frames), w.wakes)
	}
	c.out.frames = nil
	if begun, ended := c.BeginFlush(); begun || !ended {
		t.Errorf("a flush begins: %t, the connection is over: %t", begun, ended)
	}
}

// TestQuiet: a connection on which nothing happens keeps no buffers and no queue; one that waits for something does.
func TestQuiet(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	for _, of := range []struct {
		name                         string
		flushing                     bool
		frames, queued               int
		keepsBuffers, keepsUnanwered bool
	}{
		{"idle", false, 0, 0, false, false}, {"being written", true, 0, 0, true, false},
		{"to be written", false, 1, 0, true, false}, {"unanswered", false, 0, 1, false, true},
	} {
		c, _ := s.idle()
		c.out.frames, c.out.spare, c.out.flushing = make([]byte, of.frames, 10), make([]byte, 0, 10), of.flushing
		c.unanswered.items = make([]request, of.queued, 4)
		c.reader.records = make([]byte, 7)
		c.reader.recordsKept.Store(7)
		c.Quiet()
		if buffers := cap(c.out.frames) > 0 && cap(c.out.spare) > 0; buffers != of.keepsBuffers {
			t.Errorf("%s: it keeps buffers: %t", of.name, buffers)
		}
		if items := cap(c.unanswered.items) > 0; items != of.keepsUnanwered {
			t.Errorf("%s: it keeps its queue: %t", of.name, items)
		}
		if c.reader.records != nil || c.reader.recordsKept.Load() != 0 {
			t.Errorf("%s: it keeps records", of.name)
		}
	}
}

// TestWhatAClientTells: what a connection is asked for about itself.
func TestWhatAClientTells(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c := NewClient(5, "host:1", jute.ID{Scheme: "ip", ID: "127.0.0.1"}, Woken(func() {}))
	select {
	case <-c.Answered():
		t.Error("it is answered before it asks")
	default:
	}
	if c.Established() || c.Ending() != "" || c.Pause() != 0 {
		t.Error("it begins as if it had a session")
	}
	req := &jute.ConnectRequest{Timeout: 7000, Passwd: make([]byte, jute.PasswdSize)}
	if err := s.r.Connect(c, req, s.ids); err != nil {
		t.Fatal(err)
	}
	s.apply(s.forward()...)
	<-c.Answered()
	if c.Remote() != "host:1" || c.Session() == 0 || c.Timeout() != 7000 || !c.Established() ||
		!slices.Equal(c.Identities(), []jute.ID{{Scheme: "ip", ID: "127.0.0.1"}}) {
		t.Errorf("remote %s session %#x timeout %d established %t identities %v", c.Remote(), c.Session(), c.Timeout(),
			c.Established(), c.Identities())
	}
	c.reader.pause = 5
	if c.Pause() != 5*time.Nanosecond {
		t.Errorf("it pauses for %v", c.Pause())
	}
}
