package moving

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// A setback is a switch of three Zooid servers whose machines, not its operator, fail it while it waits at a step: a
// disk is full, or a service manager starts servers again.
type setback struct {
	step string
	what string
	says string // by the command, which fails; "" if it finishes
}

// What befalls a switch.
const (
	copyFull = "the copy's disk is full"
	dataFull = "the new server's disk is full"
	seedFull = "another new server's disk is full"
	oldFull  = "an Apache server's disk is full"
	apaches  = "Apache's servers are started again"
	zooidsUp = "Zooid's servers are killed and started again"
)

const noSpace = "no space left on device"

var setbacks = []setback{
	{atTail, copyFull, noSpace},
	{atStop, copyFull, noSpace},
	{atStop, dataFull, noSpace},
	{atSeed, seedFull, noSpace},
	{atSeed, copyFull, ""}, // from here on nothing is written there but lines of the journal
	{atSeeded, copyFull, ""},
	{atRelease, copyFull, ""},
	{atRelease, dataFull, ""}, // it serves what it has, and the others write
	{atHalf, copyFull, ""},
	{atStart, copyFull, ""},
	{atTail, apaches, "To undo"},
	{atStop, apaches, "To undo"},
	{atSeed, apaches, "To undo"},
	{atSeeded, apaches, "To undo"},
	{atStarted, zooidsUp, ""},
	{atTail, oldFull, ""}, // its log is only read from then on
	{atStop, oldFull, ""},
	{atSeeded, dataFull, ""},
	{atSeeded, seedFull, ""},
	{atHalf, seedFull, ""}, // the others write
	{atStart, dataFull, ""},
	{atStarted, copyFull, ""},
}

// TestSwitchSetBack has a disk fill up, or servers start again, at each step of a switch, while clients write. The
// switch says what failed and undoes what it has begun, or goes on; the next one, with space, goes on or begins anew.
// What clients were told is there in the end.
func TestSwitchSetBack(t *testing.T) {
	need(t)
	program := zooid(t)
	all := setbacks
	if testing.Short() {
		all = []setback{setbacks[2], setbacks[13]}
	}
	for i, s := range all {
		version := []string{"3.8.4", "3.9.5"}[i%2]
		t.Run(fmt.Sprintf("%s/%s/%s", version, s.step, s.what), func(t *testing.T) { s.try(t, program, version, true) })
	}
}

func (s setback) try(t *testing.T, program, version string, seed bool) {
	e := startEnsemble(t, version)
	z := newZooids(t, program, quickLimits)
	z.seed = seed
	dir, hang := filepath.Join(t.TempDir(), "copy"), filepath.Join(t.TempDir(), "hang")
	if err := os.Mkdir(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	place := map[string]string{
		copyFull: dir, dataFull: z.place(0), seedFull: z.place(2), oldFull: e.servers[1].dir,
	}[s.what]
	if s.what == oldFull {
		e.onSmallDisk(1)
	} else if place != "" {
		smallDisk(t, place)
	}
	told := startWriter(t, append(strings.Split(e.connect(), ","), z.addrs...))
	for _, one := range e.servers { // one that joins later lags behind, and isn't proved to have stopped
		e.awaitServing(one)
	}
	told.await(50)
	first := watch(t, z.held(e, dir, hang, s.step))
	first.until(s.step, func() bool { return exists(hang) })
	s.befall(t, e, z, place)
	os.Remove(hang)
	<-first.ended
	failed := first.cmd.ProcessState.ExitCode() != 0
	if failed != (s.says != "") || !strings.Contains(first.out.text(), s.says) {
		t.Errorf("%v; want %q\n%s", first.state(), s.says, first.out.text())
	}
	if place != "" {
		os.Remove(filepath.Join(place, ballast))
	}
	if failed {
		if s.step != atRelease && s.step != atStart && s.step != atStarted {
			z.refusesToStart(1)
		}
		if s.what == apaches { // those that were stopped after that
			for i, one := range e.servers {
				if !runs(one.cmd.Process.Pid) {
					e.start(i)
				}
			}
			for _, one := range e.servers {
				e.awaitServing(one)
			}
			told.await(20)
		}
		if out, err := z.held(e, dir, hang, "").CombinedOutput(); err != nil {
			t.Errorf("the next try: %v\n%s", err, out)
		}
	}
	if t.Failed() {
		t.Fatalf("the first try said:\n%s", first.out.text())
	}
	z.serveAlone(e, told, 20)
}

// befall has the setback happen. place is the disk that fills up.
func (s setback) befall(t *testing.T, e *ensemble, z *zooids, place string) {
	t.Helper()
	switch s.what {
	case apaches:
		for i, one := range e.servers {
			if s.step == atTail && i == 1 {
				continue // it is to be stopped yet
			}
			if !awaited(func() bool { return !runs(one.cmd.Process.Pid) }) {
				t.Fatalf("server %d isn't stopped", i+1)
			}
			e.start(i)
		}
		for _, one := range e.servers {
			e.awaitServing(one)
		}
	case zooidsUp:
		for i := range z.servers {
			text, err := os.ReadFile(z.pid(i))
			if err != nil {
				continue // it isn't started yet
			}
			script := fmt.Sprintf("kill -9 %s; while kill -0 %s 2>/dev/null; do sleep 0.01; done\n"+
				"%s server %s -Dzookeeper.DigestAuthenticationProvider.superDigest=%s >%s 2>&1 & echo $! >%s",
				strings.TrimSpace(string(text)), strings.TrimSpace(string(text)), z.program, z.config(i), superDigest, z.log(i),
				z.pid(i))
			if out, err := exec.Command("sh", "-c", script).CombinedOutput(); err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
		}
	default:
		fill(t, place)
	}
}

// ballast is the file that fills a disk; Zooid takes lost+found for a part of an empty disk.
const (
	ballast       = "lost+found/ballast"
	smallDiskSize = 256 << 20
)

// smallDisk mounts a small file system on a directory, with what the directory holds.
func smallDisk(t *testing.T, dir string) {
	t.Helper()
	myid, _ := os.ReadFile(filepath.Join(dir, "myid"))
	size := fmt.Sprintf("size=%d", smallDiskSize)
	out, err := exec.Command("mount", "-t", "tmpfs", "-o", size, "tmpfs", dir).CombinedOutput()
	if err != nil {
		t.Skipf("mount a tmpfs: %v\n%s", err, out)
	}
	t.Cleanup(func() { exec.Command("umount", "-l", dir).Run() })
	err = os.Mkdir(filepath.Join(dir, "lost+found"), 0o700)
	if err == nil && len(myid) > 0 {
		err = os.WriteFile(filepath.Join(dir, "myid"), myid, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// onSmallDisk gives a server an empty disk, which the others fill.
func (e *ensemble) onSmallDisk(i int) {
	t := e.t
	t.Helper()
	e.servers[i].kill()
	config, err := os.ReadFile(e.configs[i])
	if err != nil {
		t.Fatal(err)
	}
	smallDisk(t, e.servers[i].dir)
	if err := os.WriteFile(e.configs[i], config, 0o600); err != nil {
		t.Fatal(err)
	}
	e.start(i)
}

// fill leaves no byte of a disk.
func fill(t *testing.T, dir string) {
	t.Helper()
	f, err := os.Create(filepath.Join(dir, ballast))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for block := make([]byte, 1<<20); len(block) > 0; {
		if _, err := f.Write(block); err != nil {
			block = block[:len(block)/2]
		}
	}
}
