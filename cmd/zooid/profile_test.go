//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime/pprof"
	"strconv"
	"strings"
	"testing"
)

// profiled runs the program and writes where it spends its time into a directory.
func profiled(dir string, run func() int) int {
	file, err := os.Create(filepath.Join(dir, strconv.Itoa(os.Getpid())))
	if err == nil {
		err = pprof.StartCPUProfile(file)
	}
	if err != nil {
		panic(err)
	}
	defer pprof.StopCPUProfile()
	return run()
}

// TestMakeProfile writes default.pgo, by which the compiler decides what to inline, from servers under load: one alone
// and an ensemble of three.
func TestMakeProfile(t *testing.T) {
	result := os.Getenv("ZOOID_PROFILE")
	if result == "" {
		t.Skip("make profile runs it")
	}
	dir := t.TempDir()
	start := "ZOOID_TEST_ARGS='server {config}' ZOOID_TEST_PROFILE=" + dir + " exec " + os.Args[0]
	for _, members := range []string{"1", "3"} {
		for _, work := range []string{"get", "mixed", "set", "create", "multi", "children", "watch", "sessions"} {
			args := []string{"bench", work, "-members", members, "-start", start, "-time", "6s", "-quiet"}
			if code := run(args, os.Stderr, os.Stderr); code != 0 {
				t.Fatalf("%s: exit %d", strings.Join(args, " "), code)
			}
		}
	}
	files, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(files) < 8+3*8 {
		t.Fatalf("%d profiles: %v", len(files), err)
	}
	merged, err := exec.Command("go", append([]string{"tool", "pprof", "-proto"}, files...)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(result, merged, 0o644); err != nil {
		t.Fatal(err)
	}
}
