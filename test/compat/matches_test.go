package compat

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// TestMatchesOfJava: a provider with isValid and matches of its own, in Java on Apache, and in Go as a rule on three
// servers of Zooid, of which the shell asks one after the other: the same of every ACL for everybody.
func TestMatchesOfJava(t *testing.T) {
	reference, subject := programs(t)
	if reference.zooid != "" || subject.zooid == "" {
		t.Skip("it compares Apache with Zooid")
	}
	dir := t.TempDir()
	subject.zooid = withProvider(t, dir, "team.go.txt")
	if out, err := exec.Command("javac", "-cp", reference.classPath, "-d", dir,
		filepath.Join("testdata", "TeamAuthenticationProvider.java")).CombinedOutput(); err != nil {
		t.Fatalf("compiling the Java provider: %v; run test/compat/install.sh\n%s", err, out)
	}
	shell := reference.classPath
	reference.classPath += string(filepath.ListSeparator) + dir
	opts := Options{Config: map[string]string{"authProvider.1": "com.example.TeamAuthenticationProvider"}}
	apache, zooids := Start(t, reference, opts), StartEnsemble(t, subject, 3, opts)
	ruleInForce(t, zooids[0])
	turn := 0
	play := func(script string) {
		t.Helper()
		var said [2]string
		for i, s := range []*Server{apache, zooids[turn%3]} {
			var err error
			if said[i], err = runShell(reference.java, shell, s.Addr, "sync /\n"+script); err != nil {
				t.Fatalf("on %s: %v\n%s", s.Addr, err, said[i])
			}
		}
		if turn++; said[0] != said[1] {
			t.Error(difference(t, said[0], said[1]))
		}
		t.Log(said[1])
	}
	play(`
		create /prefix 1 team:red-*:cdrwa
		create /several 1 team:ann|red-*|bob:r,team:red-ann:w
		create /but 1 team:!bob:cdrwa
		create /none 1 team:x!!y:cdrwa
		create /empty 1 team::cdrwa
		create /other 1 other:ann:cdrwa
		get /prefix
		get /but`)
	play(`
		addauth team red-ann:swordfish
		get /prefix
		get /several
		set /several 2
		get /but
		create /prefix/child 1 auth::cdrwa
		getAcl /prefix/child
		setAcl /but team:!red-ann:cdrwa
		get /but
		whoami`)
	play(`
		addauth team bob:swordfish
		get /prefix
		ls /prefix
		get /several
		set /several 3
		get /but
		set /but 4
		setAcl /but team:!bob:cdrwa
		get /but
		delete /prefix/child`)
	play(`
		addauth team bob:swordfish
		addauth team red-eve:swordfish
		get /prefix
		get /prefix/child
		set /several 5
		get /but
		getAcl /but
		getAcl /several`)
	play(`
		addauth digest red-ann:swordfish
		get /prefix
		get /several
		get /but`)
}

// TestWithoutTheRule: a server of an ensemble with ACLs that match by a rule is started with a program that doesn't
// have the rule. It stops and says why, its data is as good as before, and the others serve on.
func TestWithoutTheRule(t *testing.T) {
	_, subject := programs(t)
	if subject.zooid == "" {
		t.Skip("it is about Zooid")
	}
	plain := subject.zooid
	subject.zooid = withProvider(t, t.TempDir(), "team.go.txt")
	servers := StartEnsemble(t, subject, 3, Options{Config: map[string]string{
		"authProvider.1": "com.example.TeamAuthenticationProvider",
	}})
	ruleInForce(t, servers[0])
	last := servers[2]
	last.Stop()
	config := filepath.Join(last.Folder, "zoo.cfg")
	with, err := os.ReadFile(config)
	if err != nil {
		t.Fatal(err)
	}
	without := strings.ReplaceAll(string(with), "authProvider.1=com.example.TeamAuthenticationProvider\n", "")
	if without == string(with) {
		t.Fatalf("no line of the provider in\n%s", with)
	}
	file := filepath.Join(last.Folder, "without.cfg")
	if err := os.WriteFile(file, []byte(without), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, plain, "server", file).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "ZD-3141") || !strings.Contains(string(out), "com.example.team/1") {
		t.Errorf("it ends with %v and says\n%s", err, out)
	}
	for _, s := range servers[:2] {
		ruleInForce(t, s)
	}
	if err := startAll(servers[2:]); err != nil {
		t.Errorf("with the rule again: %v", err)
	}
	ruleInForce(t, last)
}

// ruleInForce waits until the rule of the scheme team is in force.
func ruleInForce(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	c, err := zk.Open(ctx, s.Addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	acl := []zk.ACL{{Perms: zk.PermAll, ID: zk.ID{Scheme: "team", ID: "*"}}}
	for {
		_, err := c.Create(ctx, "/probe-", nil, zk.ModePersistentSequential, acl)
		if err == nil {
			return
		}
		if !errors.Is(err, zk.ErrInvalidACL) {
			t.Fatalf("a znode with an ACL of the scheme: %v", err)
		}
		select {
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			t.Fatal("the rule doesn't come into force")
		}
	}
}
