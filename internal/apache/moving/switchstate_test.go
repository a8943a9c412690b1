//go:build unix

package moving

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
)

// aSwitch has the directories of a switch by the zoo.cfg of a standalone server.
type aSwitch struct {
	copied, data, cfg string
	try               proof.Try
}

// newSwitch makes the zoo.cfg and, if a step is given, the copy with a journal in which it is the last one.
func newSwitch(t *testing.T, step string) *aSwitch {
	t.Helper()
	dir := t.TempDir()
	s := &aSwitch{filepath.Join(dir, "copy"), filepath.Join(dir, "data"), filepath.Join(dir, "zoo.cfg"), proof.NewTry()}
	err := errors.Join(os.WriteFile(s.cfg, []byte("dataDir="+s.data+"\nclientPort=2181\n"), 0o600),
		os.Mkdir(s.data, 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if step == "" {
		return s
	}
	c, err := proof.HoldCopy(s.copied, false)
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(c.Begin("zk1", nil), c.Close())
	journal, _, openErr := proof.OpenJournal(filepath.Join(s.copied, journalName))
	if err = errors.Join(err, openErr); err == nil {
		err = errors.Join(journal.Begin(s.try, stepStop, stopPlan{}), journal.End(s.try, step), journal.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// run runs zooid migrate switch with some flags.
func (s *aSwitch) run(t *testing.T, code int, flags ...string) (says string) {
	t.Helper()
	var out bytes.Buffer
	args := append(append([]string{"migrate", "switch"}, flags...), "zk1", s.copied, s.cfg)
	if got := run(args, &out, &out); got != code {
		t.Errorf("%v: exit %d, want %d: %s", flags, got, code, &out)
	}
	return out.String()
}

// TestNothingToUndo: with -undo, a switch that has succeeded, was undone or never began says so, and changes nothing.
func TestNothingToUndo(t *testing.T) {
	t.Parallel()
	for step, want := range map[string]string{
		"":         "name the directory that it was given",
		stepUndone: "was undone already",
		stepServe:  "has succeeded, at ",
	} {
		s := newSwitch(t, step)
		held, err := proof.Hold(s.data) // by the server, as long as it serves
		if err != nil {
			t.Fatal(err)
		}
		says := s.run(t, switchRefused, "-undo")
		if !strings.Contains(says, want) || !strings.Contains(says, "nothing was changed") ||
			step != "" && !strings.Contains(says, string(s.try)) {
			t.Errorf("%q: it says %s", step, says)
		}
		if _, err := os.Stat(s.copied); step == "" && !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a wrong directory was made: %v", err)
		}
		if err := held.Release(); err != nil {
			t.Error(err)
		}
	}
	if says := newSwitch(t, "").run(t, exitUsage, "-undo", "-check"); !strings.Contains(says, "not both") {
		t.Errorf("-undo -check: %s", says)
	}
}

// TestSwitchTwice: a switch that has succeeded and is run again doesn't advise to stop the new server.
func TestSwitchTwice(t *testing.T) {
	t.Parallel()
	for _, runs := range []bool{true, false} { // the new server
		s := newSwitch(t, stepServe)
		err := (&proof.Mark{Try: s.try}).Put(s.data)
		if err == nil {
			err = os.WriteFile(filepath.Join(s.data, "IDENTITY"), nil, 0o600)
		}
		if err == nil {
			err = proof.Release(s.data, s.try)
		}
		if err != nil {
			t.Fatal(err)
		}
		if runs {
			held, err := proof.Hold(s.data)
			if err != nil {
				t.Fatal(err)
			}
			defer held.Release()
		}
		for _, flags := range [][]string{{"-stop", "exit 1"}, {"-check"}} {
			says := s.run(t, switchRefused, flags...)
			if !strings.Contains(says, "has succeeded already") || !strings.Contains(says, "Leave it running") ||
				strings.Contains(says, "systemctl") {
				t.Errorf("runs: %v, %v: it says %s", runs, flags, says)
			}
		}
	}
}

// TestOtherServer: a try that was cut short isn't resumed or undone with the zoo.cfg of another server, as long as the
// first one has data of the try.
func TestOtherServer(t *testing.T) {
	t.Parallel()
	first, second := t.TempDir(), t.TempDir()
	link := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(first, link); err != nil {
		t.Fatal(err)
	}
	try := proof.NewTry()
	refused := func(name, dir, step string, plan any, want bool) {
		t.Helper()
		r, said := stopping(t, "")
		r.server = &config.Config{}
		r.words[2], r.server.Storage.DataDir, r.server.Quorum.MyID = "2.cfg", dir, 2
		data, err := json.Marshal(plan)
		if err != nil {
			t.Fatal(err)
		}
		err = r.sameServer(proof.Record{Try: try, Step: step, Data: data})
		text := fmt.Sprint(err)
		if want != (err != nil) || want && (!strings.Contains(text, "the Zooid server 1, in "+first) ||
			!strings.Contains(text, "/1.cfg") || !strings.Contains(text, "the Zooid server 2, in "+second)) {
			t.Errorf("%s: %v; it says %s", name, err, said)
		}
		if name == "nothing made" && !strings.Contains(said.String(), "which has nothing of it") {
			t.Errorf("%s: it says %s", name, said)
		}
	}
	own := &ownServer{"/1.cfg", 1, first}
	refused("nothing made", second, stepStop, stopPlan{Server: own}, false)
	if err := (&proof.Mark{Try: try}).Put(first); err != nil {
		t.Fatal(err)
	}
	refused("no try", second, "", nil, false)
	refused("an older build's", second, stepStop, stopPlan{}, false)
	refused("made", second, stepStop, stopPlan{Server: own}, true)
	refused("the same", first, stepStop, stopPlan{Server: own}, false)
	refused("the same by a link", link, stepStop, stopPlan{Server: own}, false)
	if err := os.WriteFile(filepath.Join(first, "IDENTITY"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := proof.Release(first, try); err != nil {
		t.Fatal(err)
	}
	refused("released", second, stepRelease, releasePlan{Server: own}, true)
}

// terminalOf wraps a file.
type terminalOf struct{ *os.File }

func (w terminalOf) Unwrap() io.Writer { return w.File }

// TestStartCommandPrints: what the command of -start prints reaches the terminal, also if it is wrapped, as zooid does.
func TestStartCommandPrints(t *testing.T) {
	t.Parallel()
	r, _ := stopping(t, "")
	r.server, r.start = &config.Config{}, "echo starting; echo started >&2"
	printed, err := os.Create(filepath.Join(t.TempDir(), "printed"))
	if err != nil {
		t.Fatal(err)
	}
	defer printed.Close()
	if err := r.startAll(t.Context(), terminalOf{printed}); err != nil {
		t.Error(err)
	}
	if b, err := os.ReadFile(printed.Name()); err != nil || string(b) != "starting\nstarted\n" {
		t.Errorf("printed %q, %v", b, err)
	}
	if err := r.startAll(t.Context(), new(bytes.Buffer)); err != nil { // with nowhere to print
		t.Error(err)
	}
}
