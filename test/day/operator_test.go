package day

import (
	"os"
	"path/filepath"
	"testing"
)

// repository returns the folder of the module.
func repository(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestOperator is an operator's day on three servers that zooid init -tls has written.
func TestOperator(t *testing.T) {
	p := newPerson(t)
	defer p.ends()
	shell := "zooid cli -profile ensemble "
	ok := step{do: "zooid status 1/zoo.cfg", until: true, most: 10,
		says: []string{"ok: server", "3 of 3 voters serve"}}
	p.types(step{do: "zooid init -tls -dir new 127.0.0.1:2888:3888 127.0.0.1:2889:3889 127.0.0.1:2890:3890", most: 8,
		says: []string{"as the superuser: ZOOID_CONFIG=new/client/profile zooid cli -profile ensemble", "zooid doctor zoo.cfg && zooid server zoo.cfg"}})
	if err := os.Symlink(filepath.Join(p.dir, "new", "client", "profile"), filepath.Join(p.dir, "profile")); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "ZOOID_CONFIG="+filepath.Join(p.dir, "new/client/profile"))
	p.types(
		step{do: "mv new/1 new/2 new/3 ."}, // as onto three machines
		step{do: "zooid doctor -no-disk 1/zoo.cfg", most: 20, says: []string{"(stopped): 0 faults"}},
		step{do: "1& zooid server 1/zoo.cfg"}, step{do: "2& zooid server 2/zoo.cfg"}, step{do: "3& zooid server 3/zoo.cfg"},
		ok,
		step{do: "zooid status -profile ensemble", most: 10, says: []string{"3 of 3 voters serve"}},
		step{do: "zooid doctor -no-disk 1/zoo.cfg", most: 20, says: []string{"(running): 0 faults"}},
		step{do: "zooid top -profile ensemble", most: 4, says: []string{"127.0.0.1:2281", "leader", "follower"}},
		step{do: shell + "create /bad x", code: 1, most: 2,
			says: []string{"name who may use the znode, as in create /bad DATA auth::cdrwa"}},
		step{do: shell + "create /app x auth::cdrwa", most: 1, says: []string{"Created /app"}},

		// A server is killed and comes back.
		step{do: "kill -9 2", most: 0},
		step{do: "zooid status 1/zoo.cfg", until: true, code: 1, most: 12,
			says: []string{"degraded: server", "2 of 3 voters serve", "no answer", "start the servers that don't run"}},
		step{do: "zooid health 2/zoo.cfg", code: 2, most: 2,
			says: []string{"is the server running? zooid doctor 2/zoo.cfg examines it"}},
		step{do: "zooid doctor -no-disk 2/zoo.cfg", most: 20, says: []string{"(stopped): 0 faults"}},
		step{do: shell + "set /app y"},
		step{do: "2& zooid server 2/zoo.cfg"}, ok,

		// A rolling upgrade: each is drained, stopped and started.
		step{do: "zooid drain 3/zoo.cfg", most: 1, says: []string{"drained: another server leads"}},
		step{do: "zooid drain 2/zoo.cfg", code: 1, most: 1,
			says: []string{"refused", "server 3 drains", "zooid drain -undo"}},
		step{do: "zooid status 1/zoo.cfg", code: 1, most: 12,
			says: []string{"it is drained and accepts no new clients; zooid drain -undo or a restart ends that"}},
		step{do: "kill 3", most: 15}, step{do: "3& zooid server 3/zoo.cfg"}, ok,
		step{do: "zooid drain 2/zoo.cfg", until: true, most: 1, says: []string{"drained"}},
		step{do: "kill 2", most: 15}, step{do: "2& zooid server 2/zoo.cfg"}, ok,
		step{do: "zooid drain 1/zoo.cfg", until: true, most: 1, says: []string{"drained"}},
		step{do: "kill 1", most: 15}, step{do: "1& zooid server 1/zoo.cfg"}, ok,
		step{do: "zooid drain -forec 1/zoo.cfg", code: 2, most: 5,
			says: []string{"-forec", "zooid drain -h tells more"}},
		step{do: shell + "get /app", most: 1, says: []string{"y"}},

		// Quotas.
		step{do: shell + "setquota -N 3 /app", most: 1},
		step{do: shell + "create /app/a x auth::cdrwa", says: []string{"Created"}},
		step{do: shell + "create /app/b x auth::cdrwa", says: []string{"Created"}},
		step{do: shell + "create /app/c x auth::cdrwa", code: 1, most: 2,
			says: []string{"Quota has exceeded : /app/c", "listquota shows the quotas"}},
		step{do: shell + "listquota /app", most: 4, says: []string{"countHardLimit=3"}},
		step{do: shell + "delquota -N /app", most: 1},

		// Backup and restore.
		step{do: "curl -sS --fail --cacert new/client/ca.pem --cert new/client/client.pem -o backup.snap 'https://127.0.0.1:8080/commands/snapshot?streaming=true'",
			most: 0},
		step{do: shell + "deleteall /app", most: 1},
		step{do: "curl -sS --cacert new/client/ca.pem --cert new/client/client.pem --data-binary @backup.snap https://127.0.0.1:8080/commands/restore",
			most: 6, says: []string{`"error" : null`}},
		step{do: shell + "ls /app", most: 1, says: []string{"[a, b]"}},

		// A fourth server, and its removal.
		step{do: "mv 1 2 3 new && zooid init -add 4 -dir new 127.0.0.1:2891:3891; mv new/1 new/2 new/3 new/4 .", most: 8,
			says: []string{"give it a vote, as the superuser", "reconfig -add 'server.4=127.0.0.1:2891:3891;;2284'"}},
		step{do: "4& zooid server 4/zoo.cfg"},
		step{do: "zooid status 4/zoo.cfg", until: true, code: 1, most: 12,
			says: []string{"it has no vote", "reconfig -add gives it one"}},
		step{do: shell + "reconfig -add 'server.4=127.0.0.1:2891:3891;;2284'", until: true, most: 7,
			says: []string{"server.4=127.0.0.1:2891"}},
		step{do: "zooid status 4/zoo.cfg", until: true, most: 10, says: []string{"4 of 4 voters serve"}},
		step{do: shell + "reconfig -remove 4", most: 6,
			says: []string{"Committed new configuration"}, hides: []string{"server.4"}},
		step{do: "kill 4", most: 15}, ok,

		// Certificates.
		step{do: "zooid cert list -dir new", most: 8, says: []string{"client", "superuser", "valid", "server"}},
		step{do: "zooid cert issue -dir new app orders", most: 8, says: []string{"new/apps/orders"}},
		step{do: "ZOOID_CONFIG=new/apps/orders/profile zooid cli -profile ensemble get /app", code: 1, most: 2,
			says: []string{"Insufficient permission : /app", "acl explain /app shows who may"}},
		step{do: "zooid cert renew -dir new 127.0.0.1", code: 1, most: 1,
			says: []string{"several have that name; give the serial number", "(server 1)"}},
		step{do: "zooid cert renew -dir new $(zooid cert list -dir new | awk '$2 == \"server\" {print $NF; exit}')", most: 8,
			says: []string{"new/servers/localhost"}},
		step{do: "cp new/servers/localhost/server.pem 1/server.pem && zooid reload 1/zoo.cfg", most: 3,
			says: []string{"key and trust stores of the client port", "needs a restart: nothing"}},
		step{do: "zooid cert revoke -dir new orders", most: 6, says: []string{"crl.pem"}},
		ok,
		step{do: "kill 1", most: 15}, step{do: "kill 2", most: 15}, step{do: "kill 3", most: 25},
	)
}

// TestTrouble is what an operator meets on bad days: a data directory of another user, and a disk that is nearly full.
func TestTrouble(t *testing.T) {
	p := newPerson(t)
	defer p.ends()
	p.types(
		step{do: "zooid init -dir a", most: 2},
		step{do: "chmod 755 .. . a a/1 && chown -R 65534:65534 a && chown 0:0 a/1/data && chmod 700 a/1/data"},
		step{do: "setpriv --reuid 65534 --regid 65534 --clear-groups zooid server a/1/zoo.cfg", code: 2, most: 4,
			says: []string{"a/1/data", "permission denied", "ZD-"}},
		step{do: "setpriv --reuid 65534 --regid 65534 --clear-groups zooid doctor -no-disk a/1/zoo.cfg", code: 1, most: 12,
			says: []string{"1 fault", "a/1/data", "chown -R 65534 "}},
		step{do: "zooid init -dir b", most: 2},
		step{do: "mount -t tmpfs -o size=64m tmpfs b/1/data"},
		step{do: "1& zooid server b/1/zoo.cfg"},
		step{do: "zooid health b/1/zoo.cfg", until: true, says: []string{"ready"}},
		step{do: "zooid cli create /before x", says: []string{"Created"}},
		step{do: "head -c 60m /dev/zero >b/1/data/other 2>/dev/null; df b/1/data >/dev/null"},
		step{do: "zooid status b/1/zoo.cfg", until: true, code: 1, most: 9,
			says: []string{"degraded", "its disk is nearly full", "it refuses writes until there is room (zooid docs operations full)"}},
		step{do: "zooid cli create /during x", code: 1, most: 2, says: []string{"zooid status"}},
		step{do: "zooid cli get /before", says: []string{"x"}},
		step{do: "zooid doctor -no-disk b/1/zoo.cfg", code: 1, most: 16, says: []string{"do: "}},
		step{do: "rm b/1/data/other"},
		step{do: "zooid status b/1/zoo.cfg", until: true, most: 8, says: []string{"ok: one server"}},
		step{do: "zooid cli create /after x", says: []string{"Created"}},
		step{do: "kill 1", most: 8}, step{do: "umount b/1/data"},
	)
}
