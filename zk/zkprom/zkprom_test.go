//go:build unix

package zkprom

import (
	"fmt"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// TestMetrics has what two clients do counted once, by one Collector.
func TestMetrics(t *testing.T) {
	servers := zktest.Start(t, zktest.Options{})
	metrics := New(Options{Labels: prometheus.Labels{"ensemble": "test"}})
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(metrics)
	opt := zk.Options{Hooks: []zk.Hooks{metrics.Hooks()}, SessionTimeout: 20 * time.Second}
	c, err := zk.Open(t.Context(), servers.Connect(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	other, err := zk.Open(t.Context(), servers.Connect(), opt)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	expect := func(what string, c prometheus.Collector, want float64) {
		t.Helper()
		if got := testutil.ToFloat64(c); got != want {
			t.Errorf("%s is %v, want %v", what, got, want)
		}
	}
	c.Get(t.Context(), "/") // their replies come after the connections were told
	other.Get(t.Context(), "/")
	expect("connections", metrics.clients, 2)
	expect("state connected", metrics.changes.WithLabelValues("connected"), 2)
	expect("attempts", metrics.attempts.WithLabelValues("success"), 2)

	ctx := t.Context()
	if _, err := c.Create(ctx, "/a", make([]byte, 1000), zk.ModePersistent, zk.OpenACL()); err != nil {
		t.Fatal(err)
	}
	c.Get(ctx, "/a")
	other.Get(ctx, "/a")
	other.Get(ctx, "/none")
	other.Multi(ctx, zk.CheckOp("/a", 7))
	expect("getData OK", metrics.requests.WithLabelValues("getData", "OK"), 4)
	expect("getData NoNode", metrics.requests.WithLabelValues("getData", "NoNode"), 1)
	expect("multi BadVersion", metrics.requests.WithLabelValues("multi", "BadVersion"), 1)
	expect("retries", metrics.retries.WithLabelValues("getData"), 0)
	if n := testutil.ToFloat64(metrics.sent.WithLabelValues("create")); n < 1000 || n > 1100 {
		t.Errorf("a create of 1000 bytes sent %v", n)
	}
	if n := testutil.ToFloat64(metrics.received.WithLabelValues("getData")); n < 2000 || n > 2500 {
		t.Errorf("two reads of 1000 bytes received %v", n)
	}
	w, err := c.AddWatch(ctx, "/a", zk.AddWatchPersistent)
	if err != nil {
		t.Fatal(err)
	}
	other.Set(ctx, "/a", nil, zk.AnyVersion)
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	c.Get(ctx, "/a") // its reply comes after the notification was counted
	expect("notifications", metrics.events.WithLabelValues("NodeDataChanged"), 1)

	// However many paths there are, the series are the same.
	before := testutil.CollectAndCount(metrics)
	for i := range 1000 {
		c.Get(ctx, fmt.Sprintf("/none-%d", i))
	}
	if after := testutil.CollectAndCount(metrics); after != before {
		t.Errorf("1000 paths made %d series of %d", after, before)
	}
	if problems, err := testutil.GatherAndLint(registry); err != nil || len(problems) > 0 {
		t.Errorf("%v, %v", problems, err)
	}
	c.Close()
	other.Close()
	expect("connections", metrics.clients, 0)
	expect("state closed", metrics.changes.WithLabelValues("closed"), 2)
}

// TestEveryState gives each state its series, and the gauge never counts a client twice.
func TestEveryState(t *testing.T) {
	metrics := New(Options{})
	state := metrics.Hooks().State
	last := zk.StateConnecting
	for _, next := range []zk.State{zk.StateConnected, zk.StateConnecting, zk.StateConnectedReadOnly, zk.StateConnected,
		zk.StateConnecting, zk.StateAuthFailed} {
		state(last, zk.StateChange{State: next})
		last = next
		want := 0.0
		if next == zk.StateConnected || next == zk.StateConnectedReadOnly {
			want = 1
		}
		if got := testutil.ToFloat64(metrics.clients); got != want {
			t.Errorf("connections are %v in state %v", got, next)
		}
	}
	for _, name := range []string{"connected", "connecting", "connected_read_only", "authentication_failed"} {
		if testutil.ToFloat64(metrics.changes.WithLabelValues(name)) == 0 {
			t.Errorf("no change to %s is counted", name)
		}
	}
}

// TestBucketsInOrder: a mistake in the options shows when the program starts, not at the first request.
func TestBucketsInOrder(t *testing.T) {
	t.Parallel()
	defer func() {
		if recover() == nil {
			t.Error("buckets in another order are taken")
		}
	}()
	New(Options{Buckets: []float64{2, 1}})
}
