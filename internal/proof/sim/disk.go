package sim

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"syscall"

	"github.com/zooid-project/zooid/internal/storage"
)

// reserveBytes is the size of the reserve, small like everything here.
const reserveBytes = 16 << 10

// powerCut is the panic value of a file system call in which the power goes off.
var powerCut = errors.New("the power is off")

// A disk is a server's file system with its faults.
type disk struct {
	fs   *storage.MemFS
	w    *World
	s    *host
	life *life

	off      bool // the power went off in this life
	cutIn    int  // calls until the power goes off, 0 for never
	cutNames bool // count only the calls that change names
	errorIn  int  // calls until one fails with EIO, 0 for never; if negative, only writes of a peer's snapshot count
	// receiving is true while a peer's snapshot is being written.
	receiving bool
	errored   bool // a call failed, so the process has to stop
	full      bool // ENOSPC is possible, or was lately
	slow      int64
	slowTo    int64 // when it is slow no more
	hung      hung
	waited    bool   // the write under way has waited for slow and hung
	appending bool   // a write of the log is made
	slowUntil int64  // when the last slow sync is over
	rotten    bool   // has been damaged
	wrote     uint64 // the log's last entry before its last write began
	lied      bool   // has confirmed syncs that it didn't do
	survivor  *storage.MemFS
}

// begin prepares the disk for a new process.
func (d *disk) begin(l *life) {
	d.life, d.off, d.errored, d.waited, d.appending = l, false, false, false, false
	d.fs.Hook = d.call
}

// reboot leaves the disk as it is after its process has ended.
func (d *disk) reboot() {
	d.fs = d.fs.Reboot()
	d.cutIn, d.errorIn = 0, 0
}

// damaged reports whether nothing on the disk can be relied on.
func (d *disk) damaged() bool { return d.rotten || d.lied }

// failing reports whether a storage error was planted.
func (d *disk) failing(err error) bool {
	return d.errored && errors.Is(err, syscall.EIO) || d.full && errors.Is(err, syscall.ENOSPC) || d.rotten
}

// call sees each file system call before it happens. Reads get no faults:
// storage reads on goroutines of its own, in no fixed order.
func (d *disk) call(c storage.Call) error {
	switch c.Op {
	case "write", "fdatasync", "syncdir", "rename", "create", "remove", "truncate", "allocate":
	default:
		return nil
	}
	if d.off {
		return powerCut
	}
	names := c.Op == "syncdir" || c.Op == "rename" || c.Op == "create" || c.Op == "remove"
	if d.cutIn > 0 && (names || !d.cutNames) {
		if d.cutIn--; d.cutIn == 0 {
			d.cutPower()
			panic(powerCut)
		}
	}
	if c.Op == "fdatasync" || c.Op == "syncdir" {
		if wait := d.waits(c); wait > 0 {
			d.life.elapsed += wait
			d.life.stand(d.w.now + d.life.elapsed)
		}
	}
	if c.Op == "fdatasync" {
		d.w.stats.Syncs++
		d.life.elapsed += d.w.plan.Sync
		if !d.waited && d.w.now+d.life.elapsed < d.slowTo {
			d.life.elapsed += d.slow
		}
		if chance(d.w.diskDice, 1) {
			d.life.elapsed += between(d.w.diskDice, 0, 20*d.w.plan.Sync)
		}
		if d.slow > 0 {
			d.slowUntil = d.w.now + d.life.elapsed
		}
	}
	if d.errorIn > 0 && c.Op != "remove" || d.errorIn < 0 && d.receiving {
		if d.errorIn -= sign(d.errorIn); d.errorIn == 0 {
			d.errored = true
			if c.Op == "write" && chance(d.w.diskDice, 50) {
				return &storage.ShortWrite{N: int(between(d.w.diskDice, 0, c.Bytes)), Err: syscall.EIO}
			}
			return syscall.EIO
		}
	}
	return nil
}

func sign(n int) int { return cmp.Compare(n, 0) }

// cutPower saves the disk's content after a power cut.
func (d *disk) cutPower() {
	lying := d.fs.LieAboutSync
	d.survivor = d.fs.CrashClone(d.w.diskDice)
	d.survivor.LieAboutSync = lying
	d.off = true
}

// lostPower ends a process whose power went off, now or in the call that it was
// making.
func (s *host) lostPower() {
	d := &s.disk
	if d.survivor == nil {
		d.cutPower()
	}
	s.end(true)
	d.fs, d.survivor = d.survivor, nil
	d.cutIn, d.errorIn = 0, 0
}

// rot damages one of the files that hold the server's promises.
func (d *disk) rot() {
	var files []string
	for _, dir := range slices.Compact([]string{dataDir, d.w.logDir()}) {
		names, err := d.fs.ReadDir(dir)
		if err != nil {
			return
		}
		for _, name := range names {
			if strings.HasSuffix(name, ".log") || strings.HasSuffix(name, ".snap") {
				files = append(files, dir+"/"+name)
			}
		}
	}
	if len(files) == 0 {
		return
	}
	name := files[d.w.faultDice.IntN(len(files))]
	d.rotten = true
	d.fs.Damage(name, func(b []byte) []byte {
		if len(b) == 0 {
			return b
		}
		// Pick a byte that isn't zero: segments are mostly zeros at first.
		at := d.w.faultDice.IntN(len(b))
		for range len(b) {
			if b[at] != 0 {
				break
			}
			at = (at + 1) % len(b)
		}
		b[at] ^= 1 << d.w.faultDice.IntN(8)
		return b
	})
}
