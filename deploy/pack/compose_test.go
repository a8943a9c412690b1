package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/setup"
)

// service is what compose.yaml may say of a service, by the keys of the Compose specification.
type service struct {
	Image       string
	Command     []string
	Healthcheck struct {
		Test     []string
		Interval time.Duration
	}
	Restart         string
	StopGracePeriod time.Duration `yaml:"stop_grace_period"`
	ReadOnly        bool          `yaml:"read_only"`
	CapDrop         []string      `yaml:"cap_drop"`
	SecurityOpt     []string      `yaml:"security_opt"`
	Ulimits         map[string]int
	Hostname        string
	Ports           []string
	Volumes         []string
}

// imageConfig returns the configuration of an image, and its name.
func imageConfig(t *testing.T) (user string, entrypoint, exposed []string, name string) {
	t.Helper()
	dir := t.TempDir()
	program, file := filepath.Join(dir, "zooid"), filepath.Join(dir, "image.tar")
	err := errors.Join(os.WriteFile(program, []byte("#! a program"), 0o755), os.Mkdir(filepath.Join(dir, "man"), 0o700),
		os.Mkdir(filepath.Join(dir, "html"), 0o700))
	if err != nil {
		t.Fatal(err)
	}
	if err := writeImage(dir, "amd64", "1.2.3", time.Unix(1e9, 0).UTC(), file); err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	files, _ := unpack(t, b)
	var docker []struct {
		Config   string
		RepoTags []string
	}
	if err := json.Unmarshal(files["manifest.json"], &docker); err != nil {
		t.Fatal(err)
	}
	var cfg struct {
		Config struct {
			User         string
			Entrypoint   []string
			ExposedPorts map[string]struct{}
		}
	}
	if err := json.Unmarshal(files[docker[0].Config], &cfg); err != nil {
		t.Fatal(err)
	}
	for port := range cfg.Config.ExposedPorts {
		exposed = append(exposed, strings.TrimSuffix(port, "/tcp"))
	}
	return cfg.Config.User, cfg.Config.Entrypoint, exposed, docker[0].RepoTags[0]
}

// TestCompose reads compose.yaml strictly and holds it to the image, and to the files that zooid init writes as its
// comment says: the program, the ports, the user and the folders are the same.
func TestCompose(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../compose/compose.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Server   service `yaml:"x-server"`
		Services map[string]service
	}
	strict := yaml.NewDecoder(strings.NewReader(string(text)))
	strict.KnownFields(true)
	if err := strict.Decode(&file); err != nil {
		t.Fatal(err)
	}
	user, entrypoint, exposed, name := imageConfig(t)
	dir := t.TempDir()
	hosts := []string{"zk1", "zk2", "zk3"}
	if _, err := setup.Write(setup.Options{Dir: dir, Hosts: hosts, At: "/etc/zooid", Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	comment, _, _ := strings.Cut(string(text), "x-server:")
	for _, says := range []string{
		"zooid init -dir files -at /etc/zooid " + strings.Join(hosts, " "),
		"chown -R " + strings.Split(user, ":")[0] + " files",
	} {
		if !strings.Contains(comment, says) {
			t.Errorf("its comment doesn't say %q", says)
		}
	}
	published := map[string]bool{}
	for i, host := range hosts {
		s, ok := file.Services[host]
		if !ok || len(file.Services) != len(hosts) || s.Hostname != host {
			t.Fatalf("there are the services %v, %s has the host name %q", file.Services, host, s.Hostname)
		}
		if repository, _, _ := strings.Cut(name, ":"); s.Image != repository+":${ZOOID_VERSION:-latest}" {
			t.Errorf("%s: the image is %s, and the one that is built %s", host, s.Image, name)
		}
		if test := s.Healthcheck.Test; len(test) < 4 || test[0] != "CMD" || test[1] != entrypoint[0] || test[2] != "health" ||
			!slices.Equal(s.Command, []string{"server", test[len(test)-1]}) {
			t.Errorf("%s: it runs %q, and its health is asked by %q", host, s.Command, test)
		}
		if !s.ReadOnly || !slices.Equal(s.CapDrop, []string{"ALL"}) ||
			!slices.Equal(s.SecurityOpt, []string{"no-new-privileges:true"}) || s.Ulimits["nofile"] < 65536 {
			t.Errorf("%s: it is not confined: %+v", host, s)
		}
		own := fmt.Sprint(i + 1)
		if !slices.Equal(s.Volumes, []string{"./files/" + own + ":/etc/zooid"}) || s.Command[1] != "/etc/zooid/zoo.cfg" {
			t.Errorf("%s: it has %q and reads %q", host, s.Volumes, s.Command[1])
		}
		written, err := os.ReadFile(filepath.Join(dir, own, "zoo.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(written), "\ndataDir=/etc/zooid/data\n") {
			t.Errorf("%s: its data isn't in its volume, and the rest is read only:\n%s", host, written)
		}
		here := filepath.Join(dir, own, "here.cfg")
		if err := os.WriteFile(here, []byte(strings.ReplaceAll(string(written), "/etc/zooid/", filepath.Join(dir, own)+"/")),
			0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(here, nil)
		if err != nil {
			t.Fatal(err)
		}
		m, _ := cfg.Quorum.Members.Find(cfg.Quorum.MyID)
		port := fmt.Sprint(cfg.Client.Port)
		if m.Addrs[0].Host != host || !slices.Contains(exposed, port) ||
			!slices.Contains(exposed, fmt.Sprint(m.Addrs[0].QuorumPort)) {
			t.Errorf("%s: the server is %+v, and the image exposes %q", host, m, exposed)
		}
		at, target, ok := strings.Cut(strings.TrimPrefix(s.Ports[0], "127.0.0.1:"), ":")
		if len(s.Ports) != 1 || !strings.HasPrefix(s.Ports[0], "127.0.0.1:") || !ok || target != port || published[at] {
			t.Errorf("%s: ports %q are published, clients are served at %s", host, s.Ports, port)
		}
		published[at] = true
	}
}
