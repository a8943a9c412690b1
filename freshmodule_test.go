package zooid

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// sumLinesMax bounds go.sum of a new module that uses the client.
const sumLinesMax = 10

// TestFreshModule makes a module that uses the client and its recipes, and lets the
// go command write go.mod and go.sum. The client needs no other module; those in
// go.sum are what its examples and tests need, which run real servers.
func TestFreshModule(t *testing.T) {
	t.Parallel()
	here, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	version, err := exec.Command("go", "list", "-m", "-f", "{{.GoVersion}}").Output()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	write := func(name, text string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("go.mod", fmt.Sprintf("module example.com/fresh\n\ngo %s\n\nrequire %[2]s v0.0.0\n\nreplace %[2]s => %q\n",
		bytes.TrimSpace(version), strings.TrimSuffix(module, "/"), here))
	write("main.go", `package main

import (
	"context"
	"fmt"

	"`+module+`zk"
	"`+module+`zk/recipe"
)

func main() {
	ctx := context.Background()
	c, err := zk.Open(ctx, "zk1,zk2,zk3/app", zk.Options{})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer c.Close()
	held, err := recipe.NewMutex(c, "/locks/report", recipe.Options{}).Lock(ctx)
	if err != nil {
		fmt.Println(err)
		return
	}
	defer held.Unlock(ctx)
}
`)
	run := func(args ...string) string {
		cmd := exec.Command("go", args...)
		cmd.Dir = dir
		cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOPROXY=off", "GOSUMDB=off", "GOTOOLCHAIN=local", "GOWORK=off")
		out, err := cmd.CombinedOutput()
		if strings.Contains(string(out), "module lookup disabled") {
			t.Skipf("the module cache lacks what this module needs: %s", out)
		}
		if err != nil {
			t.Fatalf("go %s: %v\n%s", strings.Join(args, " "), err, out)
		}
		return string(out)
	}
	run("mod", "tidy")
	sum, err := os.ReadFile(filepath.Join(dir, "go.sum"))
	if err != nil {
		t.Fatal(err)
	}
	// A released version has two more lines, its own.
	if n := bytes.Count(sum, []byte("\n")) + 2; n > sumLinesMax {
		t.Errorf("go.sum has %d lines, want at most %d:\n%s", n, sumLinesMax, sum)
	}
	run("vet", ".")
	for line := range strings.Lines(run("list", "-deps", "-f", "{{if not .Standard}}{{.ImportPath}}{{end}}", ".")) {
		if pkg := strings.TrimSpace(line); pkg != "" && pkg != "example.com/fresh" && !strings.HasPrefix(pkg, module) {
			t.Errorf("the program needs %s", pkg)
		}
	}
}
