package storage

import (
	"fmt"
	"io"
	"io/fs"
	"maps"
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
)

// MemFS is a file system in memory that records what is durable and what isn't:
//
//   - a write reaches the cache that reads see; Fdatasync copies it to the disk,
//     in sectors of 512 bytes;
//   - create, rename and remove change the names that calls see; SyncDir makes them
//     durable;
//   - CrashClone returns the disk after a power cut: everything that was synced, and a
//     random part of the rest. A sector is kept or lost as a whole, and so is a rename.
//
// After a failed Fdatasync the pending sectors count as clean although they never reached the disk,
// as on every Linux file system: a second Fdatasync succeeds and changes nothing.
//
// MemFS uses no randomness of its own: the same calls and the same *rand.Rand give the same disk.
// Its methods may be called from any goroutine.
type MemFS struct {
	// Hook, if set, is called before each call. If it returns an error, that is the result of the call, and the call is
	// not carried out, except that a failing write first writes the bytes of a ShortWrite, and a failing fdatasync
	// drops the pending sectors. Hook may call CrashClone. Set it while no call is in progress.
	Hook func(Call) error
	// Budget, if not zero, is the size of the disk in bytes; calls that exceed it fail with ENOSPC.
	Budget uint64
	// Full is the error of calls that exceed Budget or FilesMax, ENOSPC if nil; for a quota it is EDQUOT.
	Full error
	// Quota makes Free and Files hide Budget and FilesMax, as with a quota.
	Quota bool
	// FilesMax, if not zero, is how many files the disk can have.
	FilesMax uint64
	// CopyOnWrite makes overwriting need as much room as writing: a write succeeds only if the disk has room for all of it
	// in addition to its content.
	CopyOnWrite bool
	// LieAboutSync makes Fdatasync and SyncDir report success and do nothing.
	LieAboutSync bool
	// KeepCache makes DropCache do nothing, which a kernel is free to do.
	KeepCache bool

	mu      sync.Mutex
	names   map[string]*memInode // what calls see
	durable map[string]*memInode // what a power cut leaves
	pending []nameChange         // from durable to names, in order
	dirs    map[string]bool
	locked  map[string]bool
}

// Call is one file system call, as shown to MemFS.Hook.
type Call struct {
	// open, create, rename, remove, readdir, syncdir, mkdir, read, write, truncate, allocate, writeout, fdatasync
	Op    string
	Name  string
	To    string // of a rename
	Off   int64  // of a read, write or writeout
	Bytes int64  // of a read, write or writeout; the new size for truncate and allocate
}

// ShortWrite is an error for a Hook to return from a write: N bytes are written, then Err is the result.
type ShortWrite struct {
	N   int
	Err error
}

func (e *ShortWrite) Error() string { return fmt.Sprintf("short write of %d bytes: %v", e.N, e.Err) }
func (e *ShortWrite) Unwrap() error { return e.Err }

// nameChange is one change of a directory that becomes durable as a whole: a name is removed, added, or both.
type nameChange struct {
	dir    string
	gone   string
	name   string
	target *memInode
}

// NewMemFS returns an empty file system without a size limit.
func NewMemFS() *MemFS {
	return &MemFS{
		names: map[string]*memInode{}, durable: map[string]*memInode{},
		dirs: map[string]bool{}, locked: map[string]bool{},
	}
}

func (m *MemFS) call(c Call) error {
	if m.Hook == nil {
		return nil
	}
	return m.Hook(c)
}

// OpenFile opens an existing file.
func (m *MemFS) OpenFile(name string) (File, error) {
	if err := m.call(Call{Op: "open", Name: name}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	inode, ok := m.names[name]
	if !ok {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return &memFile{fs: m, inode: inode}, nil
}

// OpenRead opens an existing file, which in a MemFS can be written too.
func (m *MemFS) OpenRead(name string) (File, error) { return m.OpenFile(name) }

// Create creates an empty file, or truncates an existing one.
func (m *MemFS) Create(name string) (File, error) {
	if err := m.call(Call{Op: "create", Name: name}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[path.Dir(name)] {
		return nil, &fs.PathError{Op: "create", Path: name, Err: fs.ErrNotExist}
	}
	inode, ok := m.names[name]
	if ok {
		inode.resize(0)
	} else if m.FilesMax != 0 && uint64(len(m.names)) >= m.FilesMax {
		return nil, &fs.PathError{Op: "create", Path: name, Err: m.fullError()}
	} else {
		inode = &memInode{name: name, dirty: map[int64]bool{}}
		m.names[name] = inode
		m.pending = append(m.pending, nameChange{dir: path.Dir(name), name: name, target: inode})
	}
	return &memFile{fs: m, inode: inode}, nil
}

// Rename moves a file; a power cut leaves it under the old name or under the new one.
func (m *MemFS) Rename(from, to string) error {
	if err := m.call(Call{Op: "rename", Name: from, To: to}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	inode, ok := m.names[from]
	if !ok {
		return &fs.PathError{Op: "rename", Path: from, Err: fs.ErrNotExist}
	}
	delete(m.names, from)
	inode.name = to
	m.names[to] = inode
	m.pending = append(m.pending, nameChange{dir: path.Dir(to), gone: from, name: to, target: inode})
	return nil
}

// Remove deletes a file's name; files that are open remain usable.
func (m *MemFS) Remove(name string) error {
	if err := m.call(Call{Op: "remove", Name: name}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if _, ok := m.names[name]; !ok {
		return &fs.PathError{Op: "remove", Path: name, Err: fs.ErrNotExist}
	}
	delete(m.names, name)
	m.pending = append(m.pending, nameChange{dir: path.Dir(name), gone: name})
	return nil
}

// ReadDir lists the names of dir's files, sorted.
func (m *MemFS) ReadDir(dir string) ([]string, error) {
	if err := m.call(Call{Op: "readdir", Name: dir}); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if !m.dirs[dir] {
		return nil, &fs.PathError{Op: "readdir", Path: dir, Err: fs.ErrNotExist}
	}
	var list []string
	for name := range m.names {
		if path.Dir(name) == dir {
			list = append(list, strings.TrimPrefix(name, dir+"/"))
		}
	}
	slices.Sort(list)
	return list, nil
}

// SyncDir makes the names of dir durable.
func (m *MemFS) SyncDir(dir string) error {
	if err := m.call(Call{Op: "syncdir", Name: dir}); err != nil {
		return err
	}
	if m.LieAboutSync {
		return nil
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	rest := m.pending[:0]
	for _, c := range m.pending {
		if c.dir == dir {
			c.apply(m.durable)
		} else {
			rest = append(rest, c)
		}
	}
	m.pending = rest
	return nil
}

// MkdirAll creates dir, which is durable at once.
func (m *MemFS) MkdirAll(dir string) error {
	if err := m.call(Call{Op: "mkdir", Name: dir}); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.dirs[dir] = true
	return nil
}

// Free returns the rest of Budget; without a Budget the disk has 1 TiB and is empty.
func (m *MemFS) Free(string) (free, total uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.Budget == 0 || m.Quota {
		return 1 << 40, 1 << 40, nil
	}
	used := m.usedLocked()
	return m.Budget - min(used, m.Budget), m.Budget, nil
}

// Files returns the rest of FilesMax, or zeros.
func (m *MemFS) Files(string) (free, total uint64, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.FilesMax == 0 || m.Quota {
		return 0, 0, nil
	}
	return m.FilesMax - min(uint64(len(m.names)), m.FilesMax), m.FilesMax, nil
}

func (m *MemFS) usedLocked() uint64 {
	var used uint64
	for _, inode := range m.names {
		used += uint64(len(inode.cache))
	}
	return used
}

// Lock locks dir until the Closer is closed.
func (m *MemFS) Lock(dir string) (io.Closer, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.locked[dir] {
		return nil, fmt.Errorf("lock %s: another process holds this data directory", dir)
	}
	m.locked[dir] = true
	return &memLock{m, dir}, nil
}

type memLock struct {
	fs  *MemFS
	dir string
}

func (l *memLock) Close() error {
	l.fs.mu.Lock()
	defer l.fs.mu.Unlock()
	delete(l.fs.locked, l.dir)
	return nil
}

// CrashClone returns the disk as a power cut now might leave it. rng decides which unsynced
// sectors, lengths and name changes survive.
func (m *MemFS) CrashClone(rng *rand.Rand) *MemFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	names := maps.Clone(m.durable)
	lucky := rng.IntN(4) == 0 // sometimes all names survive, so that half-written content appears under final names
	for _, c := range m.pending {
		if lucky || rng.IntN(2) == 0 {
			c.apply(names)
		}
	}
	return m.cloneLocked(names, func(inode *memInode) []byte { return inode.crashed(rng) })
}

// Reboot returns the file system that the next process finds if only the process died: with every
// name and, unless the cache was dropped, every byte, synced or not.
func (m *MemFS) Reboot() *MemFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.locked = map[string]bool{}
	return m
}

func (m *MemFS) cloneLocked(names map[string]*memInode, content func(*memInode) []byte) *MemFS {
	c := NewMemFS()
	c.Budget, c.FilesMax, c.Full, c.Quota, c.CopyOnWrite = m.Budget, m.FilesMax, m.Full, m.Quota, m.CopyOnWrite
	maps.Copy(c.dirs, m.dirs)
	copies := map[*memInode]*memInode{}
	for _, name := range slices.Sorted(maps.Keys(names)) {
		inode := names[name]
		if copies[inode] == nil {
			b := content(inode)
			copies[inode] = &memInode{name: name, cache: b, disk: slices.Clone(b), dirty: map[int64]bool{}}
		}
		c.names[name] = copies[inode]
		c.durable[name] = copies[inode]
	}
	return c
}

func (c nameChange) apply(names map[string]*memInode) {
	if c.gone != "" {
		delete(names, c.gone)
	}
	if c.target != nil {
		// Remove the file's former name, in case an earlier change that removed it was lost.
		for name, inode := range names {
			if inode == c.target {
				delete(names, name)
			}
		}
		names[c.name] = c.target
	}
}

// Clone returns an independent copy in which everything is durable, for tests that then damage the copy.
func (m *MemFS) Clone() *MemFS {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.cloneLocked(m.names, func(inode *memInode) []byte { return slices.Clone(inode.cache) })
}

// Damage replaces a file's content, in the cache and on the disk, with the result of change, to simulate bit rot. If
// change returns nil, the file is removed; a file that doesn't exist is created.
func (m *MemFS) Damage(name string, change func([]byte) []byte) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var old []byte
	if inode, ok := m.names[name]; ok {
		old = slices.Clone(inode.cache)
	}
	b := change(old)
	if b == nil {
		delete(m.names, name)
		delete(m.durable, name)
		return
	}
	inode := &memInode{name: name, cache: b, disk: slices.Clone(b), dirty: map[int64]bool{}}
	m.names[name], m.durable[name] = inode, inode
}

func (m *MemFS) reserveLocked(more int64) error {
	if m.Budget != 0 && more > 0 && m.usedLocked()+uint64(more) > m.Budget {
		return m.fullError()
	}
	return nil
}

func (m *MemFS) fullError() error {
	if m.Full != nil {
		return m.Full
	}
	return syscall.ENOSPC
}
