//go:build unix

package shadow

import (
	"bytes"
	"context"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/check"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// A running is a proxy of a test.
type running struct {
	*Proxy
	addr string
	stop func()

	mu    sync.Mutex
	found []*Difference
	said  []string
}

// start runs a proxy between two servers until the test ends.
func start(t *testing.T, primary, shadow string, adjust ...func(*Options)) *running {
	t.Helper()
	r := &running{}
	o := Options{Primary: strings.Split(primary, ","), Shadow: strings.Split(shadow, ","),
		Tell: func(d *Difference) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.found = append(r.found, d)
		},
		Say: func(text string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.said = append(r.said, text)
		}}
	for _, f := range adjust {
		f(&o)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r.Proxy, r.addr = New(o), l.Addr().String()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- r.Run(ctx, ctx, l) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
	return r
}

// patient waits until what holds.
func patient(t *testing.T, what string, holds func() bool) {
	t.Helper()
	const bound = 3 * time.Minute
	for end := time.Now().Add(bound); !holds(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("after %v: not %s", bound, what)
		}
	}
}

// played waits until everything has been played, and returns the counts.
func (r *running) played(t *testing.T) Counts {
	t.Helper()
	patient(t, "everything played", func() bool { c := r.Counts(); return c.Queued == 0 })
	return r.Counts()
}

// differences returns what was told, with and without a doubt.
func (r *running) differences() (sure, unsure []*Difference) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, d := range r.found {
		if d.Doubt == "" {
			sure = append(sure, d)
		} else {
			unsure = append(unsure, d)
		}
	}
	return sure, unsure
}

// report logs what was found if the test has failed.
func (r *running) report(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	c := r.Counts()
	t.Logf("%s", c.String())
	r.mu.Lock()
	defer r.mu.Unlock()
	for i, d := range r.found {
		if i < 30 {
			t.Log(d)
		}
	}
	t.Log(strings.Join(r.said, "\n"))
}

func client(t *testing.T, address string) *zk.Client {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, address, zk.Options{SessionTimeout: zktest.MaxSessionTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestEqualServers: many clients at once, with random requests of all kinds, find the same at the shadow: no reply and
// no notification differs, and nothing is left out.
func TestEqualServers(t *testing.T) {
	t.Parallel()
	r, c := loaded(t, 0)
	sum := c.Sum()
	if sum.Different+sum.Unsure > 0 || !c.Whole() {
		t.Errorf("%d differ, %d are unsure, whole %v", sum.Different, sum.Unsure, c.Whole())
	}
	for op, least := range map[string]int{"watch": 20, "multi": 20, "closeSession": 10} {
		if o := c.Ops[op]; o == nil || o.Played < least {
			t.Errorf("too little was compared of %s", op)
		}
	}
	r.report(t)
}

// TestBrokenConnections: connections break in the middle of requests, and sessions go on with new ones, with the
// watches that they had. What the primary did of a request that it couldn't answer isn't known; but for that nothing
// differs.
func TestBrokenConnections(t *testing.T) {
	t.Parallel()
	r, c := loaded(t, 150)
	if sum := c.Sum(); sum.Different > 0 || len(c.Ended) > 0 || c.Unanswered == 0 && sum.Unsure > 0 {
		t.Errorf("%d differ, %d are unsure", sum.Different, sum.Unsure)
	}
	if c.Resumed < 5 || c.Ops["setWatches"] == nil || c.Ops["setWatches"].Played == 0 {
		t.Error("too little was compared")
	}
	r.report(t)
}

// loaded runs random requests through a proxy between two servers.
func loaded(t *testing.T, dropEvery int) (*running, Counts) {
	t.Helper()
	primary, shadow := zktest.Start(t, zktest.Options{}), zktest.Start(t, zktest.Options{})
	r := start(t, primary.Connect(), shadow.Connect())
	defer r.report(t)
	requests := 6000
	if testing.Short() {
		requests = 1500
	}
	var file bytes.Buffer
	j := history.NewJournal(&file)
	load := traffic.Load{
		Addrs: []string{r.addr}, Journal: j, Root: "/load", Clients: 12, Requests: requests, DropEvery: dropEvery, Seed: 1,
		Duration: 5 * time.Minute, Timeout: zktest.MaxSessionTimeout, // a busy machine stalls for seconds
	}
	if err := load.Run(); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if result := check.Check(h, check.Options{}); !result.OK() {
		t.Errorf("behind the proxy the clients' history is not in order: %v", result.Rules())
	}
	c := r.played(t)
	if dropEvery == 0 && c.Sum().Played < requests {
		t.Errorf("only %d of %d were compared", c.Sum().Played, requests)
	}
	return r, c
}
