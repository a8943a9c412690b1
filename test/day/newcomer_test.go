package day

import "testing"

// TestNewcomer is somebody's first ten minutes: the two commands of README.md, a first znode, typos, help, a restart.
func TestNewcomer(t *testing.T) {
	p := newPerson(t)
	defer p.ends()
	p.types(
		step{do: "make -n -C " + repository(t) + " run",
			says: []string{"-o bin/zooid ./cmd/zooid", "./bin/zooid server"}},
		step{do: "make -n -C " + repository(t) + " test", says: []string{"go vet ./..."}},
		// The machine has no server yet.
		step{do: "zooid cli -timeout 1000 ls /", code: 3, most: 2,
			says: []string{"connection refused", "is a server running there?"}},
		step{do: "zooid status", code: 2, most: 8,
			says: []string{"one server, which doesn't serve", "start the servers that don't run"}},
		step{do: "zooid", code: 2, most: 45, says: []string{"usage: zooid COMMAND", "zooid COMMAND -h tells more"}},
		step{do: "zooid server nosuch.cfg", code: 2, most: 1,
			says: []string{"nosuch.cfg", "no such file", "ZD-1001"}},
		step{do: "zooid explain ZD-1001", most: 12, says: []string{"What to do:"}},
		// What make run does.
		step{do: "1& zooid server"},
		step{do: "zooid status", until: true, most: 8, says: []string{"ok: one server", "127.0.0.1:2181"}},
		step{do: "cat 1.log", until: true, most: 8,
			says: []string{"serving as=standalone"}, hides: []string{"WARN", "ERROR"}},
		step{do: `zooid cli create /greeting "hello"`, most: 1, says: []string{"Created /greeting"}},
		step{do: "zooid cli get /greeting", most: 1, says: []string{"hello"}},
		step{do: "zooid cli get -s /greeting", most: 14, says: []string{"hello", "dataVersion = 0"}},
		step{do: "zooid cli ls /", most: 1, says: []string{"[greeting, zookeeper]"}},
		// Typos.
		step{do: "zooid cli create /greeting x", code: 1, most: 2,
			says: []string{"already exists: /greeting", "set changes its data"}},
		step{do: "zooid cli get /gretting", code: 1, most: 2,
			says: []string{"does not exist: /gretting", "ls / shows what there is"}},
		step{do: "zooid cli create /a/b x", code: 1, most: 2, says: []string{"create /a first, or use create -p"}},
		step{do: "zooid cli gte /greeting", code: 127, most: 2, says: []string{"did you mean get?"}},
		step{do: "zooid cli ls -q /", code: 1, most: 2, says: []string{"no flag -q", "help ls tells more"}},
		step{do: "zooid cli -sever x ls /", code: 2, most: 2, says: []string{"no flag -sever", "zooid cli --help"}},
		step{do: "zooid stauts", code: 2, most: 2, says: []string{"did you mean status?"}},
		step{do: "zooid status -wacth", code: 2, most: 5,
			says: []string{`unexpected argument "-wacth"`, "zooid status -h tells more"}},
		step{do: "zooid health -x", code: 2, most: 5, says: []string{"-x", "zooid health -h tells more"}},
		step{do: "zooid top a b", code: 2, most: 5, says: []string{"usage: zooid top", "zooid top -h tells more"}},
		step{do: "zooid doctor", code: 2, most: 5,
			says: []string{"usage: zooid doctor", "zooid doctor -h tells more"}},
		step{do: "zooid doctor nosuch.cfg", code: 1, most: 8, says: []string{"nosuch.cfg", "do: "}},
		step{do: "zooid server", code: 1, most: 2,
			says: []string{"another process holds this data directory (is the server running?)", "ZD-1113"}},
		// Help.
		step{do: "zooid help get", code: 2, most: 2, says: []string{"zooid help lists the commands"}},
		step{do: "zooid cli help get", says: []string{"get [-s] [-w] [-b] [-x] path", "Examples:"}},
		step{do: "zooid help status", most: 50, says: []string{"usage: zooid status", "exit code: 0 all is well"}},
		step{do: "zooid -v", most: 1, says: []string{"zooid 0."}},
		step{do: "zooid version", most: 1, says: []string{"speaks the protocol of Apache ZooKeeper 3.9"}},
		step{do: "zooid docs", most: 100, says: []string{"operations: Operations", "Back up"}},
		step{do: "zooid docs operations backup | head -20", says: []string{"Back up"}},
		step{do: "zooid docs operations full | head -20", says: []string{"Full disk"}},
		step{do: "zooid docs opertions", code: 2, most: 2, says: []string{"did you mean operations?"}},
		step{do: "zooid explain ZD-9999", code: 2, most: 2, says: []string{"zooid explain"}},
		step{do: "printf 'create /a 1\\nget /a\\nquit\\n' | zooid cli", most: 2, says: []string{"Created /a 1"}},
		// The server is stopped and started.
		step{do: "kill 1", most: 6,
			says: []string{"stopping: a signal asked for it"}, hides: []string{"WARN", "ERROR"}},
		step{do: "1& zooid server"},
		step{do: "zooid status", until: true, says: []string{"ok: one server"}},
		step{do: "zooid cli get /greeting", most: 1, says: []string{"hello"}},
		step{do: "zooid cli deleteall /greeting", most: 0},
		step{do: "zooid cli ls /", most: 1, says: []string{"[a, zookeeper]"}},
		step{do: "kill 1", most: 6, says: []string{"stopping"}},
		// A server of zooid init.
		step{do: "zooid init", most: 2, says: []string{"start it: zooid server zooid-ensemble/1/zoo.cfg"}},
		step{do: "zooid init", code: 1, most: 1,
			says: []string{"nothing is overwritten; give another directory (-dir)"}},
		step{do: "2& zooid server zooid-ensemble/1/zoo.cfg"},
		step{do: "zooid health zooid-ensemble/1/zoo.cfg", until: true, most: 1, says: []string{"ready"}},
		step{do: "zooid server zooid-ensemble/1/zoo.cfg", code: 1, most: 3,
			says: []string{"is the server running?", "ZD-1113"}},
		step{do: "zooid top zooid-ensemble/1/zoo.cfg", says: []string{"standalone", "OPERATIONS"}},
		step{do: "zooid doctor -no-disk zooid-ensemble/1/zoo.cfg", most: 12, says: []string{"(running): 0 faults"}},
		step{do: "kill 2", most: 6},
		step{do: "zooid health zooid-ensemble/1/zoo.cfg", code: 2, most: 2,
			says: []string{"is the server running? zooid doctor"}},
		step{do: "zooid top zooid-ensemble/1/zoo.cfg", code: 2, most: 4, says: []string{"is the server running?"}},
	)
}
