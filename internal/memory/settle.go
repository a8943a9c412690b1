package memory

import (
	"bytes"
	"fmt"
	"io/fs"
	"runtime/debug"
)

// Settle gives back to the system what only the start of the program needed: garbage, and the
// pages of the program itself that were read once, a third of an empty server. Those come back
// from the system's cache, without a disk, when they are needed. root is the machine's
// file system: os.DirFS("/").
func Settle(root fs.FS) {
	debug.FreeOSMemory()
	for _, m := range programPages(root) {
		dropPages(m.from, m.to)
	}
}

// A mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// programPages returns where files are mapped that this process can't write to and hasn't
// changed: code and constants. There are none if the system doesn't say.
func programPages(root fs.FS) (list []mapping) {
	text, _ := fs.ReadFile(root, "proc/self/smaps")
	var m mapping
	candidate := false
	for line := range bytes.Lines(text) {
		var from, to uintptr
		var flags, offset, device string
		var inode uint64
		if n, _ := fmt.Sscanf(string(line), "%x-%x %s %s %s %d", &from, &to, &flags, &offset, &device, &inode); n == 6 {
			m, candidate = mapping{from, to}, inode != 0 && (flags == "r-xp" || flags == "r--p")
			continue
		}
		// What the linker of C wrote into constants isn't in the file.
		if rest, ok := bytes.CutPrefix(line, []byte("Anonymous:")); ok && candidate && string(bytes.TrimSpace(rest)) == "0 kB" {
			list = append(list, m)
		}
	}
	return list
}
