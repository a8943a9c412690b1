package moving

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A hidden end is one of Apache's servers that zooid migrate tail, or the switch, can't see.
type hidden struct {
	name string
	// stop replaces the end of the -stop command. It knows $pid and $dir of the server, $program, $ZK_AFTER, and $place,
	// a directory that everybody can read.
	stop   string
	closed bool // the servers' directories, to others than their user
	wall   bool // Apache's servers are on a machine of their own; see walled
	says   string
}

// Parts of commands for -stop.
const (
	killed   = "kill -9 $pid\nwhile kill -0 $pid 2>/dev/null; do sleep 0.01; done\n"
	asNobody = "exec setpriv --reuid=65534 --regid=65534 --clear-groups "
	tailOf   = "$program migrate tail -after $ZK_AFTER "
	// inOwnMounts runs the rest in a mount namespace in which the place of the server's directory has a copy of it.
	inOwnMounts = "cp -r $dir $place/$ZK_ID\nexport dir program place ZK_AFTER ZK_ID\n" +
		"exec unshare -m sh -c 'mount --bind $place/$ZK_ID $dir && exec " + tailOf + "$dir'"
	// refusesAnew refuses connections to the server's machine, and leaves those that exist.
	refusesAnew = "$within iptables -w -A INPUT -i eth0 -p tcp --syn -j REJECT --reject-with tcp-reset\n"
)

var hiddenEnds = []hidden{
	{
		name: "another user who can't read the files, of servers that go on", closed: true, stop: asNobody + tailOf + "$dir",
		says: "permission denied",
	},
	{
		name: "another user who can read the files, of servers that go on", stop: asNobody + tailOf + "$dir",
		says: "something listens on the server's port",
	},
	{
		name: "another user who can read the files, of servers that have stopped", stop: killed + asNobody + tailOf + "$dir",
		says: "isn't known to have stopped: it isn't known whether a process has its files open",
	},
	{
		name: "a mount namespace in which the directory is another one", stop: inOwnMounts,
		says: "something listens on the server's port",
	},
	{
		name: "a mount namespace in which the directory has another name",
		stop: "mkdir $place/$ZK_ID\nexport dir program place ZK_AFTER ZK_ID\n" +
			"exec unshare -m sh -c 'mount --bind $dir $place/$ZK_ID && umount -l $dir 2>/dev/null; exec " + tailOf + "$place/$ZK_ID'",
		says: " open. Stop the server first",
	},
	{
		name: "a mount namespace in which the directory is another one, on a machine whose ports can't be reached",
		stop: refusesAnew + inOwnMounts, wall: true,
		says: "still sends transactions to the copy",
	},
}

// TestHiddenEnds has Apache's servers go on, or stop, where zooid migrate tail can't see that: run by another user, or
// in another mount namespace, as in a container. The last case has one sign only, the leader's connection to the copy.
// The switch refuses, says why, and says of no server that it has stopped; what clients were told is there.
func TestHiddenEnds(t *testing.T) { withEach(t, tried(both, "3.9.5"), hiddenEnd) }

func hiddenEnd(t *testing.T, version string) {
	if os.Getuid() != 0 {
		t.Skip("other users and mount namespaces need root")
	}
	for _, tool := range []string{"setpriv", "unshare"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed", tool)
		}
	}
	all := hiddenEnds
	if testing.Short() {
		all = all[2:4]
	}
	for _, h := range all {
		t.Run(h.name, func(t *testing.T) { h.try(t, version) })
	}
}

func (h *hidden) try(t *testing.T, version string) {
	e := &ensemble{t: t, version: version, first: 1, host: "127.0.0.1"}
	if h.wall {
		e.elsewhere()
	}
	e.begin(3, "")
	z := newZooids(t, zooid(t), quickLimits)
	told := startWriter(t, strings.Split(e.connect(), ","))
	told.await(50)
	place := t.TempDir()
	program := filepath.Join(place, "zooid")
	must(t, "cp", z.program, program)
	must(t, "chmod", "0755", filepath.Dir(place), place, program)
	ends := fmt.Sprintf("place=%s\nprogram=%s\nwithin='%s'\n", place, program, strings.Join(e.within, " "))
	for i, s := range e.servers {
		if ends += fmt.Sprintf("test $ZK_ID != %d || { pid=%d; dir=%s; }\n", i+1, s.cmd.Process.Pid, s.dir); h.closed {
			must(t, "chmod", "0700", s.dir)
		}
	}
	cmd := z.switching(e, filepath.Join(t.TempDir(), "copy"), "-stop", ends+h.stop)
	out, err := cmd.CombinedOutput()
	if said := string(out); cmd.ProcessState.ExitCode() != 1 || !strings.Contains(said, h.says) ||
		strings.Contains(said, "has stopped") || !strings.Contains(said, "To undo: start Apache's servers again") {
		t.Errorf("%v; want exit code 1 and %q:\n%s", err, h.says, said)
	}
	if left, err := os.ReadDir(z.place(0)); err != nil || len(left) != 1 || exists(z.pid(0)) {
		t.Errorf("the new server's directory has %v, %v", left, err)
	}
	if h.wall {
		must(t, append(e.within, "iptables", "-F", "INPUT")...)
	}
	for i, s := range e.servers {
		if !runs(s.cmd.Process.Pid) {
			e.start(i)
		}
	}
	told.await(20)
	told.judge(strings.Split(e.connect(), ","))
}
