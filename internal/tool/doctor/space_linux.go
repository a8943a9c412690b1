package doctor

import (
	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/storage"
)

// Kinds of file system on which a log is slow, or not durable.
var kinds = map[int64]struct {
	name     string
	unstable bool
}{
	unix.TMPFS_MAGIC:           {"tmpfs", true},
	unix.RAMFS_MAGIC:           {"ramfs", true},
	unix.NFS_SUPER_MAGIC:       {"NFS", false},
	unix.SMB_SUPER_MAGIC:       {"SMB", false},
	unix.CIFS_SUPER_MAGIC:      {"CIFS", false},
	unix.OVERLAYFS_SUPER_MAGIC: {"overlayfs", false},
	unix.FUSE_SUPER_MAGIC:      {"FUSE", false},
}

func spaceOf(path string) (s Space, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return s, err
	}
	k := kinds[int64(st.Type)]
	return Space{
		Copies: storage.CopiesOnWrite(path),
		Free:   st.Bavail * uint64(st.Bsize), Total: st.Blocks * uint64(st.Bsize), Inodes: st.Files, InodesFree: st.Ffree,
		KindName: k.name, KindsUnstable: k.unstable,
	}, nil
}
