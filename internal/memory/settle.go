package memory

import (
	"bytes"
	"fmt"
	"io/fs"
	"runtime/debug"
)

// Settle returns memory to the system that only the program's start needed: garbage, and pages of the program file
// that were read once, a third of an empty server. When needed, these come back from the system's cache, without disk
// access. root is the root file system: os.DirFS("/").
func Settle(root fs.FS) {
	debug.FreeOSMemory()
	for _, m := range programPages(root) {
		dropPages(m.from, m.to)
	}
}

// A mapping is a range of addresses.
type mapping struct{ from, to uintptr }

// programPages returns the mappings of files that this process can't write to and hasn't changed: code and constants.
// It returns none if the system doesn't list mappings.
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
		// Constants that the C linker has changed aren't in the file.
		if rest, ok := bytes.CutPrefix(line, []byte("Anonymous:")); ok && candidate &&
			string(bytes.TrimSpace(rest)) == "0 kB" {
			list = append(list, m)
		}
	}
	return list
}
