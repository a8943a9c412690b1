package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/crash"
)

var (
	overloadFlag = flag.Duration("overload.for", 8*time.Second, "how long each test of overload lasts; with -long ten minutes for saturation, one for the others")
	limitsFlag   = flag.String("overload.identity", "requests=20000", "limits.identity of the server that a greedy identity attacks")
)

// overloaded skips a test that takes the whole machine, and returns how long it lasts.
func overloaded(t *testing.T, whole time.Duration) time.Duration {
	t.Helper()
	if os.Getenv("ZOOID_OVERLOAD") != "1" {
		t.Skip("set ZOOID_OVERLOAD=1, on a machine that does nothing else")
	}
	if *long {
		return whole
	}
	return *overloadFlag
}

// startOne starts a server alone.
func startOne(t *testing.T, config map[string]string) *crash.Server {
	t.Helper()
	all := map[string]string{"tickTime": "2000"}
	for k, v := range config {
		all[k] = v
	}
	s := crash.Start(t, crash.Options{Servers: 1, Config: all}).Servers[0]
	if _, err := s.Ready(); err != nil {
		t.Fatal(err)
	}
	return s
}

// honest are clients of an identity each that ask at a slow, steady pace.
type honest struct {
	mu    sync.Mutex
	took  []time.Duration
	ended atomic.Int32 // connections that ended, or sessions that expired
	stop  context.CancelFunc
	wg    sync.WaitGroup
}

// honestPause is the time between two requests of an honest client.
const honestPause = 20 * time.Millisecond

// begin starts n honest clients, which read and, each fourth time, write.
func begin(t *testing.T, addr string, n int) *honest {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	h := &honest{stop: stop}
	f := newField(ctx, 1, []string{addr}, nil)
	for i := range n {
		c, err := f.connect(addr, 20_000)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := c.call(jute.OpAuth, authRecord(fmt.Sprintf("honest%d:x", i))); err != nil {
			t.Fatal(err)
		}
		path := fmt.Sprintf("/honest%d", i)
		if err := c.create(path, []byte("data"), jute.ModePersistent); err != nil {
			t.Fatal(err)
		}
		h.wg.Go(func() { h.ask(ctx, c, path) })
	}
	t.Cleanup(func() {
		stop()
		h.wg.Wait()
	})
	return h
}

func (h *honest) ask(ctx context.Context, c *conn, path string) {
	defer c.close()
	for n := 0; ctx.Err() == nil; n++ {
		op, record := jute.OpGetData, readRecord(path)
		if n%4 == 0 {
			op, record = jute.OpSetData, setRecord(path, "data")
		}
		c.unpaced = true
		began := time.Now()
		if code, _, err := c.call(op, record); err != nil || code != jute.OK {
			if ctx.Err() == nil {
				h.ended.Add(1)
			}
			return
		}
		h.mu.Lock()
		h.took = append(h.took, time.Since(began))
		h.mu.Unlock()
		time.Sleep(honestPause)
	}
}

// during returns what requests take while d passes.
func (h *honest) during(d time.Duration) []time.Duration {
	h.mu.Lock()
	h.took = nil
	h.mu.Unlock()
	time.Sleep(d)
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.took)
}

// attackers runs an attack in n processes, which are over when the function returned is called.
func attackers(t *testing.T, n int, args ...string) (end func()) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var all []*exec.Cmd
	var said []*bytes.Buffer
	for i := range n {
		cmd := exec.Command("nice", append([]string{"-n", attackNice, self, "-seed", fmt.Sprint(i + 1), "-for", "1h"}, args...)...)
		cmd.Env = append(os.Environ(), programVariable+"=1")
		cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		out := new(bytes.Buffer)
		cmd.Stdout, cmd.Stderr = out, out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		all, said = append(all, cmd), append(said, out)
	}
	end = sync.OnceFunc(func() {
		for i, cmd := range all {
			cmd.Process.Kill()
			cmd.Wait()
			if text := strings.TrimSpace(said[i].String()); text != "" {
				t.Logf("attacker %d: %s", i, text)
			}
		}
	})
	t.Cleanup(end)
	return end
}

// compare logs the honest clients' times alone and under attack, and judges them with -long.
func compare(t *testing.T, h *honest, alone, attacked []time.Duration, most float64) {
	t.Helper()
	if len(attacked) == 0 {
		t.Fatal("the honest clients got no answer under attack")
	}
	a, b := percentile(alone, 0.99), percentile(attacked, 0.99)
	t.Logf("honest clients alone: %d requests, p50 %v, p99 %v; attacked: %d, p50 %v, p99 %v, max %v: %.2f times the p99",
		len(alone), short(percentile(alone, 0.5)), short(a), len(attacked), short(percentile(attacked, 0.5)), short(b), short(percentile(attacked, 1)), float64(b)/float64(a))
	if *long && float64(b) > most*float64(a) {
		t.Errorf("the slowest of a hundred requests of honest clients took %v, more than %v times the %v alone", b, most, a)
	}
	if n := h.ended.Load(); n > 0 {
		t.Errorf("%d honest clients lost their connection or got an error", n)
	}
}

// TestGreedy: one identity asks as fast as it can on many connections, among nineteen others.
func TestGreedy(t *testing.T) {
	d := overloaded(t, time.Minute)
	s := startOne(t, map[string]string{"limits.identity": *limitsFlag})
	h := begin(t, s.Addr, 19)
	alone := h.during(d)
	attackers(t, 1, "-attack", "greedy", "-clients", s.Addr)
	time.Sleep(2 * time.Second)
	compare(t, h, alone, h.during(d), 2)
}

// silentConnections are held by silentProcesses together.
const (
	silentConnections = 20_000
	silentProcesses   = 4
	// silentMemory is what they may cost the server.
	silentMemory = 256 << 20
)

// TestSilent: thousands of connections say nothing, or lie about what they will say.
func TestSilent(t *testing.T) {
	d := overloaded(t, time.Minute)
	s := startOne(t, map[string]string{"nio.sessionlessCnxnTimeout": "60000"})
	h := begin(t, s.Addr, 19)
	alone, before := h.during(d), s.Memory()
	attackers(t, silentProcesses, "-attack", "silence", "-clients", s.Addr, "-connections", fmt.Sprint(silentConnections/silentProcesses))
	most := int64(0)
	began := time.Now()
	attacked := make(chan []time.Duration)
	go func() { attacked <- h.during(max(d, 20*time.Second)) }()
	for {
		select {
		case times := <-attacked:
			text, _ := s.Ask("cons")
			t.Logf("memory before %d MiB, at most %d MiB under attack; %d lines of cons; %v", before>>20, most>>20, strings.Count(text, "\n"), time.Since(began))
			if most-before > silentMemory {
				t.Errorf("silent connections cost %d MiB", (most-before)>>20)
			}
			compare(t, h, alone, times, 2)
			return
		case <-time.After(samplePause):
			most = max(most, s.Memory())
		}
	}
}

// TestSaturation: three times as many clients as saturate the server, in an open loop.
func TestSaturation(t *testing.T) {
	d := overloaded(t, 10*time.Minute)
	s := startOne(t, nil)
	h := begin(t, s.Addr, 20)
	replies := func(d time.Duration) float64 {
		before, after := received(t, s), 0
		time.Sleep(d)
		after = received(t, s)
		return float64(after-before) / d.Seconds()
	}
	end := attackers(t, 1, "-attack", "saturation", "-clients", s.Addr)
	time.Sleep(3 * time.Second)
	peak := replies(min(d, 10*time.Second))
	end()
	attackers(t, 3, "-attack", "saturation", "-clients", s.Addr)
	time.Sleep(2 * time.Second)
	goodput := replies(d)
	times := h.during(min(d, 10*time.Second))
	t.Logf("at saturation %.0f replies a second, at three times that load %.0f; memory %d MiB; honest p50 %v, p99 %v, max %v", peak, goodput, s.Memory()>>20,
		short(percentile(times, 0.5)), short(percentile(times, 0.99)), short(percentile(times, 1)))
	if *long && goodput < 0.8*peak {
		t.Errorf("goodput is %.2f of the peak", goodput/peak)
	}
	if n := h.ended.Load(); n > 0 {
		t.Errorf("%d honest clients lost their connection or got an error", n)
	}
}

// received returns how many packets the server has sent.
func received(t *testing.T, s *crash.Server) (n int) {
	t.Helper()
	for range 20 {
		text, err := s.Ask("mntr")
		if err != nil {
			continue
		}
		for line := range strings.Lines(text) {
			if rest, ok := strings.CutPrefix(line, "zk_packets_sent\t"); ok {
				fmt.Sscan(rest, &n)
				return n
			}
		}
	}
	t.Fatal("the server doesn't tell how many packets it has sent")
	return 0
}
