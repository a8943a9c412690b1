package compat

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"syscall"
	"time"
)

// runGroup runs argv in folder with env added to the environment and returns all it printed. Whatever processes it
// started are ended with it, or when ctx ends. If the test binary itself is killed, argv runs on: a client's suite
// stops its servers at its own end.
func runGroup(ctx context.Context, folder string, env, argv []string) (string, error) {
	var out bytes.Buffer
	command := exec.CommandContext(ctx, argv[0], argv[1:]...)
	command.Dir = folder
	command.Env = append(os.Environ(), env...)
	command.Stdout, command.Stderr = &out, &out
	command.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	command.Cancel = func() error { return syscall.Kill(-command.Process.Pid, syscall.SIGKILL) }
	// A server left behind holds the pipe open; don't wait for it longer than a stop should take.
	command.WaitDelay = time.Second
	if err := command.Start(); err != nil {
		return "", err
	}
	err := command.Wait()
	syscall.Kill(-command.Process.Pid, syscall.SIGKILL) // an error says that nothing is left of the group
	return out.String(), err
}
