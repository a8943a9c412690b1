package fourletter

import (
	"cmp"
	"fmt"
	"math"
	"os"
	"os/user"
	"runtime"
	"runtime/debug"
	rtmetrics "runtime/metrics"
	"strings"
)

// none is what Java prints for a property that doesn't exist.
const none = "<NA>"

// Environment returns what envi prints about this process: Apache's keys in Apache's order, with the closest
// equivalents that a Go process has. version is the server's.
func Environment(version string) []Variable {
	host, _ := os.Hostname()
	exe, _ := os.Executable()
	wd, _ := os.Getwd()
	var name, home string
	if u, err := user.Current(); err == nil {
		name, home = u.Username, u.HomeDir
	}
	free, most, total := processMemory()
	list := []Variable{
		{Name: "zookeeper.version", Value: version},
		{Name: "host.name", Value: host},
		{Name: "java.version", Value: runtime.Version()},
		{Name: "java.vendor", Value: "The Go Authors"},
		{Name: "java.home", Value: none},
		{Name: "java.class.path", Value: exe},
		{Name: "java.library.path", Value: none},
		{Name: "java.io.tmpdir", Value: os.TempDir()},
		{Name: "java.compiler", Value: runtime.Compiler},
		{Name: "os.name", Value: javaSystem(runtime.GOOS)},
		{Name: "os.arch", Value: runtime.GOARCH},
		{Name: "os.version", Value: kernelVersion()},
		{Name: "user.name", Value: name},
		{Name: "user.home", Value: home},
		{Name: "user.dir", Value: wd},
		{Name: "os.memory.free", Value: megabytes(free)},
		{Name: "os.memory.max", Value: megabytes(most)},
		{Name: "os.memory.total", Value: megabytes(total)},
	}
	for i := range list {
		list[i].Value = cmp.Or(list[i].Value, none)
	}
	return list
}

func megabytes(n uint64) string { return fmt.Sprintf("%dMB", n>>20) }

// javaSystem returns Java's name of an operating system.
func javaSystem(goos string) string {
	switch goos {
	case "darwin":
		return "Mac OS X"
	case "freebsd":
		return "FreeBSD"
	}
	return strings.ToUpper(goos[:1]) + goos[1:]
}

// kernelVersion returns the release of the Linux kernel, or none on other systems.
func kernelVersion() string {
	b, err := os.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		return none
	}
	return strings.TrimSpace(string(b))
}

// processMemory returns the free bytes of the heap, the bytes that the process may use
// (GOMEMLIMIT), and the bytes that it has obtained from the system.
func processMemory() (free, most, total uint64) {
	samples := []rtmetrics.Sample{{Name: "/memory/classes/heap/free:bytes"}, {Name: "/memory/classes/total:bytes"}}
	rtmetrics.Read(samples)
	most = uint64(min(debug.SetMemoryLimit(-1), math.MaxInt64)) // -1 only reads the limit
	return samples[0].Value.Uint64(), most, samples[1].Value.Uint64()
}
