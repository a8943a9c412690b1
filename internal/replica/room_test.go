package replica

import (
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
)

// TestShares: replies and requests that aren't whole share an eighth of the memory each.
func TestShares(t *testing.T) {
	t.Parallel()
	var o rooms
	o.bound(unreadShare * 1000)
	for name, room := range map[string]interface{ Used() int64 }{"replies": &o.replies, "frames": &o.frames} {
		one, two := o.replies.Holder("a", nil), o.replies.Holder("b", nil)
		if name == "frames" {
			one, two = o.frames.Holder("a", nil), o.frames.Holder("b", nil)
		}
		if o.RoomAwaited() {
			t.Errorf("%s: nobody has asked, and somebody waits", name)
		}
		if one.Note(700); two.Grow(301) || !two.Grow(300) {
			t.Errorf("%s: of 1,000 bytes 700 are taken, and there is room for %d", name, room.Used()-700)
		}
		if two.Take(301) || !o.RoomAwaited() {
			t.Errorf("%s: nobody waits for room", name)
		}
		two.Leave()
	}
}

// TestNotedOutput: up to outputFreeBytes of output need no room.
func TestNotedOutput(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	for n, want := range map[int]int64{
		0: 0, outputFreeBytes: 0, outputFreeBytes + 1: outputFreeBytes + 1, 1 << 20: 1 << 20,
	} {
		c.out.frames, c.out.spare, c.out.taken, c.steps.promised = make([]byte, 0, n), nil, 0, 500
		if c.noteOutput(); c.out.held.Held() != want || c.steps.promised != 0 {
			t.Errorf("%d bytes of output are noted as %d", n, c.out.held.Held())
		}
	}
	c.steps.read, c.steps.promised = &longRead{scan: tree.Scan{Body: make([]byte, 0, 100)}}, 1000
	c.out.frames = make([]byte, 0, 1<<20)
	if c.noteOutput(); c.out.held.Held() != 1<<20+1100 {
		t.Errorf("with a read, %d bytes are noted", c.out.held.Held())
	}
	for n, want := range map[int]int64{InputFreeBytes: 0, InputFreeBytes + 1: InputFreeBytes + 1} {
		if c.input.NoteInput(n); c.input.held.Held() != want || c.input.size.Load() != int64(n) {
			t.Errorf("%d bytes of input are noted as %d", n, c.input.held.Held())
		}
	}
}

// TestSmallBuffersNeedNoRoom: a buffer of requests of up to InputFreeBytes needs no room; while it is short, none gets
// larger than it must.
func TestSmallBuffersNeedNoRoom(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	c, _ := s.idle()
	s.r.rooms.bound(unreadShare * 100_000)
	s.r.rooms.frames.Holder("another", nil).Note(95_000)
	if !c.TakeFrame(InputFreeBytes) || c.TakeFrame(InputFreeBytes+1) {
		t.Error("a frame of InputFreeBytes waits, or a larger one doesn't")
	}
	if !c.MayBuffer(InputFreeBytes) || c.MayBuffer(InputFreeBytes+1) || !c.FramesShort() {
		t.Error("a buffer of InputFreeBytes may not be, or a larger one may")
	}
	free := &Client{}
	if !free.TakeFrame(1<<30) || !free.MayBuffer(1<<30) || free.FramesShort() {
		t.Error("a connection that isn't registered is bounded")
	}
}
