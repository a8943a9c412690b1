package server

import (
	"net"
	"regexp"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/fourletter"
)

// TestWordsByRole: what a leader, a follower and an observer say of their ensemble.
func TestWordsByRole(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	ids := []uint64{1, 2, 101}
	c.lines(ids...)
	var opts []Options
	for _, id := range ids {
		o := c.options(id, ids...)
		o.FourLetterWords = []string{"*"}
		o.Shown = ShownEnsemble{InitLimit: 10, SyncLimit: 5, QuorumPorts: "1|2", ElectionPorts: "3|4"}
		opts = append(opts, o)
	}
	c.openAll(opts)
	for _, id := range ids {
		writes(t, c.clients[id], "/w"+strings.Repeat("x", int(id))) // it serves, and knows the membership
	}
	leaders := 0
	for _, id := range ids {
		word := func(name string) string {
			conn, err := net.Dial("tcp", c.clients[id])
			if err != nil {
				t.Fatal(err)
			}
			return askConn(t, conn, name)
		}
		mode := c.servers[id].Status().Mode
		peerType := map[bool]string{false: "0", true: "1"}[mode == fourletter.ModeObserver]
		tail := "initLimit=10\nsyncLimit=5\nelectionAlg=3\nelectionPort=3|4\nquorumPort=1|2\npeerType=" + peerType + "\nmembership: \n"
		if conf := word("conf"); !strings.Contains(conf, tail) ||
			!regexp.MustCompile(`\n101 127\.0\.0\.1:\d+ observer\nversion=[0-9a-f]+$`).MatchString(conf) {
			t.Errorf("conf of a %s:\n%s", mode, conf)
		}
		var mntr string
		within(func() bool { // as of the last tick
			mntr = word("mntr")
			return strings.Contains(mntr, "zk_quorum_size\t2\n")
		})
		leads := mode == fourletter.ModeLeader
		if leads {
			leaders++
		}
		for _, name := range []string{
			"learners", "synced_followers", "synced_observers", "pending_syncs", "leader_uptime", "last_proposal_size",
		} {
			if strings.Contains(mntr, "zk_"+name+"\t") != leads {
				t.Errorf("mntr of a %s has %s: %v", mode, name, !leads)
			}
		}
		if observes := regexp.MustCompile(`(?m)^zk_observer_master_id\t[12]$`).MatchString(
			mntr); observes != (mode == fourletter.ModeObserver) || !strings.Contains(mntr, "zk_quorum_size\t2\n") {
			t.Errorf("mntr of a %s:\n%s", mode, mntr)
		}
	}
	if leaders != 1 {
		t.Errorf("%d servers lead", leaders)
	}
}

// TestWordsOfAnEnsembleOfOne: a server that is its ensemble's only one (standaloneEnabled=false) leads it, as at
// Apache.
func TestWordsOfAnEnsembleOfOne(t *testing.T) {
	t.Parallel()
	c := newCluster(t)
	c.lines(7)
	o := c.options(7, 7)
	o.FourLetterWords = []string{"*"}
	o.Shown = ShownEnsemble{InitLimit: 10, SyncLimit: 5, QuorumPorts: "1", ElectionPorts: "3"}
	c.openAll([]Options{o})
	writes(t, c.clients[7], "/w")
	word := func(name string) string {
		conn, err := net.Dial("tcp", c.clients[7])
		if err != nil {
			t.Fatal(err)
		}
		return askConn(t, conn, name)
	}
	for name, want := range map[string]string{
		"srvr": `(?m)^Mode: leader$`, "stat": `(?m)^Mode: leader$`, "mntr": "(?m)^zk_server_state\tleader$",
		"conf": `(?s)\nserverId=7\ninitLimit=10\n.*\nelectionPort=3\nquorumPort=1\npeerType=0\nmembership: \n7 .*\nversion=`,
	} {
		if got := word(name); !regexp.MustCompile(want).MatchString(got) {
			t.Errorf("%s doesn't match %s:\n%s", name, want, got)
		}
	}
}
