// Package machine describes the machine on which figures were measured.
package machine

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Facts describe the machine on which figures were measured. Unknown fields are empty.
type Facts struct {
	Cores     int    `json:"cores"`
	Processor string `json:"processor,omitempty"`
	MemoryMiB int64  `json:"memory_mib,omitempty"`
	Kernel    string `json:"kernel,omitempty"`
	Disk      string `json:"disk,omitempty"` // file system of the data directories
	Go        string `json:"go"`
	Java      string `json:"java,omitempty"`
	Commit    string `json:"commit,omitempty"`
}

// askMax bounds how long another program that reports a fact may run.
const askMax = 5 * time.Second

// Describe collects the facts. dir is where data directories are created; "" is the system's temporary directory.
// commit, if not "", replaces the commit recorded in the binary.
func Describe(ctx context.Context, dir, commit string) Facts {
	m := Facts{Cores: runtime.NumCPU(), Go: runtime.Version(), Commit: commit}
	m.Processor = lineField("/proc/cpuinfo", "model name")
	if kb, err := strconv.ParseInt(strings.TrimSuffix(lineField("/proc/meminfo", "MemTotal"), " kB"), 10, 64); err == nil {
		m.MemoryMiB = kb / 1024
	}
	if b, err := os.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		m.Kernel = runtime.GOOS + " " + strings.TrimSpace(string(b))
	}
	m.Disk = fileSystem(dir)
	ctx, cancel := context.WithTimeout(ctx, askMax)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "java", "-version").CombinedOutput(); err == nil {
		m.Java, _, _ = strings.Cut(string(out), "\n")
	}
	if m.Commit == "" {
		m.Commit = builtCommit()
	}
	return m
}

// lineField returns the value of a "name : value" line of a file in /proc.
func lineField(file, name string) string {
	b, _ := os.ReadFile(file)
	for line := range strings.Lines(string(b)) {
		if k, v, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(k) == name {
			return strings.TrimSpace(v)
		}
	}
	return ""
}

// builtCommit returns the commit from which this binary was built, if the build recorded it.
func builtCommit() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	commit, dirty := "", ""
	for _, s := range info.Settings {
		switch s.Key {
		case "vcs.revision":
			commit = s.Value[:min(len(s.Value), 12)]
		case "vcs.modified":
			if s.Value == "true" {
				dirty = " with changes"
			}
		}
	}
	return commit + dirty
}

// tmpfsMagic is the type that statfs returns for a file system in memory.
const tmpfsMagic = 0x01021994

// fileSystem returns the kind of dir's file system, as far as it affects figures.
func fileSystem(dir string) string {
	dir = cmp.Or(dir, os.TempDir())
	var st syscall.Statfs_t
	if err := syscall.Statfs(dir, &st); err != nil {
		return ""
	}
	if int64(st.Type) == tmpfsMagic {
		return "in memory: syncs cost nothing, figures of writes mean nothing"
	}
	return fmt.Sprintf("on disk (type %#x)", st.Type)
}

// Write writes the facts as lines of a list.
func (m Facts) Write(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "- machine: %d cores", m.Cores)
	if m.Processor != "" {
		fmt.Fprintf(&b, " (%s)", m.Processor)
	}
	if m.MemoryMiB > 0 {
		fmt.Fprintf(&b, ", %.1f GiB of memory", float64(m.MemoryMiB)/1024)
	}
	if m.Kernel != "" {
		fmt.Fprintf(&b, ", %s", m.Kernel)
	}
	fmt.Fprintf(&b, "\n- data directories: %s\n- %s", orUnknown(m.Disk), m.Go)
	if m.Java != "" {
		fmt.Fprintf(&b, ", %s", m.Java)
	}
	fmt.Fprintf(&b, "\n- commit: %s\n", orUnknown(m.Commit))
	_, err := io.WriteString(w, b.String())
	return err
}

func orUnknown(s string) string {
	if s == "" {
		return "unknown"
	}
	return s
}
