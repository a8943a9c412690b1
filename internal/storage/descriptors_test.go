package storage

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// descriptorsEnv makes the test binary the process that runs out of descriptors.
const descriptorsEnv = "ZOOID_TEST_DESCRIPTORS"

// TestLogWithoutDescriptors: a process that has no descriptor left still opens what
// its log needs: new segments, and a snapshot.
func TestLogWithoutDescriptors(t *testing.T) {
	if dir := os.Getenv(descriptorsEnv); dir != "" {
		if err := withoutDescriptors(dir); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	t.Parallel()
	cmd := exec.Command(os.Args[0], "-test.run", "^TestLogWithoutDescriptors$")
	cmd.Env = append(os.Environ(), descriptorsEnv+"="+t.TempDir())
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func withoutDescriptors(dir string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Cur: 64, Max: 64}); err != nil {
		return err
	}
	fs := OS{}
	descriptors.fill()
	var all []*os.File
	for {
		f, err := os.Open(os.DevNull)
		if noDescriptors(err) {
			break
		}
		if err != nil {
			return err
		}
		all = append(all, f)
	}
	fmt.Println(len(all), "descriptors in use")
	for i := range 4 {
		name := filepath.Join(dir, fmt.Sprint(i))
		f, err := fs.Create(name)
		if err != nil {
			return fmt.Errorf("create %d: %w", i, err)
		}
		defer f.Close()
		if err := fs.SyncDir(dir); err != nil {
			return fmt.Errorf("sync the directory: %w", err)
		}
		if _, err := fs.ReadDir(dir); err != nil {
			return fmt.Errorf("read the directory: %w", err)
		}
	}
	return nil
}
