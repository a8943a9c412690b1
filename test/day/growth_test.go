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
