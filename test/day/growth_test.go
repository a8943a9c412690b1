package day

import "testing"

// TestGrowth grows three servers to five as Apache's are, with reconfig off: the new servers' files name five servers,
// and the others' do after a rolling restart. Who belongs to an ensemble is never taken from a stranger's file, so the
// new servers say what lets them in.
func TestGrowth(t *testing.T) {
	p := newPerson(t)
	defer p.ends()
	const write = `write() { mkdir -p $1/data; echo $1 >$1/data/myid; chmod 700 $1/data
		{ echo "tickTime=2000\ninitLimit=10\nsyncLimit=5\ndataDir=$PWD/$1/data\nclientPort=$((2180+$1))"
		for i in $(seq $2); do echo "server.$i=127.0.0.1:$((2880+i)):$((3880+i))"; done; } >$1/zoo.cfg; }; `
	ok := step{do: "zooid status 1/zoo.cfg", until: true, says: []string{"ok: server", "3 of 3 servers serve"}}
	waits := []string{"server 4 (127.0.0.1:2184) belongs to no ensemble yet", "its log names the servers it waits for",
		"zooid allow-join 4 zoo.cfg 127.0.0.1:2884",
		`zooid cli reconfig -add "server.4=127.0.0.1:2884:3884:participant;0.0.0.0:2184"`}
	p.types(
		step{do: write + "for n in 1 2 3; do write $n 3; done; for n in 4 5; do write $n 5; done"},
		step{do: "1& zooid server 1/zoo.cfg"}, step{do: "2& zooid server 2/zoo.cfg"}, step{do: "3& zooid server 3/zoo.cfg"},
		ok,
		step{do: "zooid cli create /before x", most: 1},
		step{do: "4& zooid server 4/zoo.cfg"}, step{do: "5& zooid server 5/zoo.cfg"},
		step{do: "zooid status 4/zoo.cfg", code: 2, until: true, says: waits},
		step{do: "zooid doctor -no-disk 4/zoo.cfg", code: 1, until: true, says: append([]string{"1 fault"}, waits[1:]...)},
		step{do: "grep -c 'zooid allow-join 4 zoo.cfg 127.0.0.1:2884' 4.log >/dev/null", until: true},
	)
	for _, n := range []string{"1", "2", "3"} {
		p.types(step{do: "kill " + n, most: 20}, step{do: write + "write " + n + " 5"},
			step{do: n + "& zooid server " + n + "/zoo.cfg"},
			step{do: "zooid health " + n + "/zoo.cfg", until: true, says: []string{"ready"}})
	}
	p.types(
		step{do: "zooid status 4/zoo.cfg", code: 2, until: true, says: waits},
		// What it says, on one of the others.
		step{do: "zooid allow-join 4 1/zoo.cfg 127.0.0.1:2884", most: 3},
		step{do: "zooid health 4/zoo.cfg", until: true, says: []string{"ready"}},
		step{do: "zooid cli -server 127.0.0.1:2184 get /before", most: 1, says: []string{"x"}},
		step{do: "zooid cli -server 127.0.0.1:2184 create /after y", most: 1, says: []string{"Created"}},
		step{do: "zooid cli -server 127.0.0.1:2181 get /after", until: true, most: 1, says: []string{"y"}},
		step{do: "kill 5", most: 20}, step{do: "kill 4", most: 20}, step{do: "kill 3", most: 20},
		step{do: "kill 2", most: 20}, step{do: "kill 1", most: 30},
	)
}

// TestGrowthFromOne grows the one server of a first zooid init to three, by server lines, and to five, by reconfig, as
// docs/operations.md says, on plain files.
func TestGrowthFromOne(t *testing.T) {
	p := newPerson(t)
	defer p.ends()
	serve := func(n string) step { return step{do: n + "& zooid server " + n + "/zoo.cfg"} }
	ready := func(n string) step {
		return step{do: "zooid health " + n + "/zoo.cfg", until: true, most: 1, says: []string{"ready"}}
	}
	p.types(
		step{do: "zooid init", most: 2}, step{do: "cp -r zooid-ensemble/1 1", most: 0},
		serve("1"), ready("1"),
		step{do: "zooid cli create /mine data", most: 1, says: []string{"Created"}},
		step{do: "kill 1", most: 10},
		step{do: "zooid init -dir three 127.0.0.1:2888:3888 127.0.0.1:2889:3889 127.0.0.1:2890:3890", most: 5,
			says: []string{"zooid doctor zoo.cfg && zooid server zoo.cfg"}},
		step{do: "cp three/1/zoo.cfg three/1/secret 1 && cp three/1/data/myid 1/data && cp -r three/2 three/3 ."},
		serve("1"),
		step{do: "zooid status 1/zoo.cfg", code: 2, until: true, most: 14,
			says: []string{"server 2 isn't running", "server 3 isn't running", "start the servers that don't run"}},
		serve("2"), serve("3"),
		step{do: "zooid status 1/zoo.cfg", until: true, most: 8, says: []string{"3 of 3 voters serve"}},
		step{do: "zooid cli -server 127.0.0.1:2183 get /mine", until: true, most: 1, says: []string{"data"}},

		// Membership is the superuser's to change.
		step{do: `for n in 1 2 3; do chmod 600 $n/zoo.cfg; { echo reconfigEnabled=true
			echo DigestAuthenticationProvider.superDigest=$(zooid digest super:pw); } >>$n/zoo.cfg; done`},
		step{do: "zooid reload 1/zoo.cfg", most: 3, says: []string{"needs a restart: reconfigEnabled"}},
	)
	for _, n := range []string{"3", "2", "1"} {
		p.types(step{do: "kill " + n, most: 40}, serve(n), ready(n),
			step{do: "zooid status " + n + "/zoo.cfg", until: true, most: 8, says: []string{"3 of 3 voters serve"}})
	}
	p.types(
		step{do: "mkdir new && cp -r 1 2 3 new && rm -r new/*/data"},
		step{do: "zooid init -add 4 -dir new 127.0.0.1:2891:3891", most: 8,
			says: []string{"reconfig -add 'server.4=127.0.0.1:2891:3891;2184'"}},
		step{do: "zooid init -add 5 -dir new 127.0.0.1:2892:3892", most: 8,
			says: []string{"reconfig -add 'server.5=127.0.0.1:2892:3892;2185'"}},
		step{do: "cp -r new/4 new/5 ."}, serve("4"), serve("5"), ready("4"), ready("5"),
		step{do: "zooid status 4/zoo.cfg", until: true, code: 1, most: 14,
			says: []string{"it has no vote", "reconfig -add gives it one"}},
		step{do: `zooid cli -server 127.0.0.1:2181 -auth digest:super:pw reconfig -add \
			'server.4=127.0.0.1:2891:3891;2184,server.5=127.0.0.1:2892:3892;2185'`, until: true, most: 7,
			says: []string{"server.4=127.0.0.1:2891", "server.5=127.0.0.1:2892"}},
		step{do: "zooid status 1/zoo.cfg", until: true, most: 10, says: []string{"5 of 5 voters serve"}},
		step{do: "zooid cli -server 127.0.0.1:2185 get /mine", until: true, most: 1, says: []string{"data"}},
		step{do: "kill 5", most: 20}, step{do: "kill 4", most: 20}, step{do: "kill 3", most: 40},
		step{do: "kill 2", most: 40}, step{do: "kill 1", most: 40},
	)
}
