package moving

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// TestSwitchBesideDeadServer switches an ensemble whose leader has died with its machine: the command that is to stop
// it hangs, as ssh does. With -majority the switch goes on once the other servers have stopped, and not before, and
// ends that command.
func TestSwitchBesideDeadServer(t *testing.T) {
	withEach(t, tried(both, "3.9.5"), switchBesideDeadServer)
}

func switchBesideDeadServer(t *testing.T, version string) {
	e := startEnsemble(t, version)
	z := newZooids(t, zooid(t), quickLimits)
	z.seed = true
	told := startWriter(t, slices.Concat(strings.Split(e.connect(), ","), z.addrs))
	told.await(50)
	dead := e.leader()
	e.servers[dead].kill()
	told.await(50) // by the others
	slow := (dead + 1) % len(e.servers)
	e.awaitServing(e.servers[slow])
	dir := t.TempDir()
	hung, held := filepath.Join(dir, "hung"), filepath.Join(dir, "held")
	stop := z.stopping(e, fmt.Sprintf(`case $ZK_ID in
%[1]d) echo $$ >%[2]s.new; mv %[2]s.new %[2]s; exec sleep 600;;
%[3]d) touch %[4]s; while test -e %[4]s; do sleep 0.02; done;;
esac`, dead+1, hung, slow+1, held), "")
	w := watch(t, z.switching(e, filepath.Join(dir, "copy"), "-majority", "-stop", stop))
	w.until("the stop", func() bool {
		return exists(hung) && exists(held) && !runs(e.servers[3-dead-slow].cmd.Process.Pid)
	})
	if exists(z.pid(0)) || w.gone() {
		t.Errorf("it doesn't wait for server %d, which runs:\n%s", slow+1, w.out.text())
	}
	os.Remove(held)
	<-w.ended
	said := w.out.text()
	if w.cmd.ProcessState.ExitCode() != 0 || !strings.Contains(said, "enough servers have stopped") {
		t.Fatalf("%s\n%s", w.state(), said)
	}
	text, err := os.ReadFile(hung)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil || !awaited(func() bool { return !runs(pid) }) {
		t.Errorf("the command that hangs goes on: %v, process %d", err, pid)
	}
	z.serveAlone(e, told, 50)
}
