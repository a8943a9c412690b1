package doctor

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/zooid-project/zooid/internal/socket"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/internal/tool/cli"
)

// World is what an examination examines in addition to the files of the configuration. Tests replace it.
type World struct {
	// System is the root of the file system, for the kernel's reports.
	System fs.FS
	// Resolve returns the addresses of a name.
	Resolve func(ctx context.Context, host string) ([]string, error)
	// Local returns the addresses of this machine.
	Local func() ([]string, error)
	// Listen tries to listen on an address.
	Listen func(addr string) error
	// Ask asks a server a four-letter word.
	Ask func(ctx context.Context, by *access.Access, addr, word string) (string, error)
	// OpenFiles returns the limit of open files, 0 if there is none or it isn't known.
	OpenFiles func() int64
	// Space returns the bytes and inodes of a path's file system, and the kind of it.
	Space func(path string) (Space, error)
	// Fsync returns the durations of n small writes to a directory, each made durable.
	Fsync func(dir string, n int) ([]time.Duration, error)
	// FsyncPatience bounds the wait for that.
	FsyncPatience time.Duration
	// Running reports whether a server runs on the directories.
	Running func(dirs ...string) bool
	Now     func() time.Time
	UID     int
	// Reach names the certificates with which other servers are asked. What it leaves out comes from the configuration.
	Reach cli.Access
}

// Space is the space of a file system.
type Space struct {
	Free, Total   uint64 // bytes
	Inodes        uint64
	InodesFree    uint64
	KindName      string // the name of the kind, if it is unsuitable for a log; else ""
	Copies        string // the file system's name if overwriting a file there needs room; else empty
	KindsUnstable bool   // its contents are lost when the machine loses power
}

// Here returns the World of the machine that this runs on.
func Here() *World {
	return &World{
		System:  os.DirFS("/"),
		Resolve: net.DefaultResolver.LookupHost,
		Local: func() (all []string, err error) {
			list, err := net.InterfaceAddrs()
			for _, l := range list {
				if n, ok := l.(*net.IPNet); ok {
					all = append(all, n.IP.String())
				}
			}
			return all, err
		},
		Listen: func(addr string) error {
			l, err := net.Listen("tcp", addr)
			if err == nil {
				socket.CloseListener(l)
			}
			return err
		},
		Ask: (func(ctx context.Context, by *access.Access, addr, word string) (string, error) {
			return by.Ask(ctx, addr, word)
		}),
		OpenFiles: openFiles,
		Space:     spaceOf,
		Fsync:     fsyncs,

		FsyncPatience: 20 * time.Second,
		Running:       running,
		Now:           time.Now,
		UID:           os.Getuid(),
	}
}

func openFiles() int64 {
	var l unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &l); err != nil || l.Max > 1<<40 {
		return 0
	}
	return int64(l.Max) // Go raises the soft limit to it
}

// running reports whether a process has locked one of the directories.
func running(dirs ...string) bool {
	for _, dir := range dirs {
		if _, err := os.Stat(dir); err != nil {
			continue
		}
		if !storage.InUse(dir) {
			continue // Lock would create a lock file
		}
		lock, err := storage.OS{}.Lock(dir)
		if err != nil {
			return errors.Is(err, syscall.EWOULDBLOCK)
		}
		lock.Close()
	}
	return false
}

// probeBytes is the size of the writes that measure a disk: that of a small batch.
const probeBytes = 4 << 10

// fsyncs times n writes to a file of its own. It writes as the log does: in place, within the file's length.
func fsyncs(dir string, n int) (took []time.Duration, err error) {
	path := filepath.Join(dir, fmt.Sprintf("doctor-%d.tmp", os.Getpid()))
	file, err := (storage.OS{}).Create(path)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, file.Close(), os.Remove(path)) }()
	block := make([]byte, probeBytes)
	if err := file.Allocate(int64(n+1) * probeBytes); err != nil {
		return nil, err
	}
	for i := range n + 1 {
		began := time.Now()
		if _, err := file.WriteAt(block, int64(i)*probeBytes); err != nil {
			return nil, err
		}
		if err := file.Fdatasync(); err != nil {
			return nil, err
		}
		if i > 0 { // the first write makes the length durable, too
			took = append(took, time.Since(began))
		}
	}
	slices.Sort(took)
	return took, nil
}
