package moving

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/follow"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/zk"
)

// TestFollowReconfig: a follower goes on under load while a server is removed and added again, and then the leader.
func TestFollowReconfig(t *testing.T) {
	need(t)
	program := zooid(t)
	for i, version := range tried([]string{"3.8.4", "3.9.5"}, "3.8.4") {
		t.Run(version, func(t *testing.T) {
			e := startServers(t, version, 3, "reconfigEnabled=true\n", "-Dzookeeper.commitLogCount=100000")
			l := startLoad(e.connect(), *firstSeed+uint64(i), true)
			defer l.end()
			dir := filepath.Join(t.TempDir(), "copy")
			f, stop := startFollower(t, e, dir)
			before := caughtUp(t, e, f)
			lines := strings.Fields(e.awaitConfig())
			leader := e.leader()
			for _, removed := range []int{(leader + 1) % 3, leader} {
				reconfigured(t, e, f, zk.Reconfig{Leaving: []string{fmt.Sprint(removed + 1)}})
				caughtUp(t, e, f)
				at := slices.IndexFunc(lines,
					func(line string) bool { return strings.HasPrefix(line, fmt.Sprintf("server.%d=", removed+1)) })
				joining, _, _ := strings.Cut(lines[at], ";")
				reconfigured(t, e, f, zk.Reconfig{Joining: []string{joining + ";" + e.servers[removed].addr}})
				caughtUp(t, e, f)
			}
			s := compared(t, f, before.Compared+10)
			t.Logf("%+v", s)
			if s.Snapshots > 1 {
				t.Errorf("before %+v; after %+v", before, s)
			}
			if s.Elections <= before.Elections {
				t.Error("the leader was removed, and no other one was followed")
			}
			l.end()
			stop()
			runFollower(t, program, e, dir)
		})
	}
}

// reconfigured changes an ensemble, and waits until its follower knows.
func reconfigured(t *testing.T, e *ensemble, f *follow.Follower, change zk.Reconfig) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	var text []byte
	for {
		c := open(t, &server{addr: e.connect()}, zk.Options{})
		var err error
		text, _, err = c.Reconfig(ctx, change)
		c.Close()
		if err == nil {
			break
		}
		t.Logf("%+v: %v", change, err) // the connection is lost if the leader is removed, or the ensemble is electing still
		if ctx.Err() != nil {
			t.FailNow()
		}
		time.Sleep(500 * time.Millisecond)
	}
	members, version, err := learner.ParseConfig(string(text))
	if err != nil {
		t.Fatal(err)
	}
	for f.Ensemble().Version != version {
		if ctx.Err() != nil {
			t.Fatalf("the follower knows %+v, %+v; want\n%s", f.Ensemble(), f.Status(), text)
		}
		time.Sleep(20 * time.Millisecond)
	}
	ids := func(all []learner.Member) (ids []int64) {
		for _, m := range all {
			ids = append(ids, m.ID)
		}
		return ids
	}
	if have := f.Ensemble().Members; !slices.Equal(ids(have), ids(members)) {
		t.Errorf("the follower knows the servers %v; want %v", ids(have), ids(members))
	}
	t.Logf("%+v: the servers are %v now, version %x", change, ids(members), version)
}
