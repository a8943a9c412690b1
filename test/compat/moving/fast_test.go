package moving

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// fastFor is how long TestFollowFast lasts, and fastWrites how many writes there are in a second meanwhile.
var (
	fastFor    = flag.Duration("moving.fast", 0, "how long TestFollowFast lasts, on a machine that does nothing else")
	fastWrites = flag.Int("moving.writes", 20_000, "writes in a second in TestFollowFast")
)

// The clients of TestFollowFast, and how many steps each has in a second. A step is a pipeline of writes, the fifth of
// which are creates.
const (
	fastClients  = 4
	fastSteps    = 100
	fastAhead    = 400 // unanswered writes of a client; Apache stops reading behind a thousand of all clients
	fastCreates  = 5
	fastPrepared = 2000 // znodes of a client before the begin
)

// TestFollowFast follows a server of Apache's that takes 20,000 writes a second: the copy is never a second behind, and
// equal at the end.
func TestFollowFast(t *testing.T) {
	need(t)
	if *fastFor == 0 {
		t.Skip("give -moving.fast 30s: it is a measurement")
	}
	program := zooid(t)
	e := startServers(t, "3.9.5", 1, "", "-XX:TieredStopAtLevel=4", "-Xmx2g")
	s := followBy(t, program, e.connect(), filepath.Join(t.TempDir(), "copy"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	writers := make([]*fastWriter, fastClients)
	for n := range writers {
		writers[n] = startFast(t, ctx, e.connect(), n)
	}
	evenZxids(e.servers[0], s)
	before := mntr(s, "zk_digests_compared")

	done := make(chan error, fastClients)
	began := time.Now()
	for _, w := range writers {
		go func() { done <- w.run(ctx, began) }()
	}
	worst, looks := int64(0), 0
	for running := fastClients; running > 0; looks++ {
		select {
		case err := <-done:
			if err != nil {
				t.Fatal(err)
			}
			running--
		case <-time.After(20 * time.Millisecond):
		}
		worst = max(worst, mntr(s, "zk_lag_ms"))
	}
	took := time.Since(began)
	evenZxids(e.servers[0], s)
	compared, differing := mntr(s, "zk_digests_compared")-before, mntr(s, "zk_digest_mismatches_count")
	written, late := 0, 0
	for _, w := range writers {
		written, late = written+w.written, late+w.late
	}
	t.Logf("%.0f writes a second for %v, one in %d a create; the copy was at most %d ms behind in %d looks; %d digests equal; %d of %d steps late",
		float64(written)/took.Seconds(), took.Round(time.Second), fastCreates, worst, looks, compared, late,
		fastClients*fastSteps*int(fastFor.Seconds()))
	if asked := float64(*fastWrites) * took.Seconds(); float64(written) < 0.95*asked {
		t.Errorf("only %d writes of %.0f were done", written, asked)
	}
	if compared < int64(written) || differing != 0 {
		t.Errorf("%d writes, %d digests equal, %d differing", written, compared, differing)
	}
	if worst > 1000 {
		t.Errorf("the copy was %d ms behind", worst)
	}
	if out, err := exec.Command(program, "migrate", "compare", "-patience", "1s", "-auth", "digest:super:"+superPassword,
		e.servers[0].addr, s.addr).CombinedOutput(); err != nil {
		t.Errorf("zooid migrate compare: %v\n%s", err, out)
	} else {
		t.Logf("%s", out)
	}
	s.cmd.Process.Signal(os.Interrupt)
	<-s.exited
	if code := s.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d\n%s", code, s.output)
	}
}

// mntr returns a number that a server tells; -1 if it doesn't.
func mntr(s *server, key string) int64 {
	_, after, found := strings.Cut(word(s.addr, "mntr"), key+"\t")
	value, _, _ := strings.Cut(after, "\n")
	n, err := strconv.ParseInt(value, 10, 64)
	if !found || err != nil {
		return -1
	}
	return n
}

// A fastWriter is one of the clients.
type fastWriter struct {
	c       *zk.Client
	root    string
	znodes  int // that it has created
	written int // writes that were answered
	late    int // steps that began late
}

// startFast begins a session and creates the first znodes.
func startFast(t *testing.T, ctx context.Context, connect string, n int) *fastWriter {
	t.Helper()
	c, err := zk.Open(ctx, connect, zk.Options{SessionTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	w := &fastWriter{c: c, root: fmt.Sprintf("/fast%d", n)}
	if _, err := c.Create(ctx, w.root, nil, zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	p := c.Pipeline()
	for w.znodes < fastPrepared {
		created := w.create(ctx, p)
		if w.znodes%fastAhead == 0 {
			if _, err := created.Wait(ctx); err != nil {
				t.Fatal(err)
			}
		}
	}
	return w
}

func (w *fastWriter) create(ctx context.Context, p *zk.Pipeline) zk.Future[zk.Created] {
	w.znodes++
	return p.Create(ctx, fmt.Sprintf("%s/%d", w.root, w.znodes-1), make([]byte, 100), zk.ModePersistent, zk.OpenACL())
}

// run writes its part of *fastWrites in each second.
func (w *fastWriter) run(ctx context.Context, began time.Time) error {
	var wait []func() error
	answered := func(left int) error {
		for len(wait) > left {
			if err := wait[0](); err != nil {
				return err
			}
			wait, w.written = wait[1:], w.written+1
		}
		return nil
	}
	p, data := w.c.Pipeline(), make([]byte, 100)
	for n := 0; time.Since(began) < *fastFor; n++ {
		for i := range *fastWrites / fastSteps / fastClients {
			if i%fastCreates == 0 {
				f := w.create(ctx, p)
				wait = append(wait, func() error { _, err := f.Wait(ctx); return err })
				continue
			}
			at := (w.written*7919 + i) % (w.znodes - fastAhead) // the newest may not be there yet
			f := p.Set(ctx, fmt.Sprintf("%s/%d", w.root, at), data, zk.AnyVersion)
			wait = append(wait, func() error { _, err := f.Wait(ctx); return err })
		}
		if err := answered(fastAhead); err != nil {
			return err
		}
		if next := began.Add(time.Duration(n+1) * time.Second / fastSteps); time.Until(next) > 0 {
			time.Sleep(time.Until(next))
		} else {
			w.late++
		}
	}
	return answered(0)
}
