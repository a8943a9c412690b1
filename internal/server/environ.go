package server

import (
	"fmt"
	"math"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strings"
)

// A Variable is one line of the envi word.
type Variable struct{ Name, Value string }

// none is what Java says of a property it doesn't have.
const none = "<NA>"

// Environment returns what the envi word tells of the process: Apache's keys in
// Apache's order, with the nearest that a Go process has.
func (s *Server) Environment() []Variable {
	host, _ := os.Hostname()
	exe, _ := os.Executable()
	wd, _ := os.Getwd()
	var name, home string
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	free, most, total := processMemory()
	list := []Variable{
		{"zookeeper.version", s.opt.Version},
		{"host.name", host},
		{"java.version", runtime.Version()},
		{"java.vendor", "The Go Authors"},
		{"java.home", none},
		{"java.class.path", exe},
		{"java.library.path", none},
		{"java.io.tmpdir", os.TempDir()},
		{"java.compiler", runtime.Compiler},
		{"os.name", javaSystem(runtime.GOOS)},
		{"os.arch", runtime.GOARCH},
		{"os.version", kernelVersion()},
		{"user.name", name},
		{"user.home", home},
		{"user.dir", wd},
		{"os.memory.free", megabytes(free)},
		{"os.memory.max", megabytes(most)},
		{"os.memory.total", megabytes(total)},
	}
	for i := range list {
		if list[i].Value == "" {
			list[i].Value = none
		}
	}
	return list
}

func megabytes(n uint64) string { return fmt.Sprintf("%dMB", n>>20) }

// javaSystem is how Java calls an operating system.
func javaSystem(goos string) string {
	switch goos {
	case "darwin":
		return "Mac OS X"
	case "freebsd":
		return "FreeBSD"
	}
	return strings.ToUpper(goos[:1]) + goos[1:]
}

// kernelVersion returns the release of a Linux kernel; elsewhere it isn't known.
func kernelVersion() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return none
	}
	return strings.TrimSpace(string(b))
}

// processMemory returns the bytes of the heap that are free, those that the
// process may have (GOMEMLIMIT) and those that it has of the system.
func processMemory() (free, most, total uint64) {
	samples := []rtmetrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/total:bytes"}}
	rtmetrics.Read(samples)
	most = uint64(min(debug.SetMemoryLimit(-1), math.MaxInt64)) // -1 only asks
	return samples[0].Value.Uint64(), most, samples[1].Value.Uint64()
}

// openFiles returns how many files the process has open, -1 where that isn't
// known.
func openFiles() int64 {
	dir, err := os.Open("/proc/self/fd")
	if err != nil {
		return -1
	}
	defer dir.Close()
	names, err := dir.Readdirnames(-1)
	if err != nil {
		return -1
	}
	return int64(len(names)) - 1 // dir itself
}

// openFilesMax returns how many it may have, -1 where that isn't known.
func openFilesMax() int64 {
	b, err := os.ReadFile("/proc/self/limits")
	if err != nil {
		return -1
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(line, "Max open files"); ok {
			var soft int64
			if _, err := fmt.Sscan(rest, &soft); err == nil {
				return soft
			}
		}
	}
	return -1
}
