package zooid

import (
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/zooid-project/zooid/"

// rules is the architecture as text: the lines of a package name everything of
// this module it may import. A package that isn't listed is an architecture
// change and needs a note in docs/decisions.
const rules = `
jute:
internal/metrics:
internal/metrics/expose: internal/metrics internal/socket
internal/lograte:
internal/audit:
internal/limit:   jute
internal/turns:
internal/config:  authprovider internal/limit internal/runbook
internal/runbook:
docs:
internal/tool/pages: docs internal/config internal/runbook internal/tool/terminal
internal/freeport:
authprovider:
authprovider/key: authprovider
internal/external: authprovider
internal/bearer: authprovider
cmd/zooid:        internal/bearer
internal/auth:    jute authprovider
internal/keystore:
internal/sasl:
internal/scram:   internal/sasl
internal/kerberos: internal/sasl
internal/watch:   jute
internal/policy:  jute internal/auth
internal/tree:    jute internal/auth internal/policy
internal/storage:
internal/memory:
internal/socket:
internal/quorum:  internal/storage
internal/quorum/peer/handshake: internal/socket
internal/quorum/peer: internal/lograte internal/quorum internal/quorum/peer/handshake internal/socket internal/storage
internal/treeload: internal/memory internal/storage internal/tree
internal/newensemble: internal/quorum internal/quorum/peer internal/treeload internal/storage internal/tree
internal/systemd:
internal/serverid:
deploy/pack:
internal/tool/setup:   internal/config
internal/tool/doctor:  internal/tool/access internal/tool/cli internal/config internal/keystore internal/memory internal/apache/files internal/apache/proof internal/quorum/peer internal/newensemble internal/socket internal/storage internal/tool/terminal internal/wordclient
internal/tool/skipentry: internal/runbook internal/storage
internal/tool/txnlog:  jute internal/treeload internal/storage internal/tree
internal/apache/files: jute
internal/apache/compare: zk internal/subtree internal/apache internal/apache/files internal/tree internal/tool/txnlog
internal/apache/learner: jute internal/apache/files
internal/apache/proof: internal/storage
internal/apache/follow: jute internal/auth internal/apache/files internal/apache/learner internal/apache/proof internal/socket internal/watch
internal/apache/back: jute internal/kerberos internal/sasl internal/keystore internal/config internal/wordclient internal/apache internal/apache/files internal/apache/learner internal/treeload internal/socket internal/storage internal/tool/terminal internal/tree
internal/apache/switchover: internal/apache/files internal/apache/follow internal/apache/learner
internal/apache/shadow: jute internal/apache/compare internal/socket internal/tool/terminal
internal/apache: jute internal/apache/files internal/quorum internal/newensemble internal/treeload internal/storage internal/tree internal/tool/txnlog
internal/apache/moving: internal/serverid internal/auth internal/tool/cli internal/config internal/keystore internal/apache internal/apache/files internal/apache/back internal/apache/compare internal/apache/follow internal/apache/learner internal/apache/shadow internal/apache/switchover internal/apache/proof internal/newensemble internal/runbook internal/sasl internal/socket internal/storage internal/tool/terminal internal/tree internal/tool/txnlog zk zk/kerberos
internal/busiest: jute internal/auth
internal/expiry:
internal/describe: jute internal/tree
internal/invariant:
internal/proposals: internal/tree
internal/replica: authprovider jute internal/auth internal/busiest internal/describe internal/expiry internal/invariant internal/limit internal/lograte internal/memory internal/metrics internal/policy internal/proposals internal/quorum internal/sasl internal/storage internal/tree internal/turns internal/watch
internal/wordclient:
internal/fourletter: internal/serverid internal/metrics internal/replica internal/watch internal/wordclient
internal/server:  authprovider jute internal/auth internal/tree internal/memory internal/watch internal/storage internal/quorum internal/quorum/peer internal/metrics internal/sasl internal/lograte internal/socket internal/newensemble internal/replica internal/treeload internal/fourletter internal/wordclient internal/runbook internal/audit internal/limit internal/turns internal/serverid
internal/admin:   internal/serverid jute internal/busiest internal/config internal/fourletter internal/lograte internal/metrics internal/quorum internal/replica internal/storage internal/socket
internal/proof/history: jute
internal/proof/traffic: jute internal/proof/history
internal/proof/traffic/costly: jute
internal/tool/terminal:
internal/proof/check/acls: jute
internal/proof/check:   jute internal/proof/history internal/proof/check/acls
internal/tool/bench/wire: jute
internal/tool/bench/chart:
internal/tool/bench/machine:
internal/tool/bench/floor: jute internal/tool/bench/wire
internal/tool/bench/keeperbench: jute internal/tool/bench/wire
internal/tool/bench/servers: jute internal/freeport internal/tool/bench/wire
internal/tool/bench:   jute internal/tool/terminal internal/tool/bench/chart internal/tool/bench/machine internal/tool/bench/wire internal/tool/bench/floor internal/tool/bench/keeperbench internal/tool/bench/servers
internal/tool/export:  jute
internal/tool/access:  zk internal/config internal/keystore internal/sasl internal/wordclient zk/scram zk/kerberos
internal/tool/cli:     jute zk internal/tool/access internal/auth internal/config internal/limit internal/tool/export internal/policy internal/tool/terminal internal/tool/cli/advice internal/tool/cli/screen internal/subtree internal/tool/cli/rights internal/tool/top
internal/tool/top:     internal/tool/cli/screen internal/subtree internal/tool/terminal
internal/tool/cli/rights: authprovider zk internal/auth internal/limit internal/policy internal/tool/cli/advice internal/subtree
internal/tool/cli/advice:
internal/tool/cli/screen: zk internal/tool/cli/advice internal/tool/export internal/tool/terminal
internal/subtree: authprovider zk internal/tool/cli/advice internal/tool/cli/screen
internal/proof/sim:     jute internal/auth internal/config internal/limit internal/tree internal/storage internal/quorum internal/newensemble internal/replica internal/serverid internal/treeload internal/proof/check internal/proof/history internal/proof/traffic
zk:               jute internal/sasl
zk/gozk/zk:       zk jute internal/wordclient
zk/recipe:        zk
zk/zkotel:        zk
zk/zkprom:        zk
zk/scram:         zk
zk/kerberos:      zk
zktest:        zk internal/freeport internal/server internal/tree internal/auth internal/sasl internal/wordclient
internal/tool/status:  internal/tool/cli internal/config internal/tool/terminal internal/wordclient
cmd/zooid:        internal/tool/access internal/serverid jute internal/tool/doctor internal/newensemble internal/tool/setup internal/tool/cli internal/tool/status internal/server internal/memory internal/config internal/auth internal/tree internal/tool/bench internal/proof/check internal/storage internal/keystore internal/sasl internal/tool/txnlog authprovider authprovider/key internal/scram internal/admin internal/wordclient internal/tool/terminal internal/systemd internal/socket internal/apache internal/apache/files internal/metrics/expose internal/kerberos internal/runbook internal/proof/history internal/external internal/audit internal/limit internal/apache/moving internal/apache/proof internal/tool/pages internal/tool/top internal/tool/cli/screen internal/tool/skipentry
`

// lean packages are what a program that uses the client compiles. They import nothing
// outside of the standard library and this module.
var lean = []string{"jute", "internal/sasl", "zk", "zk/recipe", "zk/gozk/zk"}

// raftOnly lists the only packages that may know that raft exists. Recovery writes the first
// membership of a new ensemble.
var raftOnly = map[string]bool{
	"internal/storage": true, "internal/quorum": true, "internal/quorum/peer": true, "internal/newensemble": true,
}

// deterministic packages compute; they never look at the world: what they need of it is
// passed in. TestTidy holds them to the rest of that: no goroutines, no choice by select.
var (
	deterministic = []string{
		"jute", "internal/auth", "internal/policy", "internal/limit", "internal/busiest", "internal/tree", "internal/watch",
		"internal/expiry", "internal/proposals", "internal/replica", "internal/quorum",
	}
	// dated packages say when something is: they use the types of package time, and TestTidy
	// keeps them from its clock.
	dated = []string{"internal/replica", "internal/quorum"}
)

// worldly packages look at the world.
var worldly = []string{
	"math/rand", "math/rand/v2", "crypto/rand", "os", "os/exec", "os/signal", "net", "net/http", "syscall", "log",
	"context",
}

// goFiles calls visit with the path and package folder of each Go file of the
// project. It reads the tree itself rather than asking "go list", so that the
// test cache notices when an import changes.
func goFiles(t *testing.T, visit func(file, pkg string)) {
	t.Helper()
	err := filepath.WalkDir(".", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || name != "." && strings.HasPrefix(name, ".")) {
			return filepath.SkipDir
		}
		if !d.IsDir() && strings.HasSuffix(file, ".go") {
			file = filepath.ToSlash(file)
			visit(file, path.Dir(file))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// street tells whether a package is outside of the server: a tool, a proof, or part of the migration. internal/subtree
// serves tools and the migration.
func street(pkg string) bool {
	return strings.HasPrefix(pkg, "internal/tool/") || strings.HasPrefix(pkg, "internal/proof/") ||
		pkg == "internal/apache" || strings.HasPrefix(pkg, "internal/apache/") || pkg == "internal/subtree"
}

// TestDeps holds every package to its line of rules.
func TestDeps(t *testing.T) {
	allow := map[string]string{}
	for line := range strings.Lines(strings.TrimSpace(rules)) {
		name, deps, _ := strings.Cut(line, ":")
		allow[name] += " " + strings.Join(strings.Fields(deps), " ") + " "
	}
	goFiles(t, func(file, pkg string) {
		example := path.Base(file) == "example_test.go"
		if pkg == "." || strings.HasSuffix(file, "_test.go") && !example {
			return
		}
		may, ok := allow[pkg]
		if !ok && !strings.HasPrefix(pkg, "test/") {
			t.Errorf("%s: package %s is not in the rules; a new package is an architecture change", file, pkg)
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range f.Imports {
			imp, _ := strconv.Unquote(spec.Path.Value)
			dep, ours := strings.CutPrefix(imp, module)
			switch {
			case example:
				if ours && strings.HasPrefix(dep, "internal/") {
					t.Errorf("%s: examples are copied into programs, which can't import %s", file, dep)
				}
			case ours && strings.HasPrefix(dep, "test/") && !strings.HasPrefix(pkg, "test/"):
				t.Errorf("%s: nothing imports %s", file, dep)
			case ours && street(dep) && !street(pkg) && !strings.HasPrefix(pkg, "cmd/") &&
				!strings.HasPrefix(pkg, "test/"):
				t.Errorf("%s: the server stands by itself; it may not import %s", file, dep)
			case ours && ok && !strings.Contains(may, " "+dep+" "):
				t.Errorf("%s: %s may not import %s", file, pkg, dep)
			case !ours && slices.Contains(lean, pkg) && strings.Contains(strings.Split(imp, "/")[0], "."):
				t.Errorf("%s: %s may not import %s: whoever uses the client would need it", file, pkg, imp)
			case slices.Contains(deterministic, pkg) &&
				(slices.Contains(worldly, imp) || imp == "time" && !slices.Contains(dated, pkg)):
				t.Errorf("%s: it is deterministic and may not import %s; pass in what it needs", file, imp)
			case strings.HasPrefix(imp, "go.etcd.io/raft/") && !raftOnly[pkg]:
				t.Errorf("%s: raft stops at internal/quorum", file)
			}
		}
	})
}

// TestLivePackages compares the list LIVE of the Makefile with what tests import. A busy machine can disturb tests that
// open a socket, so their package belongs to the ring that runs failed tests again.
func TestLivePackages(t *testing.T) {
	text, err := os.ReadFile("Makefile")
	if err != nil {
		t.Fatal(err)
	}
	list := regexp.MustCompile(`(?m)^LIVE = (.*)$`).FindSubmatch(text)
	if list == nil {
		t.Fatal("the Makefile has no list LIVE")
	}
	live := regexp.MustCompile("^(?:" + string(list[1]) + ")$")
	opens := []string{"net", "net/http", "net/http/httptest", module + "zktest", module + "internal/freeport",
		module + "internal/server"}
	// The first two open sockets in tests that need an Apache server, which the gate skips. The others are modules with
	// steps of their own.
	others := []string{"jute", "internal/proof/check", "test/chart", "zk/zkotel", "zk/zkprom"}
	seen := map[string]bool{}
	goFiles(t, func(file, pkg string) {
		seen[pkg] = true
		if !strings.HasSuffix(file, "_test.go") || live.MatchString(pkg) || slices.Contains(others, pkg) {
			return
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Error(err)
			return
		}
		for _, spec := range f.Imports {
			if imp, _ := strconv.Unquote(spec.Path.Value); slices.Contains(opens, imp) {
				t.Errorf("%s imports %s, and %s is not in LIVE (Makefile)", file, imp, pkg)
			}
		}
	})
	for _, pkg := range []string{"cmd/zooid", "internal/server", "zk", "test/crash"} {
		if !seen[pkg] || !live.MatchString(pkg) {
			t.Errorf("%s is not in LIVE (Makefile)", pkg)
		}
	}
}
