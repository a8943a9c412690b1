package sidebyside

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	gozk "github.com/go-zookeeper/zk"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

var (
	sideBySide = flag.Duration("sidebyside", 0, "how long each measurement of TestSideBySide lasts; 0 skips it")
	rounds     = flag.Int("rounds", 5, "measurements of each kind in TestSideBySide; the median counts")
)

// TestSideBySide measures this client and go-zookeeper/zk against the same server,
// in turn, and prints medians:
//
//	go test ./test/sidebyside -run TestSideBySide -v -sidebyside 2s
//	ZOOID_TEST_SERVERS=host:port go test ./test/sidebyside -run TestSideBySide -v -sidebyside 2s
//
// Servers are those named, else a Zooid inside this process. Allocations are counted where the server is not in this
// process: against a stand-in that answers with constant bytes. Nothing is judged.
func TestSideBySide(t *testing.T) {
	if *sideBySide == 0 {
		t.Skip("measures for a minute: set -sidebyside 2s")
	}
	type place struct{ name, address string }
	places := []place{{"stand-in", standIn(t)}}
	if servers := os.Getenv("ZOOID_TEST_SERVERS"); servers != "" {
		places = append(places, place{servers, servers})
	} else {
		places = append(places, place{"Zooid", zktest.Start(t, zktest.Options{}).Direct(0)})
	}
	var table bytes.Buffer
	w := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "server\top\tclients × callers\tops/s: this\tgo-zookeeper\tratio\tallocs/op: this\tgo-zookeeper\tp50 µs: this\tgo-zookeeper\t")
	for _, p := range places {
		prepare(t, p.address)
		for _, op := range []string{"get", "set"} {
			for _, shape := range [][2]int{{16, 16}, {1, 1}} {
				a, b := duel(t, p.address, op, shape[0], shape[1])
				fmt.Fprintf(w, "%s\t%s\t%d × %d\t%.0f\t%.0f\t%.2f\t%.1f\t%.1f\t%.1f\t%.1f\t\n", p.name, op, shape[0], shape[1],
					a.rate, b.rate, a.rate/b.rate, a.allocs, b.allocs, a.p50, b.p50)
			}
		}
	}
	w.Flush()
	t.Logf("medians of %d measurements of %v, in turn; with a server in this process its allocations count too\n%s",
		*rounds, *sideBySide, &table)
}

// A figure is one measurement, or the median of several.
type figure struct{ rate, allocs, p50 float64 }

// duel measures both clients in turn.
func duel(t *testing.T, address, op string, clients, callers int) (ours, theirs figure) {
	var a, b []figure
	for i := range *rounds {
		if i%2 == 0 {
			a = append(a, measure(t, openOurs(t, address, op, clients), callers))
		}
		b = append(b, measure(t, openTheirs(t, address, op, clients), callers))
		if i%2 == 1 {
			a = append(a, measure(t, openOurs(t, address, op, clients), callers))
		}
	}
	return median(a), median(b)
}

func median(all []figure) figure {
	middle := func(of func(figure) float64) float64 {
		var v []float64
		for _, f := range all {
			v = append(v, of(f))
		}
		slices.Sort(v)
		return v[len(v)/2]
	}
	return figure{
		middle(func(f figure) float64 { return f.rate }), middle(func(f figure) float64 { return f.allocs }),
		middle(func(f figure) float64 { return f.p50 }),
	}
}

const duelPath = "/side-by-side"

var duelValue = bytes.Repeat([]byte("x"), 128)

// prepare makes the znode that all work on.
func prepare(t *testing.T, address string) {
	t.Helper()
	c, err := zk.Open(t.Context(), address, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, ok, err := c.Exists(t.Context(), duelPath); err != nil || ok {
		return
	}
	if _, err := c.Create(t.Context(), duelPath, duelValue, zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
}

// A caller does one operation; the closer ends all clients.
type duelist struct {
	calls []func() error // one for each client
	io.Closer
}

type closer func()

func (c closer) Close() error { c(); return nil }

func openOurs(t *testing.T, address, op string, n int) duelist {
	t.Helper()
	var d duelist
	var all []*zk.Client
	ctx := context.Background()
	for range n {
		c, err := zk.Open(ctx, address, zk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, c)
		call := func() error { _, _, err := c.Get(ctx, duelPath); return err }
		if op == "set" {
			call = func() error { _, err := c.Set(ctx, duelPath, duelValue, -1); return err }
		}
		d.calls = append(d.calls, call)
	}
	d.Closer = closer(func() {
		for _, c := range all {
			c.Close()
		}
	})
	return d
}

type noLog struct{}

func (noLog) Printf(string, ...any) {}

func openTheirs(t *testing.T, address, op string, n int) duelist {
	t.Helper()
	var d duelist
	var all []*gozk.Conn
	for range n {
		c, events, err := gozk.Connect([]string{address}, zk.DefaultSessionTimeout, gozk.WithLogger(noLog{}))
		if err != nil {
			t.Fatal(err)
		}
		for e := range events {
			if e.State == gozk.StateHasSession {
				break
			}
		}
		all = append(all, c)
		call := func() error { _, _, err := c.Get(duelPath); return err }
		if op == "set" {
			call = func() error { _, err := c.Set(duelPath, duelValue, -1); return err }
		}
		d.calls = append(d.calls, call)
	}
	d.Closer = closer(func() {
		for _, c := range all {
			c.Close()
		}
	})
	return d
}

// measure lets callers of each client work for a while.
func measure(t *testing.T, d duelist, callers int) figure {
	t.Helper()
	defer d.Close()
	for _, call := range d.calls { // so that pools and buffers are warm
		for range 100 {
			if err := call(); err != nil {
				t.Fatal(err)
			}
		}
	}
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var over atomic.Bool
	var failed atomic.Pointer[error]
	latencies := make([][]time.Duration, len(d.calls)*callers)
	var counts atomic.Int64
	begin := time.Now()
	var wg sync.WaitGroup
	for i := range latencies {
		call := d.calls[i/callers]
		sample := make([]time.Duration, 0, samplesMax)
		wg.Go(func() {
			n := 0
			for ; !over.Load(); n++ {
				start := time.Now()
				if err := call(); err != nil {
					failed.Store(&err)
					break
				}
				if len(sample) < samplesMax {
					sample = append(sample, time.Since(start))
				}
			}
			counts.Add(int64(n))
			latencies[i] = sample
		})
	}
	time.Sleep(*sideBySide)
	over.Store(true)
	wg.Wait()
	took := time.Since(begin)
	runtime.ReadMemStats(&after)
	if err := failed.Load(); err != nil {
		t.Fatal(*err)
	}
	var all []time.Duration
	for _, s := range latencies {
		all = append(all, s...)
	}
	slices.Sort(all)
	n := float64(counts.Load())
	return figure{
		n / took.Seconds(), float64(after.Mallocs-before.Mallocs) / n, float64(all[len(all)/2].Nanoseconds()) / 1e3,
	}
}

// samplesMax bounds the latencies kept of one caller.
const samplesMax = 100_000
