package cli

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// TestImportIsWhole imports damaged files into a server: nothing is left of them.
func TestImportIsWhole(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	v.must(t, "create", "/app", "top")
	for i := range 20 {
		v.must(t, "create", fmt.Sprintf("/app/%d", i), strings.Repeat("x", i), "ip:127.0.0.1:cdrwa")
	}
	for _, form := range []string{"json", "yaml", "tar", "json.gz", "tgz"} {
		name := filepath.Join(t.TempDir(), "app."+form)
		v.must(t, "export", "/app", name)
		file, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		for _, bad := range [][]byte{
			file[:len(file)/2], file[:len(file)-1-len(file)/10], append(slices.Clone(file), "more"...),
		} {
			if err := os.WriteFile(name, bad, 0o600); err != nil {
				t.Fatal(err)
			}
			out := v.run(t, "import "+name+" /copy")
			if v.s.exit != exitFailed || !strings.Contains(out, "nothing was written") {
				t.Errorf("%s: exit code %d: %s", name, v.s.exit, out)
			}
		}
		if out := v.must(t, "ls", "/"); out != "[app, zookeeper]\n" {
			t.Errorf("%s: left behind: %s", name, out)
		}
	}
}

// TestImportFromPipe reads what can't be read twice.
func TestImportFromPipe(t *testing.T) {
	t.Parallel()
	v := newSession(t, startZooid(t))
	name := filepath.Join(t.TempDir(), "app.json")
	v.must(t, "create", "/app")
	v.must(t, "create", "/app/a", "x")
	v.must(t, "create", "/app/b", "y")
	v.must(t, "export", "/app", name)
	v.must(t, "deleteall", "/app")
	file, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		keep int // bytes at the end left out
		exit int
	}{{40, exitFailed}, {0, 0}} {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		go func() {
			w.Write(file[:len(file)-c.keep])
			w.Close()
		}()
		out := v.run(t, fmt.Sprintf("import -format json /dev/fd/%d", r.Fd()))
		r.Close()
		if v.s.exit != c.exit {
			t.Errorf("exit code %d, want %d: %s", v.s.exit, c.exit, out)
		}
	}
	if out := v.must(t, "getAllChildrenNumber", "/app"); out != "2\n" {
		t.Errorf("imported %s", out)
	}
}

// TestEveryKindOfZnode exports and imports what servers have: znodes of each mode,
// and quotas.
func TestEveryKindOfZnode(t *testing.T) {
	onServers(t, func(t *testing.T, address string) {
		c, v := open(t, address), newSession(t, address)
		for _, line := range []string{
			"create /k top", "create -c /k/container x", "create -t 600000 /k/ttl y", "create -s /k/container/lock- 1",
			"create -s /k/container/lock- 2",
			"create -s -t 600000 /k/ttl-", "create -e /k/ephemeral z", "create /k/acl x ip:127.0.0.1:cdrwa,world:anyone:r",
			`create /k/empty ""`,
			"setquota -n 100 /k", "setquota -b 5000 /k",
		} {
			if out := v.run(t, line); v.s.exit != 0 {
				t.Fatalf("%s: %s", line, out)
			}
		}
		for _, root := range []string{"/k", "/zookeeper/quota/k"} {
			for _, form := range []string{"json", "yaml", "tar", "json.gz", "yaml.gz", "tgz"} {
				file := filepath.Join(t.TempDir(), "k."+form)
				v.must(t, "export", root, file)
				v.must(t, "import", file, "/copy")
				want, _ := read(t, c, root)
				delete(want, "/ephemeral")
				got, _ := read(t, c, "/copy")
				if root != "/k" { // the server changes what is used of a quota
					delete(want, "/zookeeper_stats")
					delete(got, "/zookeeper_stats")
				}
				sameModel(t, file, want, got)
				v.must(t, "deleteall", "/copy")
			}
		}
	})
}
