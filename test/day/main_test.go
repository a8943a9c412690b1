package day

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// inside is the variable that names the program's folder within the namespaces.
const inside = "ZOOID_DAY"

// TestMain runs the tests in namespaces of their own: of the network, so that servers have the usual ports, of mounts,
// so that a disk can be small, and of processes, so that none is left.
func TestMain(m *testing.M) {
	if os.Getenv(inside) != "" {
		os.Exit(m.Run())
	}
	os.Exit(runInside(m))
}

func runInside(m *testing.M) int {
	apart := []string{"--net", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc"}
	if os.Getuid() != 0 {
		apart = append(apart, "--map-root-user")
	}
	probe := append(append([]string{}, apart...), "sh", "-c", "ip link set lo up && mount -t tmpfs tmpfs /mnt")
	if out, err := exec.Command("unshare", probe...).CombinedOutput(); err != nil {
		fmt.Printf("no namespaces: %v %s\n", err, out)
		return m.Run() // which skips
	}
	dir, err := os.MkdirTemp("", "zooid-day")
	if err != nil {
		fmt.Println(err)
		return 1
	}
	defer os.RemoveAll(dir)
	build := exec.Command("go", "build", "-o", dir+"/zooid", "github.com/zooid-project/zooid/cmd/zooid")
	build.Env = append(os.Environ(), "CGO_ENABLED=0") // as a release; an image has no libraries
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Printf("build zooid: %v\n%s", err, out)
		return 1
	}
	// On a disk of its own, since what the commands say of room is that of the disk, whoever else fills it. Other users'
	// commands reach it.
	disk := filepath.Join(dir, "disk")
	if err := errors.Join(os.Mkdir(disk, 0o755), os.Chmod(dir, 0o711)); err != nil {
		fmt.Println(err)
		return 1
	}
	again := append(append(apart, "sh", "-c",
		`ip link set lo up && mount -t tmpfs -o size=4g,mode=1777 tmpfs "$TMPDIR" && exec "$@"`, "sh"), os.Args...)
	cmd := exec.Command("unshare", again...)
	cmd.Env = append(os.Environ(), inside+"="+dir, "TMPDIR="+disk)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	if err := cmd.Run(); err != nil {
		if cmd.ProcessState == nil {
			fmt.Println(err)
		}
		return 1
	}
	return 0
}
