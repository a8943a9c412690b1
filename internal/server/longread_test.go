package server

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// fill creates n znodes below path, which it creates too.
func fill(c *rawClient, path string, n int, mode jute.CreateMode) {
	c.t.Helper()
	if h, _ := c.call(jute.OpCreate, creating(path, nil, 0)); h.Err != jute.OK {
		c.t.Fatalf("create %s: %v", path, h.Err)
	}
	for i := 0; i < n; {
		var ops []jute.MultiOp
		for ; i < n && len(ops) < 1000; i++ {
			ops = append(ops,
				jute.MultiOp{
					Op: jute.OpCreate, Path: fmt.Sprintf("%s/n%06d", path, i), ACL: jute.WorldACL(jute.PermAll), Flags: mode,
				})
		}
		if h, _ := c.call(jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) }); h.Err != jute.OK {
			c.t.Fatalf("create below %s: %v", path, h.Err)
		}
	}
}

// names decodes the vector of strings with which a reply begins.
func names(body []byte) []string { return jute.NewDecoder(body).Strings() }

// longListSize is enough for several steps of a Scan.
const longListSize = 20_000

// TestLongReadShowsOneState reads lists in steps while another client changes them
// all the time: each reply shows exactly the state of its zxid.
func TestLongReadShowsOneState(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		op   jute.Op
		mode jute.CreateMode
	}{
		"getChildren":   {jute.OpGetChildren, jute.ModePersistent},
		"getChildren2":  {jute.OpGetChildren2, jute.ModePersistent},
		"getEphemerals": {jute.OpGetEphemerals, jute.ModeEphemeral},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Options{})
			addr := s.Addrs()[0].String()
			reader, writer := connect(t, addr, 0, nil), connect(t, addr, 0, nil)
			fill(reader, "/l", longListSize, tc.mode)
			// Each change removes the last of the fixed names that is left, and adds a name,
			// so the length stays and the names tell the change.
			zxids := []int64{0}
			var mu sync.Mutex
			stop, done := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(done)
				for i := 1; i <= longListSize/2; i++ {
					select {
					case <-stop:
						return
					default:
					}
					ops := []jute.MultiOp{{Op: jute.OpDelete, Path: fmt.Sprintf("/l/n%06d", longListSize-i), Version: -1}}
					h, _ := writer.call(jute.OpMulti, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
					if h.Err != jute.OK {
						t.Errorf("change %d: %v", i, h.Err)
						return
					}
					mu.Lock()
					zxids = append(zxids, h.Zxid)
					mu.Unlock()
				}
			}()
			for range 40 {
				h, body := reader.call(tc.op, reading("/l", false))
				if h.Err != jute.OK {
					t.Fatal(h.Err)
				}
				got := names(body)
				changes := longListSize - len(got)
				if last := got[len(got)-1]; !strings.HasSuffix(last, fmt.Sprintf("n%06d", len(got)-1)) {
					t.Fatalf("%d names, the last is %s: no state has that", len(got), last)
				}
				mu.Lock()
				if changes < len(zxids) && h.Zxid < zxids[changes] || changes+1 < len(zxids) && h.Zxid >= zxids[changes+1] {
					t.Fatalf("zxid %#x with %d changes, which came with zxids %#x", h.Zxid, changes,
						zxids[changes:min(changes+2, len(zxids))])
				}
				mu.Unlock()
			}
			close(stop)
			<-done
		})
	}
}

// TestLongReadsInAPipeline mixes long reads with writes, small reads and syncs, all
// sent at once: each reply comes in its turn and shows exactly the writes before it.
func TestLongReadsInAPipeline(t *testing.T) {
	t.Parallel()
	for name, addrs := range map[string]func(t *testing.T) []string{
		"alone": func(t *testing.T) []string { return []string{open(t, Options{}).Addrs()[0].String()} },
		"ensemble": func(t *testing.T) (all []string) {
			_, opts := threeServers(t, Options{})
			for _, o := range opts {
				all = append(all, o.Listen[0])
			}
			return all
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for i, addr := range addrs(t) {
				c := connect(t, addr, 0, nil)
				path := fmt.Sprintf("/p%d", i)
				fill(c, path, 2*1024, 0)
				pipelineOfLongReads(t, c, path, 2*1024)
			}
		})
	}
}

func pipelineOfLongReads(t *testing.T, c *rawClient, path string, size int) {
	const rounds = 60
	var stream []byte
	var wants []func(body []byte) string // says what is wrong
	ask := func(op jute.Op, record func([]byte) []byte, want func(body []byte) string) {
		stream = c.request(stream, op, record)
		wants = append(wants, want)
	}
	any := func([]byte) string { return "" }
	for i := range rounds {
		ask(jute.OpCreate, creating(fmt.Sprintf("%s/more%d", path, i), []byte{byte(i)}, 0), any)
		ask(jute.OpGetChildren, reading(path, i%7 == 0), func(body []byte) string {
			if n := len(names(body)); n != size+i+1 {
				return fmt.Sprintf("%d children, want %d", n, size+i+1)
			}
			return ""
		})
		for j := range i % 5 {
			ask(jute.OpGetData, reading(fmt.Sprintf("%s/more%d", path, i), false), func(body []byte) string {
				if d := jute.NewDecoder(body).Buffer(); len(d) != 1 || d[0] != byte(i) {
					return fmt.Sprintf("data %d behind the long read: % x", j, d)
				}
				return ""
			})
		}
		if i%9 == 0 {
			ask(jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, path) }, any)
		}
		ask(jute.OpExists, reading(fmt.Sprintf("%s/more%d", path, i+1), false), nil) // not yet
	}
	go c.conn.Write(stream)
	last := int64(0)
	for i, want := range wants {
		h, body := c.reply()
		for h.Xid == jute.XidNotification {
			h, body = c.reply()
		}
		if h.Xid != c.xid-int32(len(wants))+int32(i)+1 || h.Zxid < last {
			t.Fatalf("reply %d has xid %d, zxid %#x after %#x", i, h.Xid, h.Zxid, last)
		}
		last = h.Zxid
		switch {
		case want == nil && h.Err != jute.ErrNoNode:
			t.Fatalf("reply %d shows a write behind it: %v", i, h.Err)
		case want != nil && h.Err != jute.OK:
			t.Fatalf("reply %d: %v", i, h.Err)
		case want != nil && want(body) != "":
			t.Fatalf("reply %d: %s", i, want(body))
		}
	}
}

// TestMultiReadLimit: a multiRead whose reply would be too long gets an error, and
// its connection goes on.
func TestMultiReadLimit(t *testing.T) {
	t.Parallel()
	c := connect(t, open(t, Options{}).Addrs()[0].String(), 0, nil)
	c.call(jute.OpCreate, creating("/v", make([]byte, 1_000_000), 0))
	for n, want := range []jute.Code{4: jute.OK, 5: jute.ErrMarshallingError, 1000: jute.ErrMarshallingError} {
		if n != 4 && n != 5 && n != 1000 {
			continue
		}
		ops := make([]jute.MultiOp, n)
		for i := range ops {
			ops[i] = jute.MultiOp{Op: jute.OpGetData, Path: "/v"}
		}
		h, body := c.call(jute.OpMultiRead, func(b []byte) []byte { return jute.AppendMulti(b, ops) })
		if h.Err != want || want != jute.OK && len(body) != 0 {
			t.Errorf("%d times 1 MB: %v and %d bytes, want %v", n, h.Err, len(body), want)
		}
	}
}

// TestSlowReader: a client that sends many reads of large values and reads nothing
// doesn't make the server keep their replies; once it reads, it gets them all.
func TestSlowReader(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	c.call(jute.OpCreate, creating("/v", make([]byte, 1_000_000), 0))
	const reads = 200
	var stream []byte
	for range reads {
		stream = c.request(stream, jute.OpGetData, reading("/v", false))
	}
	if _, err := c.conn.Write(stream); err != nil {
		t.Fatal(err)
	}
	most := int64(0)
	eventually(t, "replies wait", func() bool { use, _ := s.memory.look(); return use.Output > 1_000_000 })
	time.Sleep(100 * time.Millisecond) // for what would be too much
	for i := range reads {
		if h, body := c.reply(); h.Err != jute.OK || len(body) < 1_000_000 {
			t.Fatalf("reply %d: %v, %d bytes", i, h.Err, len(body))
		}
		use, _ := s.memory.look()
		most = max(most, use.Output)
	}
	if most > 4*(4<<20+2_000_000) { // two buffers, which grow by doubling
		t.Errorf("buffers of %d bytes for what waits to be read", most)
	}
}
