package compat

import (
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestFooFromC: a provider of authentication that is compiled into the server, the programmer's guide's foo, is used by
// Apache's C client.
func TestFooFromC(t *testing.T) {
	_, subject := programs(t)
	dir := t.TempDir()
	subject.zooid = withProvider(t, dir, "foo.go.txt")
	client := filepath.Join(dir, "client")
	if out, err := exec.Command("gcc", "-std=gnu11", "-DTHREADED", "-Wall", "-Wextra", "-o", client,
		filepath.Join("testdata", "foo.c"), "-lzookeeper_mt", "-lpthread").CombinedOutput(); err != nil {
		t.Fatalf("compiling the C client: %v; run test/compat/install.sh\n%s", err, out)
	}
	s := Start(t, subject, Options{Config: map[string]string{"authProvider.1": "com.example.FooAuthenticationProvider"}})
	ctx, cancel := context.WithTimeout(t.Context(), scriptPatience)
	defer cancel()
	out, err := exec.CommandContext(ctx, client, s.Addr).Output()
	const want = `addauth ann:swordfish: ok
create: ok
foo:ann 31
foo:group-all 31
get by nobody: not authenticated
addauth bob:swordfish: ok
get by bob: ok
addauth eve:guess: authentication failed
state: auth failed
`
	if err != nil || string(out) != want {
		t.Errorf("%v; got\n%swant\n%s", err, out, want)
	}
}

// withProvider builds Zooid into dir with one more file of cmd/zooid, which registers a provider.
func withProvider(t *testing.T, dir, source string) (executable string) {
	t.Helper()
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	overlay, err := json.Marshal(map[string]map[string]string{"Replace": {
		filepath.Join(root, "cmd", "zooid", "provider_added.go"): filepath.Join(root, "test", "compat", "testdata", source),
	}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600); err != nil {
		t.Fatal(err)
	}
	executable = filepath.Join(dir, "zooid")
	build := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay.json"), "-o", executable, "./cmd/zooid")
	build.Dir = root
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("build a server with a provider: %v\n%s", err, out)
	}
	return executable
}
