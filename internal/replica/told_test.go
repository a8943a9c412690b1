package replica

import (
	"testing"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// TestWriteBehindARefusal refuses a write for lack of room. When there is room again,
// the next write of that connection is taken only once the refusal has arrived.
func TestWriteBehindARefusal(t *testing.T) {
	t.Parallel()
	fs := storage.NewMemFS()
	fs.Budget = 64 << 20
	s := openOnDisk(t, fs, 1<<20, 3)
	cl, encoder := s.client(), &pipeline{}
	arrived := false
	cl.Socket = hooked{acked: func() bool { return arrived }}
	s.call(cl, encoder, jute.OpCreate, creating("/n", nil, 0))
	s.rep.room.none.Store(true)
	if code := s.call(cl, encoder, jute.OpSetData, setting("/n", []byte("a")))[0]; code != jute.ErrThrottledOp {
		t.Fatalf("set without room: %v", code)
	}
	s.rep.room.none.Store(false)
	in := encoder.request(nil, jute.OpGetData, reading("/n", false))
	read := len(in)
	in = encoder.request(in, jute.OpCreate, creating("/ready", nil, 0))
	used, err := s.receive(cl, in)
	if err != ErrUntold || used != read {
		t.Fatalf("a write behind a refusal that has not arrived: %d of %d bytes taken, %v; want the %d of a read, and that the client was not told",
			used, len(in), err, read)
	}
	arrived = true
	if _, err := s.receive(cl, in[used:]); err != ErrUntold {
		t.Fatalf("a write while the answer before it is not written: %v", err)
	}
	for out, _ := cl.TakeOutput(nil); out != nil; out, _ = cl.TakeOutput(nil) {
	}
	if more, err := s.receive(cl, in[used:]); err != nil || used+more != len(in) {
		t.Fatalf("a write behind a refusal that has arrived: %d bytes taken, %v", more, err)
	}
	arrived = false
	if more, err := s.receive(cl, encoder.request(nil, jute.OpSetData, setting("/n", nil))); err != nil || more == 0 {
		t.Errorf("a write after that: %d bytes taken, %v", more, err)
	}
}

// TestWriteBehindARefusalForMemory pipelines a write that needs memory and one that needs none, while memory is short:
// the second is taken only once the refusal of the first has arrived.
func TestWriteBehindARefusalForMemory(t *testing.T) {
	t.Parallel()
	fs := storage.NewMemFS()
	fs.Budget = 64 << 20
	s := openOnDisk(t, fs, 1<<20, 3)
	cl, encoder := s.client(), &pipeline{}
	arrived := false
	cl.Socket = hooked{acked: func() bool { return arrived }}
	s.call(cl, encoder, jute.OpCreate, creating("/n", []byte("data"), 0))
	s.rep.memory.tight.Store(int32(memory.RefuseGrowth))
	in := encoder.request(nil, jute.OpCreate, creating("/refused", nil, 0))
	first := len(in)
	in = encoder.request(in, jute.OpDelete, deleting("/n"))
	used, err := s.receive(cl, in)
	if err != ErrUntold || used != first {
		t.Fatalf("a delete behind a refused create: %d of %d bytes taken, %v; want the %d of the create", used, len(in), err,
			first)
	}
	arrived = true
	for out, _ := cl.TakeOutput(nil); out != nil; out, _ = cl.TakeOutput(nil) {
	}
	if more, err := s.receive(cl, in[used:]); err != nil || used+more != len(in) {
		t.Fatalf("a delete behind a refusal that has arrived: %d bytes taken, %v", more, err)
	}
	if got := s.rep.memory.refused.Load(); got != 1 {
		t.Errorf("%d requests were refused for lack of memory, want 1", got)
	}
}
