//go:build unix

package external

import (
	"os/exec"
	"syscall"
)

// ownGroup makes a command's process the leader of a process group, for killGroup.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a process that ownGroup has prepared, and its children.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
