//go:build unix

package terminal

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// TestSecondInterrupt: the first interrupt ends the command's context, the second one the process, with a line that
// says what is left and the exit code of the signal. The same interrupt that arrives twice at once counts as one.
func TestSecondInterrupt(t *testing.T) {
	if os.Getenv("ZOOID_TEST_INTERRUPT") != "" { // the process that is interrupted
		left := func() string { return "nothing is left" }
		ctx, _ := Interruptible([]os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP}, left, os.Stderr)
		fmt.Println("begun")
		<-ctx.Done()
		time.Sleep(signalsApart)
		fmt.Println("ending")
		time.Sleep(time.Minute)
		os.Exit(1)
	}
	t.Parallel()
	for _, s := range []syscall.Signal{syscall.SIGINT, syscall.SIGTERM} {
		cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSecondInterrupt$")
		cmd.Env = append(os.Environ(), "ZOOID_TEST_INTERRUPT=1")
		var said strings.Builder
		cmd.Stderr = &said
		out, err := cmd.StdoutPipe()
		if err == nil {
			err = cmd.Start()
		}
		if err != nil {
			t.Fatal(err)
		}
		for lines := bufio.NewScanner(out); lines.Scan(); {
			switch lines.Text() {
			case "begun":
				cmd.Process.Signal(s)
				cmd.Process.Signal(s)
			case "ending":
				cmd.Process.Signal(syscall.SIGHUP) // a lost terminal changes nothing
				cmd.Process.Signal(s)
			}
		}
		cmd.Wait()
		want := "\nnothing is left\n"
		if code := cmd.ProcessState.ExitCode(); code != 128+int(s) || said.String() != want {
			t.Errorf("%v: exit code %d, %q; want %q", s, code, said.String(), want)
		}
	}
}
