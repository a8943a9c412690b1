//go:build unix && !linux

package doctor

import "golang.org/x/sys/unix"

func spaceOf(path string) (s Space, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return s, err
	}
	return Space{
		Free: uint64(st.Bavail) * uint64(st.Bsize), Total: st.Blocks * uint64(st.Bsize), Inodes: st.Files,
		InodesFree: st.Ffree,
	}, nil
}
