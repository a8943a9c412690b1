package day

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"
)

// A service is what the compose files of testdata say of one.
type service struct {
	Hostname    string
	Command     []string
	Volumes     []string
	Environment any // a map, or a list of NAME=VALUE
}

// An image is an unpacked one, with what it says of itself.
type image struct {
	root   string
	Config struct {
		User       string
		Entrypoint []string
		Cmd        []string
		Env        []string
	}
}

// A container stands for one of docker's: the image's files, its own network with its own address, and the variables
// and the command of a service.
type container struct {
	name, address, root, owner string
	env, argv                  []string
	holder                     *exec.Cmd // holds the network, as the container's name and address outlive its process
	server                     *exec.Cmd
	log                        bytes.Buffer
}

// TestExchangedImage runs the services of compose files for Apache's official image, and for Bitnami's, with this
// image in their place: unpacked, with the user, the entry point and the variables that a container would get.
func TestExchangedImage(t *testing.T) {
	if os.Getenv(inside) == "" || os.Getuid() != 0 {
		t.Skip("containers need root, and namespaces")
	}
	made := unpackedImage(t)
	for _, file := range []string{"official.yaml", "bitnami.yaml"} {
		t.Run(file, func(t *testing.T) {
			all := containersOf(t, made, filepath.Join("testdata", file))
			first, last := all[0], all[len(all)-1]
			for _, c := range all {
				c.start(t)
			}
			for _, c := range all {
				c.serves(t)
			}
			if out := first.zooid(t, "cli", "create", "/kept", "by "+file); !strings.Contains(out, "Created /kept") {
				t.Fatalf("create: %s", out)
			}
			modes := map[string]int{}
			for _, c := range all {
				_, after, _ := strings.Cut(c.zooid(t, "cli", "srvr"), "Mode: ")
				mode, _, _ := strings.Cut(after, "\n")
				modes[mode]++
			}
			if want := map[string]int{"leader": 1, "follower": 2}; !maps.Equal(modes, want) {
				t.Errorf("modes %v, want %v", modes, want)
			}
			for _, c := range all { // docker compose restart
				c.stop(t)
			}
			for _, c := range all {
				c.start(t)
			}
			for _, c := range all {
				c.serves(t)
			}
			if out := last.zooid(t, "cli", "get", "/kept"); strings.TrimSpace(out) != "by "+file {
				t.Errorf("after a restart /kept is %q", out)
			}
			for _, c := range all {
				c.stop(t)
			}
		})
	}
}

// unpackedImage makes the image as a release does, and unpacks it as docker does.
func unpackedImage(t *testing.T) *image {
	t.Helper()
	dir, from := t.TempDir(), t.TempDir()
	program, err := os.ReadFile(filepath.Join(os.Getenv(inside), "zooid"))
	if err != nil {
		t.Fatal(err)
	}
	for _, folder := range []string{"man", "html"} {
		if err := os.Mkdir(filepath.Join(from, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(from, "zooid"), program, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "image.tar")
	must(t, "go", "run", "../../deploy/pack", "image", from, "amd64", "1.2.3", "1000000000", file)
	packed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files := map[string][]byte{}
	untar(t, bytes.NewReader(packed), func(h *tar.Header, body []byte) { files[h.Name] = body })
	var manifest []struct {
		Config string
		Layers []string
	}
	i := &image{root: filepath.Join(dir, "root")}
	if err := json.Unmarshal(files["manifest.json"], &manifest); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(files[manifest[0].Config], i); err != nil {
		t.Fatal(err)
	}
	for _, layer := range manifest[0].Layers {
		r, err := gzip.NewReader(bytes.NewReader(files[layer]))
		if err != nil {
			t.Fatal(err)
		}
		untar(t, r, func(h *tar.Header, body []byte) {
			at := filepath.Join(i.root, h.Name)
			err := os.MkdirAll(filepath.Dir(at), 0o755)
			switch {
			case err != nil:
			case h.Typeflag == tar.TypeDir:
				err = os.MkdirAll(at, 0o755)
			default:
				err = os.WriteFile(at, body, 0o755)
			}
			if err == nil {
				err = os.Chown(at, h.Uid, h.Gid)
			}
			if err == nil {
				err = os.Chmod(at, h.FileInfo().Mode())
			}
			if err != nil {
				t.Fatal(err)
			}
		})
	}
	return i
}

func untar(t *testing.T, r io.Reader, each func(*tar.Header, []byte)) {
	t.Helper()
	for archive := tar.NewReader(r); ; {
		h, err := archive.Next()
		if err == io.EOF {
			return
		}
		var body []byte
		if err == nil {
			body, err = io.ReadAll(archive)
		}
		if err != nil {
			t.Fatal(err)
		}
		each(h, body)
	}
}

// containersOf makes the containers of a compose file, sorted by their services' names.
func containersOf(t *testing.T, made *image, file string) (all []*container) {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var compose struct{ Services map[string]service }
	if err := yaml.Unmarshal(text, &compose); err != nil {
		t.Fatal(err)
	}
	names := slices.Sorted(maps.Keys(compose.Services))
	hosts := "127.0.0.1 localhost\n"
	for i, name := range names {
		hosts += fmt.Sprintf("%s %s %s\n", addressOf(i), name, compose.Services[name].Hostname)
	}
	must(t, "ip", "link", "add", "bridge", "type", "bridge")
	t.Cleanup(func() { must(t, "ip", "link", "del", "bridge") })
	must(t, "ip", "link", "set", "bridge", "up")
	for i, name := range names {
		s := compose.Services[name]
		c := &container{name: name, address: addressOf(i), root: filepath.Join(t.TempDir(), name), owner: made.Config.User}
		must(t, "cp", "-a", made.root, c.root)
		if err := os.WriteFile(filepath.Join(c.root, "etc/hosts"), []byte(hosts), 0o644); err != nil {
			t.Fatal(err)
		}
		for _, v := range s.Volumes { // a new volume has what the image has there, or belongs to root
			_, at, _ := strings.Cut(v, ":")
			if err := os.MkdirAll(filepath.Join(c.root, at), 0o755); err != nil {
				t.Fatal(err)
			}
		}
		c.env = append(slices.Clone(made.Config.Env), variables(t, s.Environment)...)
		c.argv = slices.Concat(made.Config.Entrypoint, made.Config.Cmd)
		if s.Command != nil {
			c.argv = slices.Concat(made.Config.Entrypoint, s.Command)
		}
		c.joins(t, fmt.Sprint("c", i))
		all = append(all, c)
	}
	return all
}

func addressOf(i int) string { return fmt.Sprintf("198.18.0.%d", i+1) }

func variables(t *testing.T, environment any) (env []string) {
	t.Helper()
	switch e := environment.(type) {
	case map[string]any:
		for name, value := range e {
			env = append(env, fmt.Sprintf("%s=%v", name, value))
		}
	case []any:
		for _, line := range e {
			env = append(env, fmt.Sprint(line))
		}
	default:
		t.Fatalf("environment %T", e)
	}
	return env
}

// joins gives the container a network of its own, on the bridge.
func (c *container) joins(t *testing.T, link string) {
	t.Helper()
	c.holder = exec.Command("sleep", "infinity")
	c.holder.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET, Pdeathsig: syscall.SIGKILL}
	if err := c.holder.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		c.holder.Process.Kill()
		c.holder.Wait()
	})
	must(t, "ip", "link", "add", link, "type", "veth", "peer", "name", "eth0", "netns", fmt.Sprint(c.holder.Process.Pid))
	// The kernel removes the links of a namespace some time after its last process ended; the next container may need
	// the name before.
	t.Cleanup(func() { must(t, "ip", "link", "del", link) })
	must(t, "ip", "link", "set", link, "master", "bridge", "up")
	for _, args := range []string{"addr add " + c.address + "/24 dev eth0", "link set eth0 up", "link set lo up"} {
		must(t, c.within("ip", strings.Fields(args)...)...)
	}
}

// within returns a command that runs a program of this machine in the container's network.
func (c *container) within(program string, args ...string) []string {
	return append([]string{"nsenter", "-t", fmt.Sprint(c.holder.Process.Pid), "-n", program}, args...)
}

// command returns a command that runs in the container.
func (c *container) command(argv ...string) *exec.Cmd {
	chroot, err := exec.LookPath("chroot")
	if err != nil {
		panic(err) // coreutils
	}
	line := c.within(chroot, append([]string{"--userspec=" + c.owner, c.root}, argv...)...)
	cmd := exec.Command(line[0], line[1:]...)
	cmd.Env = c.env
	return cmd
}

func (c *container) start(t *testing.T) {
	t.Helper()
	c.log.Reset()
	c.server = c.command(c.argv...)
	c.server.Stdout, c.server.Stderr = &c.log, &c.log
	if err := c.server.Start(); err != nil {
		t.Fatal(err)
	}
	running := c.server
	t.Cleanup(func() {
		running.Process.Kill()
		running.Wait()
	})
}

// serves waits until the container's server answers a client.
func (c *container) serves(t *testing.T) {
	t.Helper()
	var out []byte
	for limit := time.Now().Add(patience); time.Now().Before(limit); time.Sleep(100 * time.Millisecond) {
		var err error
		if out, err = c.command("/usr/bin/zooid", "cli", "ls", "/").CombinedOutput(); err == nil {
			return
		}
	}
	c.stop(t)
	t.Fatalf("%s doesn't serve: %s\n%s", c.name, out, c.log.String())
}

func (c *container) zooid(t *testing.T, args ...string) string {
	t.Helper()
	out, err := c.command(append([]string{"/usr/bin/zooid"}, args...)...).CombinedOutput()
	if err != nil {
		t.Fatalf("%s: zooid %s: %v: %s", c.name, strings.Join(args, " "), err, out)
	}
	return string(out)
}

// stop ends the server as docker stop does: it must end by itself, with 0.
func (c *container) stop(t *testing.T) {
	t.Helper()
	c.server.Process.Signal(syscall.SIGTERM)
	if err := c.server.Wait(); err != nil {
		t.Errorf("%s ends with %v:\n%s", c.name, err, c.log.String())
	}
}

func must(t *testing.T, argv ...string) {
	t.Helper()
	if out, err := exec.Command(argv[0], argv[1:]...).CombinedOutput(); err != nil {
		t.Fatalf("%q: %v: %s", argv, err, out)
	}
}
