package traffic_test

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/proof/check"
	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/proof/traffic"
	"github.com/zooid-project/zooid/zktest"
)

// TestTrafficIsRecordedWhole: the load and the recipes on a server, with dropped connections, make a valid history that
// isn't nearly empty.
func TestTrafficIsRecordedWhole(t *testing.T) {
	t.Parallel()
	addrs := strings.Split(zktest.Start(t, zktest.Options{}).Connect(), ",")
	var file bytes.Buffer
	j := history.NewJournal(&file)
	load := traffic.Load{Addrs: addrs, Journal: j, Root: "/load", Clients: 4, Requests: 3000, DropEvery: 200, Seed: 1}
	if err := load.Run(); err != nil {
		t.Fatal(err)
	}
	recipes := traffic.Recipes{Addrs: addrs, Journal: j, Root: "/recipes", Clients: 3, Rounds: 5, DropEvery: 4}
	if err := recipes.Run(); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	r := check.Check(h, check.Options{})
	if !r.OK() || r.Answered < 2500 || r.Notifications < 10 || r.Conns < 10 {
		var text strings.Builder
		r.Print(&text, h)
		t.Errorf("the checker's report:\n%s", &text)
	}
}

// TestDumpTellsAll: a dump has every znode of a server, and the checker notices a missing one.
func TestDumpTellsAll(t *testing.T) {
	t.Parallel()
	addrs := strings.Split(zktest.Start(t, zktest.Options{SuperDigest: "super:D/InIHSb7yEEbrWz8b9l71RjZJU="}).Connect(),
		",")
	var file bytes.Buffer
	j := history.NewJournal(&file)
	load := traffic.Load{Addrs: addrs, Journal: j, Root: "/load", Clients: 1, Requests: 200, Seed: 2}
	if err := load.Run(); err != nil {
		t.Fatal(err)
	}
	if err := traffic.Dump(addrs[0], 1, traffic.ClientOptions{Digest: "super:test"}, j); err != nil {
		t.Fatal(err)
	}
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := history.Read(&file)
	if err != nil {
		t.Fatal(err)
	}
	if r := check.Check(h, check.Options{}); !r.OK() {
		t.Fatalf("violations %v", r.Violations)
	}
	h.Events = h.Events[:len(h.Events)-1] // the dump's last znode
	if r := check.Check(h, check.Options{}); !slices.Equal(r.Rules(), []check.Rule{check.Durability}) {
		t.Errorf("a lost znode violates %v", r.Rules())
	}
}

// TestPaced: a load and recipes with a pace and without an end keep the pace, and end when they are told to.
func TestPaced(t *testing.T) {
	t.Parallel()
	addrs := strings.Split(zktest.Start(t, zktest.Options{}).Connect(), ",")
	var file bytes.Buffer
	j := history.NewJournal(&file)
	load := traffic.Load{
		Addrs: addrs, Journal: j, Root: "/load", Clients: 2, Requests: 1 << 30, Duration: time.Hour, PerSecond: 50, Seed: 3,
	}
	recipes := traffic.Recipes{
		Addrs: addrs, Journal: j, Root: "/recipes", Clients: 2, Rounds: 1 << 30, Duration: time.Hour, PerSecond: 20,
	}
	began, ended := time.Now(), make(chan error, 2)
	go func() { ended <- load.Run() }()
	go func() { ended <- recipes.Run() }()
	for load.Sent() < 20 {
		time.Sleep(10 * time.Millisecond)
	}
	load.End()
	recipes.End()
	for range 2 {
		if err := <-ended; err != nil {
			t.Error(err)
		}
	}
	if most := int(2*50*time.Since(began).Seconds()) + 4; load.Sent() > most {
		t.Errorf("%d requests in %v; want at most %d", load.Sent(), time.Since(began), most)
	}
}
