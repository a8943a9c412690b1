package moving

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestTwoSwitches has two operators switch one ensemble at the same time, without -seed and each to another one of
// three Zooid servers, the third of which waits for one to join. Both servers get all data and are started at once, and
// there are never two trees: one of them serves at most. When the other one's data is set aside, as its log says, all
// three serve what clients were told.
func TestTwoSwitches(t *testing.T) { withEach(t, tried(both, "3.9.5"), twoSwitches) }

func twoSwitches(t *testing.T, version string) {
	e := startEnsemble(t, version)
	z := newZooids(t, zooid(t), quickLimits)
	told := startWriter(t, slices.Concat(strings.Split(e.connect(), ","), z.addrs))
	told.await(50)
	operators := z.twoOperators(e)
	for i := range operators {
		if !awaited(func() bool { text, _ := os.ReadFile(z.pid(i)); return len(text) > 0 }) {
			t.Fatalf("server %d isn't started:\n%s", i+1, operators[i].out.text())
		}
		z.adopt(i)
	}
	waits := func(i int) bool {
		text, _ := os.ReadFile(z.log(i))
		return strings.Contains(string(text), "has an order to found an ensemble, too") ||
			strings.Contains(string(text), "decide which data to keep") ||
			strings.Contains(string(text), "without this server")
	}
	if !awaited(func() bool { return (serves(z.addrs[0]) || waits(0)) && (serves(z.addrs[1]) || waits(1)) }) {
		t.Fatal("a server neither serves nor says what it waits for")
	}
	goesOn, other := 0, 1
	if serves(z.addrs[1]) {
		goesOn, other = 1, 0
	}
	if serves(z.addrs[other]) {
		t.Error("both servers serve")
	}
	t.Logf("server 1 serves: %t, server 2: %t", serves(z.addrs[0]), serves(z.addrs[1]))
	operators[other].cmd.Process.Kill() // its server will be another one
	<-operators[other].ended
	if said := operators[other].out.text(); strings.Contains(said, "the Zooid server serves") {
		t.Errorf("beside server %d, the switch to server %d says:\n%s", goesOn+1, other+1, said)
	}
	z.servers[other].kill()
	command(t, z.program, "recover", "-set-aside", "-cluster", z.cluster(other), "-why", "the other server's data counts",
		z.config(other))
	z.join(other)
	if <-operators[goesOn].ended; !strings.Contains(operators[goesOn].out.text(), "the Zooid server serves") {
		t.Errorf("the switch that counts: %s\n%s", operators[goesOn].state(), operators[goesOn].out.text())
	}
	for i := range z.servers {
		z.awaitServing(i)
		if z.cluster(i) != z.cluster(goesOn) {
			t.Errorf("server %d serves another tree than server %d", i+1, goesOn+1)
		}
	}
	told.await(20)
	told.judge(z.addrs)
}

// twoOperators has two operators switch an ensemble to server 1 and to server 2, starts server 3 with an empty
// directory, and returns when both are told to start theirs.
func (z *zooids) twoOperators(e *ensemble) (operators [2]*watched) {
	t := z.t
	t.Helper()
	dir := t.TempDir()
	place := func(name string) string { return filepath.Join(dir, name) }
	for i := range operators {
		hold := func(step string) string { // until both have come so far
			return fmt.Sprintf("touch %s%d; while ! test -e %s; do sleep 0.02; done\n", place(step), i, place(step))
		}
		z.own = i
		// One who reads a server's files would be taken for that server by the other operator's command.
		stop := z.stopping(e, hold("stop"), "exec flock "+dir+" $tail $dir")
		stop = strings.ReplaceAll(stop, "kill -9 $pid", "kill -9 $pid 2>/dev/null || true")
		cmd := z.switching(e, place(fmt.Sprint("copy", i)), "-stop", stop)
		at := slices.Index(cmd.Args, "-start") + 1
		cmd.Args[at] = hold("start") + cmd.Args[at]
		operators[i] = watch(t, cmd)
	}
	for _, step := range []string{"stop", "start"} {
		for i, w := range operators {
			w.until(step, func() bool { return exists(place(fmt.Sprint(step, i))) })
		}
		if step == "start" {
			z.start(2)
		}
		if err := os.WriteFile(place(step), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return operators
}

// cluster returns the id of the ensemble whose data a server has.
func (z *zooids) cluster(i int) string {
	z.t.Helper()
	text, err := os.ReadFile(filepath.Join(z.place(i), "IDENTITY"))
	_, id, found := strings.Cut(strings.TrimSpace(string(text)), "cluster ")
	if err != nil || !found {
		z.t.Fatalf("%v, %q", err, text)
	}
	return id
}
