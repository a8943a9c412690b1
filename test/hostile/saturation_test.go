package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/crash"
)

const (
	// saturationTimes is how much more is offered than a server can do.
	saturationTimes     = 3
	saturationProcesses = 3
	// saturationMemory is the server's memory.limit.
	saturationMemory = 512 << 20
	// goodputMin is the share of the peak that is answered well under overload.
	goodputMin = 0.8
	// offeredMin is the share of what is to be offered that must really be.
	offeredMin = 0.95
	// recoveryMax is the time until all is as before.
	recoveryMax = 5 * time.Second
	// recoveryPatience is how long the test waits for it.
	recoveryPatience = time.Minute
	// peakSettle is the time until a closed loop is at its speed.
	peakSettle  = 2 * time.Second
	goodputPart = 10 * time.Second // the least goodput is that of such a part
)

// peakWindows are the unanswered requests of a connection that are tried for the peak.
var peakWindows = []int{4, 16, 64}

// TestOverloadSaturation: first as many requests as the server answers, then three times as
// many, whether it answers or not; then nothing.
func TestOverloadSaturation(t *testing.T) {
	d, judged := overload(t, 10*time.Minute)
	s := startOne(t, map[string]string{"memory.limit": fmt.Sprint(saturationMemory)})
	step := min(max(d/10, time.Second), 20*time.Second)
	h, fresh := beginHonest(t, []string{s.Addr}, 20), beginFresh(t, s.Addr)
	usual := during(step, h, fresh)
	windows := peakWindows
	if !judged {
		windows = windows[1:2]
	}
	peak := peakOf(t, s, windows, step)
	time.Sleep(peakSettle)

	healthy := beginHealthy(t, s.Addr)
	offered := int(saturationTimes * peak)
	load := startAttack(t, saturationProcesses, "-attack", "saturation", "-clients", s.Addr,
		"-rate", fmt.Sprint(max(offered/saturationProcesses, 1)))
	load.begun()
	used := load.processors(s)
	from, most := time.Now(), int64(0)
	for time.Since(from) < d {
		most = max(most, s.Memory())
		time.Sleep(samplePause)
	}
	did := load.since(from)
	to := time.Now()
	processors := used(did.good)
	least := did.good
	// What is after d is the wait for attackers that a busy machine kept from it: they may have said nothing for long.
	for at := from; !at.Add(goodputPart).After(from.Add(d)); at = at.Add(goodputPart) {
		least = min(least, load.pace(at, at.Add(goodputPart)).good)
	}
	load.end()
	stopped := time.Now()
	first, recovered := usual.back(h, fresh, stopped, judged)
	expired, lost, ownFault := healthy.end(t)

	t.Logf("peak %.0f good replies a second; %v", peak, did)
	t.Logf("goodput %.2f of the peak, in the worst %v %.2f; offered %.2f times the peak; %s", did.good/peak, goodputPart,
		least/peak, did.offered/peak, processors)
	under := h.between(from, to)
	t.Logf("honest clients: p50 %v, p99 %v, max %v; before: p99 %v, in the worst second %v", short(percentile(under, 0.5)),
		short(percentile(under, 0.99)), short(percentile(under, 1)),
		short(usual.p99), short(usual.worst))
	t.Logf("%d healthy sessions: %d expired, %d connections lost, %d were late themselves", healthy.count(), expired, lost,
		ownFault)
	t.Logf("memory at most %d MiB, limit %d MiB", most>>20, int64(saturationMemory)>>20)
	t.Logf("after the load: a fresh client's first write was done after %v, all was as before after %v", short(first),
		short(recovered))

	if did.good == 0 {
		t.Error("nothing was answered well under overload")
	}
	if expired > 0 || lost > 0 {
		t.Errorf("%d healthy sessions expired, and %d lost their connection", expired, lost)
	}
	if n := h.ended.Load(); n > 0 {
		t.Errorf("%d honest clients lost their connection or got an error", n)
	}
	if most > saturationMemory {
		t.Errorf("the server took %d MiB", most>>20)
	}
	if first < 0 {
		t.Errorf("a fresh client could write nothing for %v after the load", recoveryPatience)
	}
	if !judged {
		return
	}
	if did.offered < offeredMin*saturationTimes*peak {
		t.Errorf("only %.2f times the peak was offered", did.offered/peak)
	}
	if did.good < goodputMin*peak {
		t.Errorf("goodput is %.2f of the peak", did.good/peak)
	}
	if recovered < 0 || recovered > recoveryMax {
		t.Errorf("%v after the load not all was as before", recoveryMax)
	}
}

// peakOf returns how many good replies a second the server gives at the most to clients that wait for them.
func peakOf(t *testing.T, s *crash.Server, windows []int, d time.Duration) (peak float64) {
	t.Helper()
	for _, window := range windows {
		load := startAttack(t, saturationProcesses, "-attack", "saturation", "-clients", s.Addr,
			"-window", strconv.Itoa(window))
		load.begun()
		used := load.processors(s)
		did := load.during(d)
		t.Logf("closed loop, %d connections with %d unanswered requests each: %.0f good replies a second; %s",
			saturationProcesses*saturationConnections, window, did.good, used(did.good))
		load.end()
		peak = max(peak, did.good)
	}
	return peak
}

// processors begins to measure the processor time of a server and of those who attack it. The function
// returned says what it was for each of so many good replies a second.
func (y *attackers) processors(s *crash.Server) func(perSecond float64) string {
	pids := []int{s.Pid()}
	for _, a := range y.all {
		pids = append(pids, a.cmd.Process.Pid)
	}
	all := func() (server, others time.Duration) {
		for _, pid := range pids[1:] {
			others += processorTime(y.t, pid)
		}
		return processorTime(y.t, pids[0]), others
	}
	began := time.Now()
	server, others := all()
	return func(perSecond float64) string {
		replies := perSecond * time.Since(began).Seconds()
		serverNow, othersNow := all()
		return fmt.Sprintf("processor time for each: %.1f µs of the server, %.1f µs of its clients",
			float64(serverNow-server)/1e3/replies, float64(othersNow-others)/1e3/replies)
	}
}

// beginFresh starts clients that come one after the other, write once, and go.
func beginFresh(t *testing.T, addr string) *timings {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	f, y := newHonestField(ctx, 2, []string{addr}), &timings{}
	var wg sync.WaitGroup
	wg.Go(func() {
		for ; !f.over(); f.sleep(honestPause) {
			began := time.Now()
			c := orNil(f.connect(addr, 20_000))
			if c == nil {
				continue
			}
			c.unpaced = true
			if c.create("/fresh", nil, jute.ModePersistent) == nil {
				if code, _, err := c.call(jute.OpSetData, setRecord("/fresh", "data")); err == nil && code == jute.OK {
					y.add(began)
				}
			}
			c.call(jute.OpCloseSession, nil)
			c.close()
		}
	})
	t.Cleanup(func() {
		stop()
		wg.Wait()
	})
	return y
}

// usual is what honest and fresh clients' requests take without a load.
type usual struct {
	p99          time.Duration
	worst, fresh time.Duration // the greatest p99 of a second, of honest and of fresh clients
}

func during(d time.Duration, h *honest, fresh *timings) (u usual) {
	began := time.Now()
	u.p99 = percentile(h.during(d), 0.99)
	for at := began; !at.Add(time.Second).After(began.Add(d)); at = at.Add(time.Second) {
		u.worst = max(u.worst, percentile(h.between(at, at.Add(time.Second)), 0.99))
		u.fresh = max(u.fresh, percentile(fresh.between(at, at.Add(time.Second)), 0.99))
	}
	return u
}

// back returns after how long a client that had come after the load had written, and when the
// first second began whose p99 was no greater than those before the load, if times are judged; each
// -1 if that wasn't so in time.
func (u *usual) back(h *honest, fresh *timings, stopped time.Time, judged bool) (first, recovered time.Duration) {
	first = -1
	for time.Since(stopped) < recoveryPatience {
		time.Sleep(samplePause)
		fresh.mu.Lock()
		if at := slices.IndexFunc(fresh.all, func(x timing) bool { return x.began.After(stopped) }); at >= 0 && first < 0 {
			first = fresh.all[at].began.Add(fresh.all[at].took).Sub(stopped)
		}
		fresh.mu.Unlock()
		for at := stopped; first >= 0 && time.Since(at) > 2*time.Second; at = at.Add(samplePause) {
			ours, theirs := h.between(at, at.Add(time.Second)), fresh.between(at, at.Add(time.Second))
			if len(ours) > 0 && len(theirs) > 0 && percentile(ours, 0.99) <= u.worst && percentile(theirs, 0.99) <= u.fresh {
				return first, at.Sub(stopped)
			}
		}
		if first >= 0 && (!judged || time.Since(stopped) > 2*recoveryMax) {
			break
		}
	}
	return first, -1
}

// healthy are sessions whose clients do what clients have to: they send something at least in
// each third of the timeout, and come back if they lose their connection.
type healthy struct {
	f        *field
	stop     context.CancelFunc
	wg       sync.WaitGroup
	sessions []*healthySession
}

type healthySession struct {
	path    string
	timeout time.Duration
	writes  bool // slowly, beside its heartbeats
	conn    *conn

	expired, lost atomic.Int32
	late          atomic.Bool // it didn't send in time, which is nobody else's fault
}

const (
	healthyOfKind = 10
	writePause    = time.Second
)

// healthyTimeouts: the least that a server allows, and a usual one.
var healthyTimeouts = []time.Duration{4 * time.Second, 10 * time.Second}

func beginHealthy(t *testing.T, addr string) *healthy {
	t.Helper()
	ctx, stop := context.WithCancel(context.Background())
	h := &healthy{f: newHonestField(ctx, 3, []string{addr}), stop: stop}
	t.Cleanup(func() {
		stop()
		h.wg.Wait()
	})
	for _, timeout := range healthyTimeouts {
		for i := range 2 * healthyOfKind {
			s := &healthySession{
				path: fmt.Sprintf("/healthy-%d-%d", timeout.Milliseconds(), i), timeout: timeout, writes: i%2 == 1,
			}
			var err error
			if s.conn, err = h.f.connect(addr, int32(timeout.Milliseconds())); err != nil {
				t.Fatal(err)
			}
			if err := s.conn.create(s.path, nil, jute.ModeEphemeral); err != nil {
				t.Fatal(err)
			}
			h.sessions = append(h.sessions, s)
			h.wg.Go(func() { h.live(s) })
		}
	}
	return h
}

func (h *healthy) count() int { return len(h.sessions) }

// live keeps a session alive until the test is over or it has expired.
func (h *healthy) live(s *healthySession) {
	for sent := time.Now(); ; {
		sent = h.talk(s, sent)
		s.conn.close()
		if h.f.over() {
			return
		}
		s.lost.Add(1)
		q := newSession(int32(s.timeout.Milliseconds()))
		q.SessionID, q.Passwd = s.conn.session, s.conn.passwd
		for {
			c, err := h.f.resume(h.f.addr(0), q)
			if err == nil {
				s.conn = c
				break
			}
			if errors.Is(err, errRefused) {
				s.expired.Add(1)
				return
			}
			if h.f.over() {
				return
			}
		}
	}
}

// talk sends heartbeats, and maybe writes, until the connection ends, and returns when it
// sent last.
func (h *healthy) talk(s *healthySession, sent time.Time) time.Time {
	c, ended := s.conn, make(chan struct{})
	c.unpaced = true
	go func() {
		defer close(ended)
		for {
			if _, _, err := c.receive(time.Minute); err != nil {
				return
			}
		}
	}()
	pause := s.timeout / 3
	if s.writes {
		pause = writePause
	}
	tick := time.NewTicker(pause)
	defer tick.Stop()
	for {
		if time.Since(sent) > s.timeout/2 {
			s.late.Store(true)
		}
		err := c.send(jute.OpPing, nil)
		if err == nil && s.writes {
			err = c.send(jute.OpSetData, setRecord(s.path, "alive"))
		}
		if err != nil {
			return sent
		}
		sent = time.Now()
		select {
		case <-ended:
			return sent
		case <-h.f.ctx.Done():
			c.close()
			<-ended
			return sent
		case <-tick.C:
		}
	}
}

// end ends them, and returns how many of those that were never late have expired, how many
// connections these have lost, and how many were late. The servers' word on it is that of the
// ephemeral znodes.
func (h *healthy) end(t *testing.T) (expired, lost, late int) {
	t.Helper()
	c, err := h.f.connect(h.f.addr(0), 20_000)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	var gone []string
	for _, s := range h.sessions {
		code, _, err := c.call(jute.OpExists, readRecord(s.path))
		if err != nil {
			t.Fatal(err)
		}
		switch {
		case s.late.Load():
			late++
		case code == jute.ErrNoNode || s.expired.Load() > 0:
			expired++
			gone = append(gone, s.path)
		default:
			lost += int(s.lost.Load())
		}
	}
	if len(gone) > 0 {
		t.Logf("expired: %s", strings.Join(gone, " "))
	}
	h.stop()
	h.wg.Wait()
	return expired, lost, late
}
