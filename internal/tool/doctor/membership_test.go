package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/storage"
)

// TestMembership: what is said of servers that are to vote and have no vote, and of lineages that differ.
func TestMembership(t *testing.T) {
	t.Parallel()
	tells := func(lineage, voters, named, staged string) string {
		return fmt.Sprintf("zk_server_state\tleader\nzk_zooid_lineage\t%s\nzk_zooid_voters\t%s\nzk_zooid_named_voters\t%s\nzk_zooid_staged_voters\t%s\n",
			lineage, voters, named, staged)
	}
	const ours = "00000000000000aa"
	for name, c := range map[string]struct {
		leader  string // the answer of server 2 to mntr
		own     string // of server 1, which runs, to srvr
		fault   bool
		finding string // "" for none
		do      string
	}{
		"well": {tells(ours, "1,2,3", "1,2,3", "none"), "", false, "", ""},
		"not named": {
			tells(ours, "2,3", "2,3", "none"), "", false,
			"the server lines name voters 1, 2, 3, but the membership in force, which counts, names 2, 3", "reconfig",
		},
		"recovered": {
			tells(ours, "2", "1,2,3", "none"), "", false, "server 1 is named as a voter, but its vote doesn't count: the votes of 2 do",
			"start it with an empty data directory",
		},
		"growing": {
			tells(ours, "2", "none", "1,2,3"), "", false, "voters 1, 2, 3 are asked for, the votes of 2 count",
			"correct it in zoo.cfg and restart this server",
		},
		"added before it runs": {
			tells(ours, "1,2,3,4", "1,2,3", "none") + "zk_zooid_unheard_voters\t4\n", "", false,
			"server 4 has a vote, but the current leader has never heard from it", "start it",
		},
		"old disk": {
			tells(ours, "1,2,3", "1,2,3", "none") + "zk_zooid_lost_entry\t39\n", "", true,
			"server 2 has acknowledged log entries up to 39 but lacks them", "recover -set-aside",
		},
		"rules": {
			tells(ours, "1,2,3", "1,2,3", "none") + "zk_zooid_rules_waiting\tteam: here glob, server 3 no rule\n", "", false,
			`server 2 says "team: here glob, server 3 no rule"`, "same authProvider lines",
		},
		"another lineage": {
			tells("00000000000000bb", "1,2,3", "1,2,3", "none"), "", true,
			"different lineages, which never mix: 00000000000000aa here; 00000000000000bb on server 2", "zooid recover -set-aside",
		},
		"another lineage, by what it has told": {
			tells(ours, "2", "1,2,3", "none") + "zk_zooid_foreign_servers\tx,3=00000000000000bb,4=\n", "", true,
			"different lineages, which never mix: 00000000000000aa here, on server 2; 00000000000000bb on server 3",
			"zooid recover -set-aside",
		},
		"waits": {
			"", "This ZooKeeper instance is not currently serving requests\n", false, "this server runs but serves nobody",
			"whether it waits for others",
		},
		"others serve": {
			tells(ours, "1,2,3", "1,2,3", "none"), "This ZooKeeper instance is not currently serving requests\n", false,
			"this server runs but serves nobody", "whether they take its secret",
		},
		"belongs to none": {
			"zk_zooid_waits_for\tserver 3 held data\n", "", true,
			"server 2 belongs to no ensemble yet, and waits: server 3 held data", "follow its message; its log has the same one",
		},
		"standalone": {
			"", "Zookeeper version: 3.9.5-x, built on 2026-01-01\nMode: standalone\nNode count: 7\n", true,
			"this server serves clients at h1:2181 alone, without the server lines", "give it the server lines",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := healthy(t, false)
			cfg, err := config.Load(s.file, nil)
			if err != nil {
				t.Fatal(err)
			}
			dir, err := storage.Open(storage.Options{Dir: cfg.Storage.DataDir, LogDir: cfg.Storage.DataLogDir, ClusterID: 0xaa})
			if err != nil {
				t.Fatal(err)
			}
			if err := dir.Close(); err != nil {
				t.Fatal(err)
			}
			s.world.Running = func(...string) bool { return true }
			s.serves("h1:2181", "0s").serves("h3:2181", "0s").serves("h2:2181", "0s")
			if c.leader != "" {
				s.said["h2:2181 mntr"] = c.leader
			}
			if c.own != "" {
				s.said["h1:2181 srvr"] = c.own
			}
			r := Examine(&s.world, s.file, true)
			var found []string
			for _, f := range r.Findings {
				if f.Check != "membership" {
					continue
				}
				found = append(found, f.What)
				if c.finding != "" && strings.Contains(f.What, c.finding) && strings.Contains(f.Do, c.do) &&
					(f.Level == Fault) == c.fault {
					return
				}
			}
			if c.finding != "" || len(found) > 0 {
				files, _ := os.ReadDir(filepath.Join(s.dir, "data"))
				t.Errorf("found %q, want %q; the data directory has %v", found, c.finding, files)
			}
			if r.Lineage != ours {
				t.Errorf("the lineage is %q", r.Lineage)
			}
		})
	}
}

// TestWaitingServer: a server that belongs to no ensemble yet is one fault with one advice, and isn't called stopped.
func TestWaitingServer(t *testing.T) {
	t.Parallel()
	s := healthy(t, false)
	s.serves("h2:2181", "0s").serves("h3:2181", "0s")
	s.said["h1:2181 srvr"] = "This ZooKeeper instance is not currently serving requests\n"
	s.said["h1:2181 mntr"] = "zk_zooid_waits_for\tserver 3 held data\n"
	s.world.Running = func(...string) bool { return false }
	s.world.Listen = func(string) error { return syscall.EADDRINUSE }
	var b strings.Builder
	r := Examine(&s.world, s.file, true)
	if err := r.print(&b); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(b.String(), "(running, without an ensemble): 1 fault,") ||
		!strings.Contains(b.String(), "do: follow its message; if the others serve without it, run 'zooid allow-join 1") {
		t.Errorf("the examination of a server that waits:\n%s", b.String())
	}
}
