package moving

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
)

// built is the folder of the programs that tests share: the first test that needs one builds it, TestMain removes all.
var built struct {
	mu  sync.Mutex
	dir string // "" if there is nothing yet
}

// removeBuilt removes what was built.
func removeBuilt() {
	if built.dir != "" {
		os.RemoveAll(built.dir)
	}
}

// program returns the path of a program, a file or a folder, which builder's command builds if it isn't there.
func program(t *testing.T, name string, builder func(path string) *exec.Cmd) string {
	t.Helper()
	built.mu.Lock()
	defer built.mu.Unlock()
	if built.dir == "" {
		dir, err := os.MkdirTemp("", "zooid-moving-")
		if err != nil {
			t.Fatal(err)
		}
		built.dir = dir
	}
	path := filepath.Join(built.dir, name)
	if _, err := os.Stat(path); err == nil {
		return path
	}
	if out, err := builder(path + ".new").CombinedOutput(); err != nil {
		t.Fatalf("build %s: %v\n%s", name, err, out)
	}
	if err := os.Rename(path+".new", path); err != nil {
		t.Fatal(err)
	}
	return path
}

// zooid returns the program under test.
func zooid(t *testing.T) string {
	t.Helper()
	if file := os.Getenv("ZOOID_COMPAT_BINARY"); file != "" {
		return file
	}
	return program(t, "zooid", func(path string) *exec.Cmd {
		build := exec.Command("go", "build", "-o", path, "./cmd/zooid")
		build.Dir = filepath.Join("..", "..", "..")
		return build
	})
}

// javaProgram returns java's arguments for a program of testdata's, compiled with the jars of a class path.
func javaProgram(t *testing.T, jars, name string) []string {
	t.Helper()
	classes := program(t, filepath.Base(filepath.Dir(jars))+"-"+name, func(path string) *exec.Cmd {
		return exec.Command("javac", "-nowarn", "-cp", jars, "-d", path, filepath.Join("testdata", name+".java"))
	})
	return append(slices.Clone(jvm), "-cp", jars+":"+classes, name)
}

// tried returns the versions or cases that a test tries: all of them, or with -short those that suffice.
func tried(all []string, short ...string) []string {
	if testing.Short() {
		return short
	}
	return all
}
