package compat

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// runGroup runs argv in folder with env added to the environment and returns everything it printed. All processes that
// it started are killed with it, and when ctx ends. If the test binary itself is killed, argv keeps running: a
// client's suite stops its servers when it ends.
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
	syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // an error means that the group has no processes left
	return out.String(), err
}
