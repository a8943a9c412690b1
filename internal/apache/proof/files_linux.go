package proof

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"
)

// procDir is where the kernel shows processes.
const procDir = "/proc"

// An inode identifies a file, by whatever path and in whatever mount namespace it was opened.
type inode struct{ device, number uint64 }

// Holders says which processes have files in directories open. There are two sources:
//
//   - /proc shows each process's open files, by device and inode, also those of containers. It shows only the user's
//     own processes unless the user is root, and only those of the pid namespace.
//   - The kernel grants a read lease (fcntl(2), F_SETLEASE) only if no process on the machine has the file open for
//     writing. Asking requires the file's owner or root, and a local file system.
//
// Without either source, the holders are unknown.
func Holders(dirs ...string) (Files, error) {
	paths, err := regular(dirs)
	if err != nil {
		return Files{}, err
	}
	names := map[inode]string{}
	for _, path := range paths {
		var st unix.Stat_t
		if unix.Stat(path, &st) == nil {
			names[inode{uint64(st.Dev), st.Ino}] = path
		}
	}
	f := shown(procDir, names)
	if f.Held != "" || f.Known {
		return f, nil
	}
	leases, why := leased(paths)
	switch {
	case leases.Held != "":
		return leases, nil
	case leases.Known:
		return leases, nil
	}
	f.Why += "; " + why
	return f, nil
}

// shown looks for open files among those of all processes.
func shown(proc string, names map[inode]string) Files {
	processes, err := filepath.Glob(filepath.Join(proc, "[0-9]*"))
	if err != nil || len(processes) == 0 {
		return Files{Why: proc + " shows no processes"}
	}
	unseen := 0
	for _, process := range processes {
		links, err := os.ReadDir(filepath.Join(process, "fd"))
		if err != nil {
			if !errors.Is(err, os.ErrNotExist) && !errors.Is(err, unix.ESRCH) { // it hasn't ended
				unseen++
			}
			continue
		}
		for _, link := range links {
			var st unix.Stat_t
			if unix.Stat(filepath.Join(process, "fd", link.Name()), &st) != nil {
				continue
			}
			if path := names[inode{uint64(st.Dev), st.Ino}]; path != "" {
				return Files{Held: fmt.Sprintf("the process %s has %s open", filepath.Base(process), path)}
			}
		}
	}
	switch {
	case unseen > 0:
		return Files{Why: fmt.Sprintf("the files of %d processes of other users can't be seen", unseen)}
	case !wholeProc(proc):
		return Files{Why: "the processes of other pid namespaces can't be seen"}
	}
	return Files{Known: true}
}

// firstPidNamespace is the inode of the pid namespace that has all processes of the machine (PROC_PID_INIT_INO).
const firstPidNamespace = 0xEFFFFFFC

// wholeProc reports whether /proc shows all processes of the machine. Mounted with hidepid, it hides other users'
// processes from all users but root.
func wholeProc(proc string) bool {
	if os.Geteuid() != 0 {
		return false
	}
	own, err := os.Readlink(filepath.Join(proc, "self", "ns", "pid"))
	return err == nil && own == "pid:["+strconv.FormatInt(firstPidNamespace, 10)+"]"
}

// localFiles are the file systems whose files no other machine can have open.
var localFiles = map[int64]bool{
	unix.EXT4_SUPER_MAGIC: true, unix.XFS_SUPER_MAGIC: true, unix.BTRFS_SUPER_MAGIC: true, unix.TMPFS_MAGIC: true,
	unix.F2FS_SUPER_MAGIC: true, unix.OVERLAYFS_SUPER_MAGIC: true, 0x2FC12FC1: true, // ZFS
}

// leased asks for a lease on each file. why says why that can't be done.
func leased(paths []string) (f Files, why string) {
	if len(paths) == 0 {
		return Files{}, "there is no file that a running server would have open"
	}
	for _, path := range paths {
		file, err := os.Open(path)
		if err != nil {
			return Files{}, err.Error()
		}
		err = lease(file)
		file.Close()
		switch {
		case errors.Is(err, unix.EAGAIN):
			return Files{Held: "a process of another user or another container has " + path + " open"}, ""
		case err != nil:
			return Files{}, fmt.Sprintf("can't tell whether a process writes %s: %v", path, err)
		}
	}
	return Files{Known: true}, ""
}

// errShared says that a file system may be in use by other machines.
var errShared = errors.New("the file system may be in use by other machines too")

// lease takes a lease and gives it back at once.
func lease(file *os.File) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(int(file.Fd()), &fs); err != nil {
		return err
	}
	if !localFiles[int64(fs.Type)] {
		return errShared
	}
	if _, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_RDLCK); err != nil {
		return err
	}
	_, err := unix.FcntlInt(file.Fd(), unix.F_SETLEASE, unix.F_UNLCK)
	return err
}
