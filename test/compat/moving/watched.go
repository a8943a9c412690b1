package moving

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A watched command runs while its test looks at what it does.
type watched struct {
	t     *testing.T
	cmd   *exec.Cmd
	out   output
	ended chan struct{} // closed when it has
}

// watch starts a command, which is killed at the end of the test.
func watch(t *testing.T, cmd *exec.Cmd) *watched {
	t.Helper()
	w := &watched{t: t, cmd: cmd, out: newOutput(t), ended: make(chan struct{})}
	cmd.Stdout, cmd.Stderr = w.out.file, w.out.file
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		cmd.Wait()
		close(w.ended)
	}()
	t.Cleanup(func() { cmd.Process.Kill(); <-w.ended })
	return w
}

// gone reports whether the command has ended.
func (w *watched) gone() bool {
	select {
	case <-w.ended:
		return true
	default:
		return false
	}
}

// until waits until the command is seen at what it is to do. It must not end before.
func (w *watched) until(what string, seen func() bool) {
	w.t.Helper()
	if !awaited(func() bool { return seen() || w.gone() }) || !seen() {
		w.t.Fatalf("%s isn't seen; the command: %v\n%s", what, w.state(), w.out.text())
	}
}

// state says how the command is, or how it has ended.
func (w *watched) state() string {
	if w.gone() {
		return w.cmd.ProcessState.String()
	}
	return "it goes on"
}

// exists reports whether there is a file.
func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// An output is what a program says, which is read while it goes on.
type output struct {
	t    *testing.T
	file *os.File
}

func newOutput(t *testing.T) output {
	t.Helper()
	file, err := os.Create(filepath.Join(t.TempDir(), "output"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { file.Close() })
	return output{t, file}
}

func (o output) text() string {
	o.t.Helper()
	text, err := os.ReadFile(o.file.Name())
	if err != nil {
		o.t.Fatal(err)
	}
	return string(text)
}
