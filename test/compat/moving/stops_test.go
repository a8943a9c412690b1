package moving

import (
	"flag"
	"fmt"
	"os/exec"
	"strings"
	"time"
)

var longestStop = flag.Duration("moving.stops", 0,
	"in TestCycles, the longest time that a command of the operator's takes before it does what it is for, and again after that, as ssh and systemctl do; not 0: zooid migrate return makes the way back")

// slowly is shell code that waits as the commands of an operator do: for a time that the seed chooses, which differs
// between the servers with the ids that the variable has. It says how long each of them waits.
func (y *cycle) slowly(what, variable string, ids ...int) string {
	lines, told := "", []string{}
	for _, id := range ids {
		wait := 0.0
		if *longestStop > 0 {
			wait = time.Duration(y.rnd.Int64N(int64(*longestStop))).Seconds()
		}
		lines += fmt.Sprintf("test $%s != %d || sleep %.2f\n", variable, id, wait)
		told = append(told, fmt.Sprintf("%.2f", wait))
	}
	if *longestStop > 0 {
		y.say("%s of the servers %d: %s s", what, ids, strings.Join(told, ", "))
	}
	return lines
}

// gently is shell code that stops $pid as systemctl does, and waits for its end.
const gently = "kill $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.01; done\n"

// stopApache is the command by which zooid migrate switch stops Apache's servers.
func (y *cycle) stopApache() string {
	stop := y.z.stopping(y.e, y.slowly("before the end", "ZK_ID", 1, 2, 3), y.slowly("after the end", "ZK_ID", 1, 2, 3))
	if *longestStop > 0 {
		stop = strings.ReplaceAll(stop, "kill -9 $pid", "kill $pid")
	}
	return stop
}

// byReturn has zooid migrate return stop Zooid's servers and the observers. What it starts comes later.
func (y *cycle) byReturn() (began time.Time) {
	t, w := y.t, y.back
	t.Helper()
	y.lead()
	y.reached()
	w.lead.stop()
	stop, observers := "", ""
	for i, s := range y.z.servers {
		stop += fmt.Sprintf("test $ZOOID_ID != %d || pid=%d\n", i+1, s.cmd.Process.Pid)
	}
	stop += y.slowly("before the end of Zooid", "ZOOID_ID", 1, 2, 3) + gently +
		y.slowly("after it", "ZOOID_ID", 1, 2, 3)
	for i, s := range w.apache.servers {
		observers += fmt.Sprintf("test $ZK_ID != %d || { pid=%d; dir=%s; }\n", i+1, s.cmd.Process.Pid, s.dir)
	}
	observers += y.slowly("before the end of the observers", "ZK_ID", 1, 2, 3) + gently + "exec " + w.program +
		" migrate digest $dir"
	start := y.slowly("before the start of Apache", "ZK_ID", 1, 2, 3)
	began = y.begin()
	said, err := exec.Command(w.program, "migrate", "return", "-yes", "-quorum", w.quorum, "-election", w.election,
		"-from", "127.0.0.1", "-observers", "1,2,3", "-stop", stop, "-stop-observer", observers, "-start", start,
		w.config).CombinedOutput()
	t.Logf("%s", said)
	if err != nil || !strings.Contains(string(said), "Apache's servers [1 2 3] were started") {
		t.Fatalf("zooid migrate return: %v\n%.3000s", err, w.apache.servers[0].output)
	}
	for i, s := range y.z.servers {
		if runs(s.cmd.Process.Pid) {
			t.Errorf("Zooid's server %d runs beside Apache", i+1)
		}
	}
	return began
}
