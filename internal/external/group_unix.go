//go:build unix

package external

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command's process the head of a group, which ends with it.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup ends a process that ownGroup has prepared, and its children.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
