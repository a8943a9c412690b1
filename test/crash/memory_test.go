package crash

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

const (
	// memoryFixed is what a server may take beside what follows from its data: itself, the buffers
	// of its log and its connections, the garbage of a burst.
	memoryFixed = 128 << 20
	// memoryZnode is what it may keep for each znode that there ever was.
	memoryZnode = 136
)

// memoryPatience is how long it may take until free memory has been given back, little by little.
const memoryPatience = 5 * time.Minute

// workBytes is what each write has meanwhile.
const workBytes = 32 << 10

// holder fills and empties one server by pipelines.
type holder struct {
	t *testing.T
	s *Server
	c *zk.Client
}

func newHolder(t *testing.T) *holder {
	hurtful(t)
	e := Start(t, Options{Servers: 1, Config: map[string]string{"snapCount": "1000"}}) // with snapshots in between
	c, err := zk.New(e.Servers[0].Addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return &holder{t: t, s: e.Servers[0], c: c}
}

func (h *holder) create(n, size int) {
	h.t.Helper()
	ctx := context.Background()
	p, sent := h.c.Pipeline(), make([]zk.Future[zk.Created], 0, n)
	for i := range n {
		sent = append(sent,
			p.Create(ctx, fmt.Sprintf("/held-%07d", i), make([]byte, size), zk.ModePersistent, zk.WorldACL(zk.PermAll)))
	}
	for _, f := range sent {
		if _, err := f.Wait(ctx); err != nil {
			h.t.Fatal(err)
		}
	}
}

// thin deletes all of n znodes but one of keep.
func (h *holder) thin(n, keep int) {
	h.t.Helper()
	ctx := context.Background()
	p, sent := h.c.Pipeline(), make([]zk.Future[struct{}], 0, n)
	for i := range n {
		if i%keep != 0 {
			sent = append(sent, p.Delete(ctx, fmt.Sprintf("/held-%07d", i), -1))
		}
	}
	for _, f := range sent {
		if _, err := f.Wait(ctx); err != nil {
			h.t.Fatal(err)
		}
	}
}

// fits waits until the server takes no more memory than its bound, which follows from the bytes
// of data that it holds and from how many znodes there ever were.
func (h *holder) fits(data, znodes int64) {
	h.t.Helper()
	bound, took := 2*data+memoryZnode*znodes+memoryFixed, int64(0)
	for end := time.Now().Add(memoryPatience); time.Now().Before(end); h.work() {
		if took = h.s.Memory(); took <= bound {
			h.t.Logf("%d MiB of data take %d MiB", data>>20, took>>20)
			return
		}
	}
	h.t.Errorf("%d MiB of data take %d MiB, the bound is %d", data>>20, took>>20, bound>>20)
}

// work writes a few MiB to one znode, so that garbage is collected long before two idle minutes are over.
func (h *holder) work() {
	h.t.Helper()
	ctx := context.Background()
	for range 100 {
		if _, err := h.c.Set(ctx, "/held-0000000", make([]byte, workBytes), zk.AnyVersion); err != nil {
			h.t.Fatal(err)
		}
	}
	time.Sleep(200 * time.Millisecond)
}

// TestMemoryOfSparseData deletes all but one of each 71 znodes of 900 bytes, in the order in
// which they were created, so that hardly a page of the tree's memory is empty.
func TestMemoryOfSparseData(t *testing.T) {
	h := newHolder(t)
	const size, keep = 900, 71
	n := times(0, 150_000, 300_000)
	h.create(n, size)
	h.t.Logf("full: %d MiB", h.s.Memory()>>20)
	h.thin(n, keep)
	h.fits(int64(n/keep*size), int64(n))
}

// TestMemoryOfLargeData holds many large values, and then a tenth of them.
func TestMemoryOfLargeData(t *testing.T) {
	h := newHolder(t)
	const n, size, keep = 600, 750_000, 10
	h.create(n, size)
	h.fits(n*size, n)
	h.thin(n, keep)
	h.fits(n/keep*size, n)
}
