package storage

import (
	"errors"
	"math"
	"path"
	"syscall"
	"testing"
)

// A blindFS is a file system that can't tell how much room it has.
type blindFS struct {
	*MemFS
	free, files error
}

func (f *blindFS) Free(dir string) (free, total uint64, err error) {
	if f.free != nil {
		return 0, 0, f.free
	}
	return f.MemFS.Free(dir)
}

func (f *blindFS) Files(dir string) (free, total uint64, err error) {
	if f.files != nil {
		return 0, 0, f.files
	}
	return f.MemFS.Files(dir)
}

// TestSpaceUnknown: where the disk doesn't say how much room it has, nothing is taken for room.
func TestSpaceUnknown(t *testing.T) {
	t.Parallel()
	for what, blind := range map[string]func(fs *blindFS){
		"free bytes": func(fs *blindFS) { fs.free = syscall.EIO },
		"free files": func(fs *blindFS) { fs.files = syscall.EIO },
	} {
		fs := &blindFS{MemFS: NewMemFS()}
		d := mustOpen(t, smallOptions(fs, 1))
		blind(fs)
		if state, err := d.SpaceState(); !errors.Is(err, syscall.EIO) || state != (SpaceState{}) {
			t.Errorf("%s unknown: the state is %+v, %v", what, state, err)
		}
		if err := d.RoomFor(1); (fs.free != nil) != errors.Is(err, syscall.EIO) { // files are looked at where it can be
			t.Errorf("%s unknown: room for a file: %v", what, err)
		}
		if _, err := Open(smallOptions(fs, 2).in("other")); !errors.Is(err, syscall.EIO) {
			t.Errorf("%s unknown: a log begins: %v", what, err)
		}
	}
}

// in returns the options for another directory.
func (o Options) in(dir string) Options {
	o.Dir = dir
	return o
}

// TestRoomForFiles: a snapshot that a peer announces needs a file, if the disk counts them.
func TestRoomForFiles(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	d := mustOpen(t, smallOptions(fs, 1))
	fs.FilesMax = 1 << 20
	free, total, err := fs.Files("")
	if err != nil || total != fs.FilesMax {
		t.Fatal(free, total, err)
	}
	for _, size := range []int64{-1, math.MinInt64} { // no size at all, rather than one for which there is no room
		if err := d.RoomFor(size); err == nil || errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%d bytes: %v", size, err)
		}
	}
	used := total - free
	fs.FilesMax = used + 1
	if err := d.RoomFor(1); err != nil {
		t.Errorf("a file is free: %v", err)
	}
	fs.FilesMax = used
	if err := d.RoomFor(1); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("no file is free: %v", err)
	}
}

// TestSpaceDefaults: the limits where nothing is configured, as the configuration's page says.
func TestSpaceDefaults(t *testing.T) {
	t.Parallel()
	want := SpaceLimits{WarnPercent: 20, RefusePercent: 5, RefuseBytes: 1 << 30, ReserveBytes: 16 << 20, adapts: true}
	if got := (SpaceLimits{}).withDefaults(); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	off := SpaceLimits{WarnPercent: -1, RefusePercent: -1, RefuseBytes: -1, ReserveBytes: -1}
	if got := off.withDefaults(); got != off {
		t.Errorf("without limits: %+v", got)
	}
}

// TestSpaceLimitsOf: a server, and doctor with it, refuses and warns by the size of the disk.
func TestSpaceLimitsOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		free, total uint64
		level       SpaceLevel
	}{
		{20 << 30, 4 << 40, SpaceOK}, // little of the disk, and enough
		{20<<30 - 1, 4 << 40, SpaceWarn},
		{1 << 30, 4 << 40, SpaceWarn},
		{1<<30 - 1, 4 << 40, SpaceRefuse},
		{200 << 20, 1000 << 20, SpaceOK}, // little, and enough of the disk
		{200<<20 - 1, 1000 << 20, SpaceWarn},
		{100 << 20, 1000 << 20, SpaceWarn},
		{100<<20 - 1, 1000 << 20, SpaceRefuse},
	} {
		if got := SpaceLimitsOf(c.total).Level(c.free, c.total, 0, 0); got != c.level {
			t.Errorf("%d of %d bytes: level %d, want %d", c.free, c.total, got, c.level)
		}
	}
}

// TestSpaceLevelsAtTheLimits: the levels change at their limits, of bytes and of files, and not beside them.
func TestSpaceLevelsAtTheLimits(t *testing.T) {
	t.Parallel()
	const total, files = 1000 << 20, 1 << 20
	for _, c := range []struct {
		what        string
		free, files uint64
		level       SpaceLevel
		short       bool
	}{
		{"all", total, files, SpaceOK, false},
		{"enough bytes", total / 5, files, SpaceOK, false},
		{"a byte less", total/5 - 1, files, SpaceWarn, false},
		{"twice the limit", total / 10, files, SpaceWarn, false},
		{"less than twice", total/10 - 1, files, SpaceWarn, true},
		{"the limit", total / 20, files, SpaceWarn, true},
		{"below the limit", total/20 - 1, files, SpaceRefuse, true},
		{"enough files", total, filesWarn, SpaceOK, false},
		{"a file less", total, filesWarn - 1, SpaceWarn, false},
		{"twice the limit of files", total, shortFactor * filesRefuse, SpaceWarn, false},
		{"less than twice the limit of files", total, shortFactor*filesRefuse - 1, SpaceWarn, true},
		{"the limit of files", total, filesRefuse, SpaceWarn, true},
		{"below the limit of files", total, filesRefuse - 1, SpaceRefuse, true},
		{"few bytes, and few files", total/20 - 1, filesWarn - 1, SpaceRefuse, true},
	} {
		s := space{fs: &countedFS{free: c.free, total: total, files: c.files, filesTotal: files}}
		s.limits = SpaceLimits{RefuseBytes: -1}.withDefaults()
		state, err := s.of("data")
		if err != nil || state.Level != c.level || state.Short != c.short {
			t.Errorf("%s: level %v, short %t, %v; want %v, %t", c.what, state.Level, state.Short, err, c.level, c.short)
		}
	}
}

// A countedFS says how much room there is, and does nothing else.
type countedFS struct {
	FS
	free, total, files, filesTotal uint64
}

func (f *countedFS) Free(string) (free, total uint64, err error)  { return f.free, f.total, nil }
func (f *countedFS) Files(string) (free, total uint64, err error) { return f.files, f.filesTotal, nil }

// TestSparesGivenUp: on a disk that is nearly full the log gives up its spares but one, and what is told of the room
// counts what they took. A spare that can't be removed ends the log.
func TestSparesGivenUp(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		fs := NewMemFS()
		d := mustOpen(t, smallOptions(fs, 1))
		s := &d.log.spares
		for _, name := range []string{"data/spare-7", "data/spare-8"} {
			f, err := fs.Create(name)
			if err != nil {
				t.Fatal(err)
			}
			if err := errors.Join(f.Allocate(d.log.target), f.Close()); err != nil {
				t.Fatal(err)
			}
		}
		s.ready = []string{"data/spare-7", "data/spare-8"}
		fs.Budget = 1 << 20
		before, _, _ := fs.Free("")
		d.space.limits = SpaceLimits{WarnPercent: -1, RefusePercent: -1, RefuseBytes: 1 << 30}
		if fails {
			fs.Hook = func(c Call) error {
				if c.Op == "remove" {
					return syscall.EIO
				}
				return nil
			}
		}
		state, err := d.SpaceState()
		fatal := (*FatalError)(nil)
		switch {
		case fails:
			if !errors.As(err, &fatal) || fatal.File != "data/spare-8" || d.log.Err() == nil {
				t.Errorf("a spare can't be removed: %v; the log: %v", err, d.log.Err())
			}
		case err != nil || len(s.ready) != 1 || state.Level != SpaceRefuse || state.Free != before+uint64(d.log.target):
			t.Errorf("%d spares are kept, %d bytes free after %d: %+v, %v", len(s.ready), state.Free, before, state, err)
		}
	}
}

// A dividedFS has another disk for each directory.
type dividedFS struct {
	*MemFS
	disks map[string]*countedFS
}

func (f *dividedFS) Free(dir string) (free, total uint64, err error)  { return f.disks[dir].Free(dir) }
func (f *dividedFS) Files(dir string) (free, total uint64, err error) { return f.disks[dir].Files(dir) }

// TestSpaceOfTwoDisks: of two disks the one is told of that is fuller, and the data directory's if both are as full;
// of files the fewest.
func TestSpaceOfTwoDisks(t *testing.T) {
	t.Parallel()
	const total = 1000 << 20
	for _, c := range []struct {
		what      string
		data, log countedFS
		level     SpaceLevel
		free      uint64
		files     uint64
	}{
		{"both empty", countedFS{free: total - 1, total: total}, countedFS{free: total, total: total}, SpaceOK, total - 1, 0},
		{"the log's fuller", countedFS{free: total, total: total}, countedFS{free: total / 10, total: total}, SpaceWarn,
			total / 10, 0},
		{"the other fuller", countedFS{free: total / 10, total: total}, countedFS{free: total, total: total}, SpaceWarn,
			total / 10, 0},
		{"files of the log's", countedFS{free: total, total: total}, countedFS{free: total - 1, total: total, files: 9000,
			filesTotal: 10000}, SpaceOK, total, 9000},
		{"files of both", countedFS{free: total, total: total, files: 8000, filesTotal: 9000}, countedFS{free: total,
			total: total, files: 9000, filesTotal: 10000}, SpaceOK, total, 8000},
	} {
		fs := &dividedFS{NewMemFS(), map[string]*countedFS{"data": &c.data, "log": &c.log}}
		o := smallOptions(fs, 1)
		o.LogDir, o.Space = "log", SpaceLimits{RefuseBytes: -1, ReserveBytes: -1}
		d := mustOpen(t, o)
		state, err := d.SpaceState()
		if err != nil || state.Level != c.level || state.Free != c.free || state.FilesFree != c.files {
			t.Errorf("%s: %+v, %v", c.what, state, err)
		}
		room := int64(c.log.free) - int64(d.space.limits.refuse(total)) + d.log.bytesOnDisk()
		if state.LogRoom != room {
			t.Errorf("%s: room for %d bytes of log, want %d", c.what, state.LogRoom, room)
		}
		c.data.free, c.log.free = total/20, total // is short, and fuller
		state, err = d.look()
		c.data.free, c.log.free = total, total/20
		other, otherErr := d.look()
		if err != nil || otherErr != nil || !state.Short || !other.Short {
			t.Errorf("%s: one of the disks is short: %+v, %v; %+v, %v", c.what, state, err, other, otherErr)
		}
		c.log.free = total
		if state, err := d.look(); err != nil || state.Short {
			t.Errorf("%s: none of them is short: %+v, %v", c.what, state, err)
		}
	}
}

// TestEmptyReserve: a reserve of which a crash has left only the name is made again at the next start, also where the
// power failed and the name alone reached the disk.
func TestEmptyReserve(t *testing.T) {
	t.Parallel()
	fs := NewMemFS()
	killed := errors.New("killed")
	fs.Hook = func(c Call) error {
		if c.Op == "allocate" && path.Base(c.Name) == reserveName {
			return killed
		}
		return nil
	}
	o := smallOptions(fs, 1)
	if _, err := Open(o); !errors.Is(err, killed) {
		t.Fatal(err)
	}
	for _, start := range []string{"after a crash", "after that"} {
		fs.Hook = nil
		o.FS = fs.Reboot()
		d := mustOpen(t, o)
		if n := len(fs.content(reserveName)); int64(n) != o.Space.ReserveBytes {
			t.Errorf("%s the reserve has %d bytes, want %d", start, n, o.Space.ReserveBytes)
		}
		fs.Hook = func(c Call) error {
			if c.Op == "create" && path.Base(c.Name) == reserveName {
				t.Errorf("%s a whole reserve is made again", start)
			}
			return nil
		}
		if err := errors.Join(d.Close(), mustOpen(t, o).Close()); err != nil {
			t.Fatal(err)
		}
	}
}
