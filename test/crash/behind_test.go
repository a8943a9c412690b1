package crash

import (
	"cmp"
	"flag"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/jute"
)

var behindFlag = flag.Int64("behind", 0, "writes that a server misses in TestBehind; 0 means 1000000, with -long only")

const (
	writers            = 8
	writersOutstanding = 64
	// window is what a rate is measured over.
	window = 5 * time.Second
	// behindPatience is for a million writes, and for catching up, on a machine that
	// does other things.
	behindPatience = 15 * time.Minute
)

// flood is clients that write as fast as they are answered. Nothing is recorded:
// millions of requests are too many for a history.
type flood struct {
	t        *testing.T
	answered atomic.Int64
	failed   atomic.Int64
	stop     chan struct{}
	wg       sync.WaitGroup
}

// startFlood writes to the servers at addrs: each client makes so many znodes and
// then sets them again and again.
func startFlood(t *testing.T, keys int, addrs ...string) *flood {
	f := &flood{t: t, stop: make(chan struct{})}
	for i := range writers {
		c := traffic.NewClient(history.NewJournal(discard{}), traffic.ClientOptions{Timeout: sessionTimeout},
			addrs[i%len(addrs)])
		if err := connect(c); err != nil {
			t.Fatal(err)
		}
		f.wg.Go(func() { f.write(c, fmt.Sprintf("/w%d", i), keys) })
	}
	t.Cleanup(f.end)
	return f
}

func (f *flood) end() {
	select {
	case <-f.stop:
	default:
		close(f.stop)
	}
	f.wg.Wait()
}

func (f *flood) write(c *traffic.Client, root string, keys int) {
	defer c.Drop()
	data := make([]byte, 100)
	var open []*traffic.Call
	send := func(op jute.Op, body []byte) bool {
		call, err := c.Send(op, body)
		if err != nil {
			f.failed.Add(1)
			return false
		}
		if open = append(open, call); len(open) == writersOutstanding {
			if open[0].Wait() != jute.OK {
				f.failed.Add(1)
			}
			f.answered.Add(1)
			open = open[1:]
		}
		return true
	}
	for n := 0; ; n++ {
		select {
		case <-f.stop:
			return
		default:
		}
		path, ok := root, true
		if n > 0 {
			path += fmt.Sprintf("/%d", n%keys+1)
		}
		if n <= keys {
			q := jute.CreateRequest{Path: path, Data: data, ACL: jute.WorldACL(jute.PermAll)}
			ok = send(jute.OpCreate, q.Append(nil))
		} else {
			q := jute.SetDataRequest{Path: path, Data: data, Version: -1}
			ok = send(jute.OpSetData, q.Append(nil))
		}
		if !ok {
			return
		}
	}
}

// rate waits for d and returns the writes answered per second meanwhile.
func (f *flood) rate(d time.Duration) float64 {
	began, n := time.Now(), f.answered.Load()
	time.Sleep(d)
	return float64(f.answered.Load()-n) / time.Since(began).Seconds()
}

// zxid asks a server for the newest change it has applied; 0 if it doesn't say.
func (s *Server) zxid() int64 {
	text, err := s.Ask("srvr")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(text) {
		if hex, ok := strings.CutPrefix(line, "Zxid: 0x"); ok {
			z, _ := strconv.ParseInt(strings.TrimSpace(hex), 16, 64)
			return z
		}
	}
	return 0
}

// TestBehind lets a server miss a million writes and starts it again while the
// others' clients go on writing. It must catch up, from the leader's log or by a
// snapshot, and nobody's write may fail. What it costs the others is printed.
func TestBehind(t *testing.T) {
	hurtful(t)
	if !*long && *behindFlag == 0 {
		t.Skip("writes millions of times: needs -long or -behind")
	}
	missed := cmp.Or(*behindFlag, 1_000_000)
	t.Run("log", func(t *testing.T) { behind(t, missed, 1<<30, false) })
	t.Run("snapshot", func(t *testing.T) { behind(t, missed, missed/8, true) })
}

func behind(t *testing.T, missed, snapCount int64, snapshot bool) {
	e := Start(t,
		Options{
			Servers: 3, Disk: ownDisk(t), Config: map[string]string{
				"snapCount": fmt.Sprint(snapCount), "autopurge.snapRetainCount": "3",
			},
		})
	victim := e.Servers[0]
	victim.Stop() // in case it led
	leader, err := e.Leader()
	if err == nil {
		err = victim.Start()
	}
	if err == nil {
		_, err = victim.Ready()
	}
	if err != nil {
		t.Fatal(err)
	}
	f := startFlood(t, int(missed)/4/writers, e.Servers[1].Addr, e.Servers[2].Addr)
	for f.answered.Load() < missed/4 {
		time.Sleep(100 * time.Millisecond)
	}
	whole := f.rate(window)
	victim.Stop()
	from := f.answered.Load()
	deadline := time.Now().Add(behindPatience)
	for f.answered.Load()-from < missed && time.Now().Before(deadline) {
		time.Sleep(100 * time.Millisecond)
	}
	without := f.rate(window)
	missed = f.answered.Load() - from
	began, n := time.Now(), f.answered.Load()
	// Servers have machines of their own. Here the others' disk and processors are
	// left to them, so that what is measured is what the leader does.
	victim.Wrap = []string{"nice", "-n", "19"}
	if err := victim.Start(); err != nil {
		t.Fatal(err)
	}
	for {
		want := e.Servers[leader].zxid()
		if want != 0 && victim.zxid() >= want {
			break
		}
		if time.Since(began) > behindPatience {
			t.Fatalf("%d writes behind, it did not catch up within %v", missed, behindPatience)
		}
		time.Sleep(10 * readyPause) // asking costs, too
	}
	took := time.Since(began)
	during := float64(f.answered.Load()-n) / took.Seconds()
	after := f.rate(window)
	f.end()
	if n := f.failed.Load(); n > 0 {
		t.Errorf("%d writes failed", n)
	}
	if took := strings.Contains(victim.Log(), "took a peer's snapshot"); took != snapshot {
		t.Errorf("it took a snapshot: %v, want %v", took, snapshot)
	}
	t.Logf("%d writes behind, caught up in %v; writes per second: %.0f with all three servers, %.0f without it, %.0f while it caught up (%.2f and %.2f of those), %.0f afterwards",
		missed, took.Round(time.Millisecond), whole, without, during, during/whole, during/without, after)
}

// ownDisk is a folder that is not on the disk of the others, if there is such.
func ownDisk(t *testing.T) string {
	const memory = "/dev/shm"
	dir, err := os.MkdirTemp(memory, "zooid-crash-")
	if err != nil {
		t.Logf("%v: the server that is behind shares the others' disk", err)
		return ""
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return dir
}
