package zooid

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"go.yaml.in/yaml/v3"
)

// metricInQuery finds the metrics in a query: names with a selector behind them.
var metricInQuery = regexp.MustCompile(`([a-z_]+)\{`)

// TestMonitoring holds the alerts, the dashboard and docs/monitoring.md to each other and to the code: each alert has
// its entry and links to it, and each metric of a query is registered.
func TestMonitoring(t *testing.T) {
	code, _ := sources(t)
	names, err := os.ReadFile("internal/server/testdata/metric_names.txt")
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("docs/monitoring.md")
	if err != nil {
		t.Fatal(err)
	}
	known := func(query string) {
		t.Helper()
		for _, m := range metricInQuery.FindAllStringSubmatch(query, -1) {
			whole := m[1]
			base := whole
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				base = strings.TrimSuffix(base, suffix)
			}
			if whole != "up" && !strings.Contains(code+string(names), whole) && !strings.Contains(code+string(names), base) {
				t.Errorf("no metric is called %s, which is in %s", whole, query)
			}
		}
	}
	text, err := os.ReadFile("deploy/prometheus/zooid.rules.yml")
	if err != nil {
		t.Fatal(err)
	}
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr string
				Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal(text, &rules); err != nil {
		t.Fatal(err)
	}
	for _, r := range rules.Groups[0].Rules {
		known(r.Expr)
		if !strings.Contains(string(page), "### "+r.Alert+"\n\n") {
			t.Errorf("docs/monitoring.md has no entry for the alert %s", r.Alert)
		}
		if url := r.Annotations["runbook_url"]; !strings.HasSuffix(url, "/docs/monitoring.md#"+strings.ToLower(r.Alert)) {
			t.Errorf("%s links to %q", r.Alert, url)
		}
	}
	if n := strings.Count(string(page), "\n### Zooid"); n != len(rules.Groups[0].Rules) || n == 0 {
		t.Errorf("docs/monitoring.md has %d entries for %d alerts", n, len(rules.Groups[0].Rules))
	}
	text, err = os.ReadFile("deploy/grafana/zooid.json")
	if err != nil {
		t.Fatal(err)
	}
	var dashboard struct {
		Panels []struct{ Targets []struct{ Expr string } }
	}
	if err := json.Unmarshal(text, &dashboard); err != nil {
		t.Fatal(err)
	}
	queries := 0
	for _, p := range dashboard.Panels {
		for _, target := range p.Targets {
			queries++
			known(target.Expr)
		}
	}
	if queries < 40 {
		t.Errorf("the dashboard has %d queries", queries)
	}
}

// TestUpgradeFollowsNoLink runs the package's script where the service's user has put a link in the configuration's
// place, in the folder that is its own: the file behind it keeps its owner.
func TestUpgradeFollowsNoLink(t *testing.T) {
	if runtime.GOOS != "linux" || os.Getuid() != 0 {
		t.Skip("only root can give files away, as the package's script does on Linux")
	}
	dir := t.TempDir()
	etc, bin, target := filepath.Join(dir, "etc"), filepath.Join(dir, "bin"), filepath.Join(dir, "target")
	b, err := os.ReadFile("deploy/package/postinstall.sh")
	if err != nil {
		t.Fatal(err)
	}
	// The users of this machine stand for the package's, and a folder for /etc/zooid.
	script := strings.NewReplacer("/etc/zooid", etc, "/var/lib/zooid", filepath.Join(dir, "lib"),
		"/run/systemd", dir+"/none",
		"root:zooid", "12345:12346", "zooid:zooid", "12347:12347", "-o zooid -g zooid", "").Replace(string(b))
	err = errors.Join(os.Mkdir(etc, 0o750), os.Mkdir(bin, 0o755), os.WriteFile(target, []byte("secret"), 0o600),
		os.WriteFile(filepath.Join(bin, "getent"), []byte("#!/bin/sh\n"), 0o755),
		os.Symlink(target, filepath.Join(etc, "zoo.cfg")))
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "sh", "-c", script)
	cmd.Env = []string{"PATH=" + bin + ":/usr/sbin:/usr/bin:/sbin:/bin"}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	st, err := os.Stat(target)
	if err != nil {
		t.Fatal(err)
	}
	if owner := st.Sys().(*syscall.Stat_t); owner.Uid != 0 || owner.Gid != uint32(os.Getgid()) {
		t.Errorf("what the link names belongs to %d:%d", owner.Uid, owner.Gid)
	}
	if st, err = os.Stat(etc); err != nil || st.Sys().(*syscall.Stat_t).Uid != 12347 {
		t.Errorf("the script has not done its work: %v, %v", st, err)
	}
}

// TestInstall runs make install with a DESTDIR: the program, a man page of each command, the pages as HTML, completions
// for three shells and the unit are where PREFIX says, and everybody may read them whatever the umask is.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	defer syscall.Umask(syscall.Umask(0o077))
	install := exec.CommandContext(t.Context(), "make", "install", "DESTDIR="+filepath.Join(dir, "root"),
		"PREFIX=/opt/zooid", "BIN="+filepath.Join(dir, "built"), "VERSION=7.8.9")
	if out, err := install.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	root := filepath.Join(dir, "root", "opt", "zooid")
	read := func(name string) string {
		t.Helper()
		b, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Error(err)
		} else if st, err := os.Stat(filepath.Join(root, name)); err != nil || st.Mode().Perm() != 0o644 || len(b) == 0 {
			t.Errorf("%s: %v, %d bytes, %v", name, st.Mode(), len(b), err)
		}
		return string(b)
	}
	out, err := exec.CommandContext(t.Context(), filepath.Join(root, "bin", "zooid"), "help").CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	commands := regexp.MustCompile(`(?m)^  ([a-z][a-z-]*) `).FindAllStringSubmatch(string(out), -1)
	if len(commands) < 15 {
		t.Errorf("zooid help lists %d commands:\n%s", len(commands), out)
	}
	for _, c := range commands {
		if page := read("share/man/man1/zooid-" + c[1] + ".1"); !strings.Contains(page, ".TH") {
			t.Errorf("the man page of %s: %.100s", c[1], page)
		}
	}
	read("share/man/man1/zooid.1")
	read("share/doc/zooid/html/decisions/index.html")
	zooid := filepath.Join(root, "bin", "zooid")
	out, err = exec.CommandContext(t.Context(), zooid, "docs", "-html", "operations").Output()
	if books := filepath.Join(root, "share", "doc", "zooid", "html"); err != nil ||
		string(out) != filepath.Join(books, "operations.html")+"\n" {
		t.Errorf("zooid docs -html operations: %v, %s", err, out)
	}
	for _, completion := range []string{
		"bash-completion/completions/zooid", "zsh/site-functions/_zooid", "fish/vendor_completions.d/zooid.fish",
	} {
		if text := read("share/" + completion); !strings.Contains(text, "doctor") {
			t.Errorf("%s doesn't complete doctor", completion)
		}
	}
	if runtime.GOOS != "linux" {
		return
	}
	if unit := read("lib/systemd/system/zooid.service"); !strings.Contains(unit,
		"\nExecStart=/opt/zooid/bin/zooid server ") {
		t.Errorf("the unit starts something else:\n%s", unit)
	}
	read("lib/sysusers.d/zooid.conf")
}
