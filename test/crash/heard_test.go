package crash

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// What a server has heard before it begins, and what was cut short, counts across restarts.

// heardOfData has a standalone server's data (/old) and a second server that has heard of it, and stops both.
func heardOfData(t *testing.T, servers int) (e *Ensemble, first, heard *Server) {
	t.Helper()
	e = layOutOnly(t, Options{Servers: servers})
	first, heard = e.Servers[0], e.Servers[1]
	first.alone(t, "/old")
	startThem(t, first, heard) // without the others they wait
	awaitFile(t, heard.heardFile())
	first.Stop()
	heard.Stop()
	return e, first, heard
}

func (s *Server) heardFile() string { return filepath.Join(s.LogDir(), "heard.kept") }

func awaitFile(t *testing.T, name string) {
	t.Helper()
	for end := time.Now().Add(startPatience); ; time.Sleep(readyPause) {
		if _, err := os.Stat(name); err == nil {
			return
		} else if time.Now().After(end) {
			t.Fatal(err)
		}
	}
}

// renumber gives server 1 another id in s's lines.
func (s *Server) renumber(t *testing.T, id int) {
	t.Helper()
	text, err := os.ReadFile(s.config())
	if err != nil {
		t.Fatal(err)
	}
	text = []byte(strings.Replace(string(text), "server.1=", fmt.Sprintf("server.%d=", id), 1))
	if err := os.WriteFile(s.config(), text, 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestHeardBeforeARestart: a server that has heard of another one's data doesn't found without that server, even if it
// is started again while the other one is down.
func TestHeardBeforeARestart(t *testing.T) {
	hurtful(t)
	t.Parallel()
	const held = "server 1 held data, or knew of some, when it last answered"
	t.Run("down", func(t *testing.T) {
		t.Parallel()
		e, first, heard := heardOfData(t, 3)
		startThem(t, e.Servers[1:]...)
		noneServes(t, held, heard)
		startThem(t, first)
		oneTree(t, []string{"/old"}, e.Servers...)
	})
	t.Run("renumbered", func(t *testing.T) {
		t.Parallel()
		e, first, heard := heardOfData(t, 3)
		for _, s := range e.Servers {
			s.renumber(t, 4)
		}
		startThem(t, e.Servers[1:]...)
		noneServes(t, "server 1 held data, or knew of some, when it last answered, and isn't named", heard)
		if err := os.WriteFile(filepath.Join(first.Data(), "myid"), []byte("4\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		startThem(t, first)
		oneTree(t, []string{"/old"}, e.Servers...)
	})
	t.Run("told by one that is down", func(t *testing.T) {
		t.Parallel()
		e, first, heard := heardOfData(t, 5)
		startThem(t, e.Servers[1:]...)
		for _, s := range e.Servers[2:] {
			awaitFile(t, s.heardFile())
		}
		heard.Stop()
		noneServes(t, "server 2 held data, or knew of some", e.Servers[2:]...)
		startThem(t, first, heard)
		oneTree(t, []string{"/old"}, e.Servers...)
	})
	t.Run("gone for good", func(t *testing.T) { // what the line says is done on one server alone
		t.Parallel()
		e, _, heard := heardOfData(t, 3)
		startThem(t, e.Servers[1:]...)
		heard.awaitLog(t, held)
		for _, s := range e.Servers[1:] {
			s.Stop()
		}
		heard.zooid(t, "found", "-why", "server 1 is gone", heard.config())
		startThem(t, e.Servers[1:]...)
		oneTree(t, nil, e.Servers[1:]...)
	})
	t.Run("damaged", func(t *testing.T) {
		t.Parallel()
		e, _, heard := heardOfData(t, 3)
		if err := os.WriteFile(heard.heardFile(), []byte("12345678"), 0o600); err != nil {
			t.Fatal(err)
		}
		startThem(t, heard)
		if code, err := heard.Exit(startPatience); code != 1 || err != nil || !strings.Contains(heard.Log(), "ZD-1117") {
			t.Fatalf("it ends with %d, %v:\n%s", code, err, heard.LogEnd())
		}
		if err := os.Remove(heard.heardFile()); err != nil {
			t.Fatal(err)
		}
		startThem(t, e.Servers...)
		oneTree(t, []string{"/old"}, e.Servers...)
	})
}

// TestGoneForGood: of three servers of an ensemble one remains, and two have new disks; then that one goes, too. What
// the two say, done on one of them, begins anew.
func TestGoneForGood(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 3})
	first, others := e.Servers[0], e.Servers[1:]
	startThem(t, e.Servers...)
	oneTree(t, nil, e.Servers...)
	for _, s := range e.Servers {
		s.Kill()
	}
	for _, s := range others {
		empty(t, s)
	}
	startThem(t, e.Servers...)
	for _, s := range others {
		s.awaitLog(t, "that has no leader")
	}
	// An order that is given now doesn't count later, when this ensemble may be silent for a moment.
	others[0].zooid(t, "found", "-why", "a mistake", others[0].config())
	others[0].awaitLog(t, "ZD-3213")
	first.Stop()
	for _, s := range others {
		s.Stop()
	}
	startThem(t, others...)
	noneServes(t, "server 1 held data, or knew of some", others...)
	for _, s := range others {
		s.Stop()
	}
	others[0].zooid(t, "found", "-why", "server 1 is gone", others[0].config())
	startThem(t, others...)
	oneTree(t, nil, others...)
}

// TestSetAsideCutShort: servers whose data is being set aside when they are killed found no ensemble afterwards.
func TestSetAsideCutShort(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := twoSetAside(t)
	for _, s := range e.Servers[1:] {
		for _, dir := range s.dirs() { // as it was before the last file was moved
			folders, err := filepath.Glob(filepath.Join(dir, "aside-*"))
			if err != nil || len(folders) != 1 {
				t.Fatal(folders, err)
			}
			err = errors.Join(os.Rename(filepath.Join(folders[0], "IDENTITY"), filepath.Join(dir, "IDENTITY")),
				os.WriteFile(filepath.Join(folders[0], "MOVING"), nil, 0o600))
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	startThem(t, e.Servers[1:]...)
	noneServes(t, "its data was set aside", e.Servers[1:]...)
}

// lateCopy has servers 2 and 3 found with a copy of server 1's data, while that one is down.
func lateCopy(t *testing.T, o Options) (e *Ensemble, late *Server) {
	t.Helper()
	o.Servers, o.OneDirectory = 3, true
	e = layOutOnly(t, o)
	late = e.Servers[0]
	late.alone(t, "/old")
	for _, s := range e.Servers[1:] {
		s.copyOf(t, late)
	}
	startThem(t, e.Servers[1:]...)
	write(t, e.Servers[1].Addr, "/meanwhile")
	return e, late
}

// TestOvertakenObserver: an observer that came with a copy joins with an empty directory while the others restart one
// after the other, and later becomes a voter.
func TestOvertakenObserver(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e := layOutOnly(t, Options{Servers: 4, OneDirectory: true, Config: membersConfig})
	first, observer := e.Servers[0], e.Servers[3]
	for _, s := range e.Servers {
		s.addToLine(t, observer, ":observer")
	}
	first.alone(t, "/old")
	for _, s := range e.Servers[1:] {
		s.copyOf(t, first)
	}
	startThem(t, e.Servers[:3]...)
	write(t, first.Addr, "/meanwhile")
	startThem(t, observer)
	for _, s := range e.Servers {
		s.Stop()
		restart(t, s)
		write(t, s.Addr, fmt.Sprintf("/restarted-%d", s.ID))
	}
	observer.awaitLog(t, "ZD-3409")
	c := open(t, first)
	defer c.Close()
	var line string
	for _, l := range serverLines(t, c) {
		if strings.HasPrefix(l, "server.4=") {
			head, _, _ := strings.Cut(l, ":observer")
			line = head + ":participant;" + observer.Addr
		}
	}
	first.says(t, []string{line}, "cli", "-server", first.Addr, "reconfig", "-add", line)
	if err := e.awaitVotes(); err != nil {
		t.Fatal(err)
	}
	for _, s := range e.Servers {
		s.Stop()
		restart(t, s)
	}
	first.Kill() // three of four are a majority only with the former observer
	write(t, observer.Addr, "/with the former observer")
	restart(t, first)
	oneTree(t, []string{"/old", "/meanwhile", "/restarted-4", "/with the former observer"}, e.Servers...)
}

// TestLateCopyCutShort: a late copy joins though its disk was full, or it crashed, when it noted that it sets its data
// aside.
func TestLateCopyCutShort(t *testing.T) {
	hurtful(t)
	t.Parallel()
	e, late := lateCopy(t, Options{})
	if err := os.WriteFile(filepath.Join(late.Data(), "RECOVERED"), []byte(`{"at":"2026`), 0o600); err != nil {
		t.Fatal(err)
	}
	startThem(t, late)
	oneTree(t, []string{"/old", "/meanwhile"}, e.Servers...)
	late.awaitLog(t, "ZD-3409")
}

// TestLateCopyOnAFullDisk: the disk of a late copy is full. It serves nothing, and joins once there is room.
func TestLateCopyOnAFullDisk(t *testing.T) {
	hurtful(t)
	for _, kind := range []smallDisk{
		{name: "bytes", hog: allBytesOf, everywhere: true},
		{name: "inodes", opts: "nr_inodes=400", hog: filesOf, everywhere: true},
	} {
		t.Run(kind.name, func(t *testing.T) {
			dir, f := kind.mount(t)
			e, late := lateCopy(t, Options{Disk: filepath.Join(dir, "zooid")})
			f.fill(0)
			for range 5 { // as a supervisor does
				startThem(t, late)
				if code, err := late.Exit(startPatience); err != nil || code != 1 {
					t.Fatalf("on a full disk it ends with %d, %v:\n%s", code, err, late.LogEnd())
				}
				if !strings.Contains(late.LogEnd(), "no space left") {
					t.Fatalf("it doesn't say that its disk is full:\n%s", late.LogEnd())
				}
			}
			f.empty()
			startThem(t, late)
			oneTree(t, []string{"/old", "/meanwhile"}, e.Servers...)
		})
	}
}

// TestHeardCutShort: a server that can't record of whom it has heard ends and says why, and one that is killed while it
// does so has founded nothing. With a disk that works again there is one tree.
func TestHeardCutShort(t *testing.T) {
	hurtful(t)
	straced(t)
	t.Parallel()
	for what, said := range map[string]string{
		"error=EROFS": "read-only file system", "error=ENOSPC": "no space left on device", "signal=SIGKILL": "",
	} { // any order: subtests
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			e := layOutOnly(t, Options{Servers: 3})
			first, heard := e.Servers[0], e.Servers[1]
			first.alone(t, "/old")
			startThem(t, heard)
			heard.awaitLog(t, "server 3 has not said what it holds", "server 3 isn't running")
			x := inject(t, heard, "renameat", what)
			defer x.end()
			x.awaitAttached(t, heard)
			startThem(t, first)
			code, err := heard.Exit(startPatience)
			switch {
			case err != nil:
				t.Fatalf("%v; its log ends:\n%s", err, heard.LogEnd())
			case said != "" && (code != 1 || !strings.Contains(heard.LogEnd(), said)):
				t.Fatalf("it ends with %d:\n%s", code, heard.LogEnd())
			case said != "" && x.count() == 0:
				t.Fatal("no call has failed")
			}
			first.Stop()
			startThem(t, e.Servers...)
			oneTree(t, []string{"/old"}, e.Servers...)
		})
	}
}
