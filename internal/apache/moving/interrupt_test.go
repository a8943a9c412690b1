//go:build unix

package moving

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/proof"
)

// TestLeft: what a second interrupt tells about a switch and a return is what their journals say.
func TestLeft(t *testing.T) {
	t.Parallel()
	for want, write := range map[string]func(*proof.Journal, proof.Try) error{
		"No server was stopped":           nil,
		"were being stopped":              begun(stepStop),
		"may serve. Don't start Apache's": begun(stepRelease),
		"ended with the step serve":       func(j *proof.Journal, try proof.Try) error { return j.End(try, stepServe) },
	} {
		r := &switchRun{}
		r.words = []string{"zk1:2181", t.TempDir(), "zoo.cfg"}
		journalWith(t, filepath.Join(r.words[1], journalName), write)
		if left := r.left(); !strings.Contains(left, want) {
			t.Errorf("switch: %q, want %q", left, want)
		}
	}
	for want, write := range map[string]func(*proof.Journal, proof.Try) error{
		"No server was stopped":          nil,
		"were being stopped":             begun(stepStop),
		"may serve. Don't start Zooid's": begun(stepStart),
		"ended with the step serve":      func(j *proof.Journal, try proof.Try) error { return j.End(try, stepServe) },
	} {
		r, dir := &returnRun{}, t.TempDir()
		r.file = filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(r.file, []byte("clientPort=2181\ndataDir="+dir+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		journalWith(t, filepath.Join(dir, returnJournal), write)
		if left := r.left(); !strings.Contains(left, want) {
			t.Errorf("return: %q, want %q", left, want)
		}
	}
}

// begun writes that a step begins.
func begun(step string) func(*proof.Journal, proof.Try) error {
	return func(j *proof.Journal, try proof.Try) error { return j.Begin(try, step, nil) }
}

// journalWith makes a journal with a record.
func journalWith(t *testing.T, path string, write func(*proof.Journal, proof.Try) error) {
	t.Helper()
	if write == nil {
		return
	}
	j, _, err := proof.OpenJournal(path)
	if err == nil {
		err = write(j, proof.NewTry())
	}
	if err == nil {
		err = j.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
}
