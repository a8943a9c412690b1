package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/jute"
)

// TestMemberFiles: a change of membership ends up in a dynamic file that zoo.cfg
// points to, and the server starts from it the next time.
func TestMemberFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	before := "dataDir=" + dir + "\ninitLimit=5\nsyncLimit=2\nreconfigEnabled=true\n# kept\nserver.1=h1:1:2;2181\nserver.2=h2:1:2;2181\nserver.3=h3:1:2;2181\n"
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	read := func(name string) string {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	}
	load := func() *config.Config {
		t.Helper()
		cfg, err := config.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		return cfg
	}
	write("myid", "1\n")
	write("zoo.cfg", before)
	var log strings.Builder
	files := &memberFiles{cfg: load(), log: slog.New(slog.NewTextHandler(&log, nil))}
	running := &reloader{args: []string{file}, began: load(), now: load(), log: files.log}
	first := withoutVersion(files.cfg.Quorum.Members)
	files.save(first+"version=200000001", 0x200000001)
	files.save("server.1=h1:1:2:participant;0.0.0.0:2181\nserver.4=h4:1:2:observer;0.0.0.0:2181\nserver.5=h5:1:2:participant;0.0.0.0:2181\nversion=20000000a",
		0x20000000a)
	if got := read("zoo.cfg.bak"); got != before {
		t.Errorf("the copy of the first zoo.cfg is\n%s", got)
	}
	if got := read("zoo.cfg.dynamic.200000001"); got != strings.TrimSuffix(first, "\n") {
		t.Errorf("the first dynamic file is\n%s", got)
	}
	if got := read("zoo.cfg"); strings.Contains(got, "server.") || !strings.Contains(got, "# kept\n") ||
		!strings.HasSuffix(got, "dynamicConfigFile="+file+".dynamic.20000000a\n") {
		t.Errorf("zoo.cfg is\n%s", got)
	}
	// what the server has written itself needs none
	if done, err := running.reload(); err != nil || len(done.NeedRestart) > 0 {
		t.Errorf("reload after a change of membership: %+v, %v", done, err)
	}
	cfg := load()
	if m := cfg.Quorum.Members; m.Version != 0x20000000a || len(m.Servers) != 3 || m.Servers[1].ID != 4 ||
		!m.Servers[1].Observer || cfg.Client.Port != 2181 {
		t.Errorf("loaded anew: %+v, client port %d", m, cfg.Client.Port)
	}
	// A start on the same membership changes nothing.
	again := &memberFiles{cfg: cfg, log: files.log}
	was := read("zoo.cfg")
	again.save(cfg.Quorum.Members.String(), 0x20000000a)
	// A file of that version that an earlier ensemble has left is replaced.
	other := strings.Replace(cfg.Quorum.Members.String(), "h5", "h9", 1)
	again.save(other, 0x20000000a)
	if m := load().Quorum.Members; m.String() != other {
		t.Errorf("started anew in another ensemble, whose membership has the same version, it has\n%s\nand not\n%s", m, other)
	}
	again.save(cfg.Quorum.Members.String(), 0x20000000a)
	// A membership without this server is none to start on.
	again.save("server.4=h4:1:2:observer;0.0.0.0:2181\nserver.5=h5:1:2:participant;0.0.0.0:2181\nversion=20000000b",
		0x20000000b)
	if read("zoo.cfg") != was || strings.Contains(log.String(), "level=WARN") {
		t.Errorf("zoo.cfg is\n%s\nlog\n%s", read("zoo.cfg"), log.String())
	}
	// A folder that can't be written is told and survived.
	lost := &memberFiles{
		cfg: &config.Config{File: filepath.Join(dir, "none", "zoo.cfg"), Quorum: cfg.Quorum}, log: files.log,
	}
	lost.save(first+"version=300000000", 0x300000000)
	if !strings.Contains(log.String(), "level=WARN") {
		t.Errorf("the log says nothing of a folder that isn't there:\n%s", log.String())
	}
}

// TestChangeMembers: what a reconfig request asks for, and the codes for what it
// can't have.
func TestChangeMembers(t *testing.T) {
	t.Parallel()
	const now = "server.1=h1:1:2:participant;0.0.0.0:1\nserver.2=h2:1:2:participant;0.0.0.0:1\nserver.3=h3:1:2:participant;0.0.0.0:1\nversion=200000001"
	for name, c := range map[string]struct {
		joining, leaving, members string
		want                      string // the ids and roles
		code                      jute.Code
	}{
		"leave":             {"", "3", "", "1 2", jute.OK},
		"nobody":            {"", "77", "", "1 2 3", jute.OK},
		"join":              {"server.4=h4:1:2:observer;1", "", "", "1 2 3 4o", jute.OK},
		"replace":           {"server.3=h9:1:2;1", "3", "", "1 2 3", jute.OK},
		"one voter":         {"", "2,3", "", "1", jute.OK},
		"whole":             {"", "", "server.1=h1:1:2;1,server.5=h5:1:2:observer;1", "1 5o", jute.OK},
		"all leave":         {"", "1,2,3", "", "", jute.ErrBadArguments},
		"no number":         {"", "three", "", "", jute.ErrMarshallingError},
		"observers alone":   {"", "", "server.1=h1:1:2:observer;1", "", jute.ErrMarshallingError},
		"nonsense":          {"server.4=nonsense", "", "", "", jute.ErrBadArguments},
		"no client port":    {"server.4=h4:1:2", "", "", "", jute.ErrBadArguments},
		"an address twice":  {"server.4=h3:1:5;7", "", "", "", jute.ErrBadArguments},
		"server 0":          {"server.0=h4:1:2;1", "", "", "0 1 2 3", jute.OK},
		"a key of zoo.cfg":  {"", "", "server.1=h1:1:2;1,tickTime=1", "", jute.ErrBadArguments},
		"a group of voters": {"", "", "server.1=h1:1:2;1,group.1=1", "", jute.ErrBadArguments},
	} {
		req := jute.ReconfigRequest{Joining: &c.joining, Leaving: &c.leaving, CurConfigID: -1}
		if c.members != "" {
			req = jute.ReconfigRequest{NewMembers: &c.members, CurConfigID: -1}
		}
		text, code := changeMembers(now, &req, true)
		want := c.code
		if name == "server 0" {
			want = jute.ErrBadArguments
		}
		if _, before := changeMembers(now, &req, false); before != want {
			t.Errorf("%s: %v below the level that takes server 0; want %v", name, before, want)
		}
		members, err := config.ParseMembers(text)
		var got []string
		for _, m := range members.Servers {
			id := strconv.FormatInt(m.ID, 10)
			if m.Observer {
				id += "o"
			}
			got = append(got, id)
		}
		if code != c.code || err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, servers %v, %v; want %v, %q", name, code, got, err, c.code, c.want)
		}
	}
}
