package main

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/server"
)

// TestPeerSecrets: what the keys give, and what is refused with a reason.
func TestPeerSecrets(t *testing.T) {
	t.Parallel()
	one, two := "a secret of the ensemble", "the secret that it had before"
	file := func(text string, mode os.FileMode) string {
		path := filepath.Join(t.TempDir(), "secret")
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for what, c := range map[string]struct {
		q    config.Quorum
		want []string
		err  string
	}{
		"none":      {config.Quorum{}, nil, ""},
		"a key":     {config.Quorum{Secret: config.Secret(one)}, []string{one}, ""},
		"a file":    {config.Quorum{SecretFile: file("# now\n"+one+"\n\n"+two+"\n", 0o600)}, []string{one, two}, ""},
		"both":      {config.Quorum{Secret: config.Secret(two), SecretFile: file(one, 0o400)}, []string{two, one}, ""},
		"readable":  {config.Quorum{SecretFile: file(one, 0o644)}, nil, "chmod 600"},
		"empty":     {config.Quorum{SecretFile: file("\n# nothing\n", 0o600)}, nil, "holds none"},
		"not there": {config.Quorum{SecretFile: filepath.Join(t.TempDir(), "x")}, nil, "quorum.secretFile"},
		"too long": {
			config.Quorum{SecretFile: file(strings.Repeat(one+"\n", secretFileMax/len(one)), 0o600)}, nil,
			"more than 16384 bytes",
		},
		"a short file": {config.Quorum{SecretFile: file("short", 0o600)}, nil, "at least 20"},
		"a short key":  {config.Quorum{Secret: "short"}, nil, "at least 20"},
	} {
		got, err := peerSecrets(&c.q)
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "short") {
				t.Errorf("%s: %v, want %q", what, err, c.err)
			}
			continue
		}
		var want []server.PeerSecret
		for _, text := range c.want {
			want = append(want, server.SecretOf(text))
		}
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%s: %d secrets, %v", what, len(got), err)
		}
	}
}

// TestInit: what init writes is a configuration whose servers share a secret that
// nobody else may read, and nothing is ever written over.
func TestInit(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var out, errs bytes.Buffer
	args := []string{"-dir", dir, "-client-port", "2199", "h1", "h2:3000", "h3:3000:3001"}
	if code := runInit(args, &out, &errs); code != 0 {
		t.Fatalf("exit code %d: %s", code, errs.String())
	}
	var first []server.PeerSecret
	for id, addr := range map[string]string{"1": "h1:2888", "2": "h2:3000", "3": "h3:3000"} {
		folder := filepath.Join(dir, id)
		text, err := os.ReadFile(filepath.Join(folder, "zoo.cfg"))
		if err != nil {
			t.Fatal(err)
		}
		absolute := strings.ReplaceAll(string(text), "=./", "="+folder+"/")
		path := filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(path, []byte(absolute), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		secrets, err := peerSecrets(&cfg.Quorum)
		if err != nil || len(secrets) != 1 || first != nil && !slices.Equal(first, secrets) {
			t.Errorf("server %s has %d secrets, %v", id, len(secrets), err)
		}
		first = secrets
		if !strings.Contains(string(text), "server."+id+"="+addr) || len(cfg.Quorum.Members.Servers) != 3 {
			t.Errorf("server %s:\n%s", id, text)
		}
	}
	before, _ := os.ReadFile(filepath.Join(dir, "1", "secret"))
	if code := runInit(args, &out, &errs); code != 1 {
		t.Errorf("a second time: exit code %d", code)
	}
	if after, _ := os.ReadFile(filepath.Join(dir, "1", "secret")); !bytes.Equal(before, after) {
		t.Error("the secret was written over")
	}
	for _, args := range [][]string{{"-servers", "a,b", "c"}, {"-x"}} {
		if code := runInit(args, &out, &errs); code != 2 {
			t.Errorf("init %q: exit code %d", args, code)
		}
	}
}

// TestAllowJoinArguments: the exit codes, and the file that it leaves.
func TestAllowJoinArguments(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for code, all := range map[int][][]string{
		0: {{"3", dir}, {"0", dir}, {"3", dir, "zk3:2888"}, {"-h"}},
		2: {{}, {"3"}, {"x", dir}, {"-1", dir}, {"3", dir, "zk3"}, {"3", filepath.Join(dir, "zoo.cfg")}},
	} {
		for _, args := range all {
			var out, errs bytes.Buffer
			if got := runAllowJoin(args, &out, &errs); got != code {
				t.Errorf("allow-join %q: exit code %d, want %d; %s", args, got, code, errs.String())
			}
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "allow-join-3")); err != nil {
		t.Error(err)
	}
	// Of an id that the server lines don't have, it isn't known that it can be let in.
	cfg := filepath.Join(dir, "zoo.cfg")
	text := fmt.Appendf(nil, "dataDir=%s\ninitLimit=10\nsyncLimit=5\n", dir)
	for id := range 3 {
		text = fmt.Appendf(text, "server.%d=h%d:2888:3888;2181\n", id+1, id+1)
	}
	if err := os.WriteFile(cfg, text, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args   []string
		doubts bool
	}{
		{[]string{"3", cfg}, false}, {[]string{"9", cfg}, true}, {[]string{"9", cfg, "zk9:2888"}, false},
		{[]string{"9", dir}, false},
	} {
		var out, errs bytes.Buffer
		code := runAllowJoin(c.args, &out, &errs)
		if code != 0 || strings.Contains(errs.String(), "server 9 isn't in") != c.doubts {
			t.Errorf("allow-join %q: exit code %d, %q", c.args, code, &errs)
		}
	}
}
