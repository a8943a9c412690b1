package fourletter

import (
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
)

// TestLayoutsOfEnsembles prints what a server alone never has.
func TestLayoutsOfEnsembles(t *testing.T) {
	t.Parallel()
	at := time.Date(2026, 7, 1, 12, 0, 2, 0, time.UTC)
	st := Status{
		Version: "V", View: replica.View{
			Latency: replica.Latency{Max: 5, Avg: 0.7143}, Zxid: 0x100000003, Nodes: 5, Proposals: replica.Sizes{
				Last: 48, Min: 40, Max: 50,
			},
		},
	}
	for _, c := range []struct {
		print func(a *wordReply)
		want  string
	}{
		{func(a *wordReply) { st.Mode = ModeLeader; a.server(st, nil) }, "Zookeeper version: V\nLatency min/avg/max: 0/0.7143/5\nReceived: 0\nSent: 0\nConnections: 0\nOutstanding: 0\nZxid: 0x100000003\nMode: leader\nNode count: 5\nProposal sizes last/min/max: 48/40/50\n"},
		{func(a *wordReply) { st.Mode, st.Drained = ModeObserver, true; a.server(st, nil); st.Drained = false }, "Zookeeper version: V\nDRAINED; taking no new clients\nLatency min/avg/max: 0/0.7143/5\nReceived: 0\nSent: 0\nConnections: 0\nOutstanding: 0\nZxid: 0x100000003\nMode: observer\nNode count: 5\n"},
		{func(a *wordReply) { st.Mode = ModeReadOnly; a.server(st, []replica.Connection{}) }, "Zookeeper version: V\nREAD-ONLY mode; serving only read-only clients\nClients:\n\nLatency min/avg/max: 0/0.7143/5\nReceived: 0\nSent: 0\nConnections: 0\nOutstanding: 0\nZxid: 0x100000003\nMode: read-only\nNode count: 5\n"},
		{func(a *wordReply) { a.readOnly(Status{Mode: ModeReadOnly}) }, "ro"},
		{func(a *wordReply) { a.readOnly(Status{Mode: ModeObserver}) }, "rw"},
		{func(a *wordReply) {
			a.learnerSessions([]replica.SessionExpiry{{Session: 0x1000abc12340000, Timeout: 30000, Expires: at}})
		}, "Global Sessions(1):\n0x1000abc12340000\t30000ms\n"},
		{func(a *wordReply) {
			times := []time.Time{at, at, at.Add(2 * time.Second)}
			a.expirySets("Session", times, func(i int) string { return fmt.Sprint(i) })
		}, "Session Sets (2)/(3):\n2 expire at Wed Jul 01 12:00:02 UTC 2026:\n\t0\n\t1\n1 expire at Wed Jul 01 12:00:04 UTC 2026:\n\t2\n"},
		{func(a *wordReply) {
			a.connections([]replica.Connection{{Remote: "[0:0:0:0:0:0:0:1]:4711", Interest: 5, Outstanding: 3}}, false)
		}, " /[0:0:0:0:0:0:0:1]:4711[5](queued=3,recved=0,sent=0)\n\n"},
	} {
		var a wordReply
		c.print(&a)
		if got := string(a.text()); got != c.want {
			t.Errorf("got\n%swant\n%s", got, c.want)
		}
	}
}
