package compat

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// runGroup runs argv in folder with env added to the environment and returns everything it printed. All processes that
// it started are killed with it, and when ctx ends; none runs when runGroup returns. If the test binary itself is
// killed, argv keeps running: a client's suite stops its servers when it ends.
func runGroup(ctx context.Context, folder string, env, argv []string) (string, error) {
	var out bytes.Buffer
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir = folder
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	// A server left behind keeps the pipe open; wait for it no longer than stopping should take.
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		return "", err
	}
	err := command.Wait()
	endGroup(command.Process.Pid)
	return out.String(), err
}

// endGroup kills a process group and waits until its processes have ended: until then they hold their ports, which the
// next run may use.
func endGroup(group int) {
	for by := time.Now().Add(time.Minute); time.Now().Before(by); time.Sleep(5 * time.Millisecond) {
		if syscall.Kill(-group, syscall.SIGKILL) != nil || !groupRuns(group) {
			return
		}
	}
}

// groupRuns reports whether a process of the group runs. One that has ended holds nothing, even if nobody reaps it.
func groupRuns(group int) bool {
	files, _ := filepath.Glob("/proc/[0-9]*/stat") // the pattern is well formed
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			continue // it has ended meanwhile
		}
		// PID (NAME) STATE PARENT GROUP ...; a name may contain anything.
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		if len(fields) > 2 && fields[2] == strconv.Itoa(group) && fields[0] != "Z" && fields[0] != "X" {
			return true
		}
	}
	return false
}
