package status

import (
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/freeport"
)

// TestStatusByMembership: whose votes count is what the leader says, and not what the file's server lines say.
func TestStatusByMembership(t *testing.T) {
	t.Parallel()
	const idle = "This ZooKeeper instance is not currently serving requests\n"
	type server struct{ srvr, mntr string }
	votes := func(lineage, voters, named, staged string) string {
		return fmt.Sprintf("zk_quorum_size\t%d\nzk_zooid_lineage\t%s\nzk_zooid_voters\t%s\nzk_zooid_named_voters\t%s\nzk_zooid_staged_voters\t%s\n",
			strings.Count(voters, ",")+1, lineage, voters, named, staged)
	}
	lead, follow := srvr("leader", 7<<32|20), srvr("follower", 7<<32|20)
	two := votes("bb", "1,2", "1,2,3", "none")
	three := votes("aa", "1,2,3", "1,2,3", "none")
	for name, c := range map[string]struct {
		servers []server // that the file names; no text is not there
		code    int
		want    []string
	}{
		"well": {
			[]server{{lead, three}, {follow, three}, {follow, three}}, exitWell,
			[]string{"ok: ", "3 of 3 voters serve", "lineage aa, the votes of 1, 2, 3 count"},
		},
		"before the reconfig": {
			[]server{{lead, three}, {follow, three}, {follow, three}, {follow, three}, {"", ""}}, exitDegraded,
			[]string{
				"3 of 3 voters serve", "\n4 ", "it has no vote: the membership in force doesn't name it; reconfig -add gives it one",
			},
		},
		"one of those named is gone before the reconfig": {
			[]server{{lead, three}, {"", ""}, {"", ""}, {follow, three}, {follow, three}}, exitUnknown,
			[]string{"no quorum: ", "1 of 3 voters serve"},
		},
		"after recover": {
			[]server{{lead, votes("bb", "1", "1,2,3", "none")}, {"", ""}, {"", ""}}, exitDegraded,
			[]string{"1 of 1 voters serve", "it has no vote: the others continue without it", "lineage bb"},
		},
		"after recover, by a survivor": {
			[]server{{lead, votes("bb", "1", "1,2,3", "none")}, {idle, ""}, {srvr("follower", 3), three}}, exitDegraded,
			[]string{"1 of 1 voters serve", "it waits to join", "it belongs to another ensemble, of lineage aa"},
		},
		"recovered twice, asked on one": {
			[]server{{lead, votes("aa", "1", "1,2,3", "none") + "zk_zooid_foreign_servers\tx,3=bb,4=\n"}, {"", ""}, {"", ""}},
			exitDegraded,
			[]string{"1 of 1 voters serve", "it belongs to another ensemble, of lineage bb,", "zooid recover -set-aside"},
		},
		"recovered twice, both asked": {
			[]server{
				{lead, votes("aa", "1", "1,2,3", "none") + "zk_znode_count\t41\nzk_zooid_foreign_servers\t2=bb\n"},
				{lead, votes("bb", "2", "1,2,3", "none") + "zk_znode_count\t5\nzk_zooid_foreign_servers\t1=aa\n"}, {"", ""},
			}, exitDegraded,
			[]string{
				"server 1 (", "1 of 1 voters serve", "it belongs to another ensemble, of lineage bb,",
				"(it has 5 znodes up to zxid 0x7", ", this one 41 znodes up to zxid 0x7",
			},
		},
		"recovered twice, asked on the one of the older epoch": {
			[]server{
				{srvr("leader", 1<<32), "zk_zooid_foreign_servers\t2=bb\n"}, {srvr("leader", 2<<32), ""}, {"", ""},
			}, exitUnknown,
			[]string{"it belongs to another ensemble, of lineage bb,"},
		},
		"added before it runs": {
			[]server{
				{lead, votes("aa", "1,2,3,4", "1,2,3,4", "none") + "zk_zooid_unheard_voters\t4\n"}, {follow, three},
				{follow, three}, {"", ""},
			}, exitDegraded,
			[]string{"3 of 4 voters serve", "\n4 ", "it has a vote, but server"},
		},
		"catches up": {
			[]server{{lead, two}, {follow, two}, {follow, two}},
			exitDegraded, []string{"it has no vote yet: it gets one once it has caught up"},
		},
		"grows": {
			[]server{{lead, votes("aa", "1", "none", "1,2,3")}, {idle, ""}, {"", ""}}, exitDegraded,
			[]string{"1 of 1 voters serve", "the membership that names it takes effect once a majority of its voters has caught up"},
		},
		"an old disk": {
			[]server{{lead, three}, {follow, three}, {srvr("follower", 7<<32|3), three + "zk_zooid_lost_entry\t39\n"}},
			exitDegraded,
			[]string{"3 of 3 voters serve", "an older copy of its disk was put back: stop it, run zooid recover -set-aside"},
		},
		"rules wait": {
			[]server{
				{lead, three + "zk_zooid_rules_waiting\tteam: here glob, server 2 no rule\n"}, {follow, three}, {follow, three},
			},
			exitDegraded, []string{"3 of 3 voters serve", "same rule (ZD-3140): team: here glob, server 2 no rule"},
		},
		"another one votes": {
			[]server{{lead, three}, {follow, three}}, exitWell, []string{"server 3 votes, but the file doesn't name it"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var rows []*serverRow
			for i, s := range c.servers {
				row := &serverRow{ID: int64(i + 1), Voter: true, Address: freeport.Address(t)}
				if s.srvr != "" {
					row.Address = answering(t, map[string]string{"srvr": s.srvr, "mntr": s.mntr})
				}
				rows = append(rows, row)
			}
			o, code := look(rows, nil, time.Millisecond)
			var b strings.Builder
			if err := o.printTable(&b, false); err != nil || code != c.code {
				t.Errorf("code %d, %v; want %d\n%s", code, err, c.code, b.String())
			}
			for _, part := range c.want {
				if !strings.Contains(b.String(), part) && !strings.Contains(unfolded(b.String()), part) {
					t.Errorf("no %q in\n%s", part, b.String())
				}
			}
		})
	}
}

// unfolded returns a text without its line breaks, and with single spaces.
func unfolded(text string) string { return strings.Join(strings.Fields(text), " ") }

// TestLearnsAddresses: of servers whose lines have no client port, and that share a host, those that can be asked tell
// where the others take clients. What they tell of a server that listens on its own loopback is no way to reach it.
func TestLearnsAddresses(t *testing.T) {
	t.Parallel()
	words := func(id, mode, clients string) map[string]string {
		return map[string]string{
			"srvr": srvr(mode, 1), "conf": "serverId=" + id + "\n", "dirs": "datadir_size: 1\n",
			"mntr": "zk_quorum_size\t3\nzk_zooid_voters\t1,2,3\nzk_zooid_clients\t" + clients + "\n",
		}
	}
	lead, follower := answering(t, words("2", "leader", "none")), answering(t, words("3", "follower", "none"))
	known := answering(t, words("1", "follower", "2="+lead+",3="+follower+",x=,4,5=nowhere"))
	_, port, _ := net.SplitHostPort(known)
	for host, want := range map[string]string{
		"127.0.0.1": "ok: server 2 (" + lead + ") leads", "192.0.2.1": "its client port is not in the file",
	} {
		rows := memberRows(config.Members{Servers: []config.Member{
			{ID: 1, Addrs: []config.PeerAddr{{Host: "127.0.0.1"}}}, {ID: 2, Addrs: []config.PeerAddr{{Host: host}}},
			{ID: 3, Addrs: []config.PeerAddr{{Host: host}}},
		}}, config.HostPort{Port: -1}, config.HostPort{Port: -1}, 1)
		rows[0].Address = known
		if host != "127.0.0.1" {
			rows[0].Address = net.JoinHostPort("localhost.", port)
		}
		o, _ := look(rows, nil, time.Millisecond)
		var b strings.Builder
		if err := o.printTable(&b, false); err != nil || !strings.Contains(b.String(), want) {
			t.Errorf("%s: %v, no %q in\n%s", host, err, want, b.String())
		}
	}
}

// TestAsksWhomNobodyNamed: of one server named by its address, status finds the others. It doesn't while a server
// that is named gives no answer, as that may be one of them.
func TestAsksWhomNobodyNamed(t *testing.T) {
	t.Parallel()
	words := func(id, mode, clients string) map[string]string {
		return map[string]string{
			"srvr": srvr(mode, 1), "conf": "serverId=" + id + "\n", "dirs": "datadir_size: 1\n",
			"mntr": "zk_quorum_size\t3\nzk_zooid_voters\t1,2,3\nzk_zooid_clients\t" + clients + "\n",
		}
	}
	down := freeport.Address(t)
	lead := answering(t, words("2", "leader", "3="+down))
	known := answering(t, words("1", "follower", "2="+lead+",3="+down))
	_, port, _ := net.SplitHostPort(known)
	for connect, want := range map[string][]string{
		known:               {"2 of 3 voters serve", "\n3 ", "no answer", "server 2 (" + lead + ") leads"},
		known + "," + lead:  {"2 of 3 voters serve", "\n3 ", "no answer"},
		known + "," + down:  {"1 of 3 voters couldn't be asked"},
		"localhost:" + port: {"2 of 3 voters serve"},
	} {
		rows, err := addressRows(connect)
		if err != nil {
			t.Fatal(err)
		}
		o, _ := look(rows, nil, time.Millisecond)
		var b strings.Builder
		if err := o.printTable(&b, false); err != nil {
			t.Fatal(err)
		}
		for _, part := range want {
			if !strings.Contains(b.String(), part) {
				t.Errorf("%s: no %q in\n%s", connect, part, b.String())
			}
		}
	}
}
