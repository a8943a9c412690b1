//go:build unix

package external

import (
	"io/fs"
	"os"
	"os/exec"
	"syscall"
)

// ownGroup makes a command's process the leader of a process group, for killGroup.
func ownGroup(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true} }

// killGroup kills a process for which ownGroup was called, and its children.
func killGroup(cmd *exec.Cmd) { _ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }

// ownedBy reports whether a file belongs to root, to the server's user, or to the owner of another file.
func ownedBy(st, other fs.FileInfo) bool {
	sys, ok := st.Sys().(*syscall.Stat_t)
	of, known := other.Sys().(*syscall.Stat_t)
	return ok && (sys.Uid == 0 || int(sys.Uid) == os.Geteuid() || known && sys.Uid == of.Uid)
}
