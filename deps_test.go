package zooid

import (
	"go/parser"
	"go/token"
	"io/fs"
	"path"
	"path/filepath"
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
internal/limit:
internal/turns:
internal/config:  authprovider internal/limit internal/runbook
internal/runbook:
docs:
internal/pages: docs internal/config internal/runbook internal/terminal
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
internal/quorum/peer: internal/quorum internal/socket internal/storage
internal/restore: internal/memory internal/storage internal/tree
internal/recovery: internal/quorum internal/quorum/peer internal/restore internal/storage internal/tree
internal/systemd:
internal/serverid:
deploy/pack:
internal/setup:   internal/config
internal/doctor:  internal/access internal/cli internal/config internal/keystore internal/memory internal/migrate/apachefiles internal/moving/proof internal/quorum/peer internal/recovery internal/socket internal/storage internal/terminal internal/wordclient
internal/txnlog:  jute internal/restore internal/storage internal/tree
internal/migrate/apachefiles: jute
internal/migrate/compare: zk internal/cli/subtree internal/migrate internal/migrate/apachefiles internal/tree internal/txnlog
internal/migrate/learner: jute internal/migrate/apachefiles
internal/moving/proof: internal/storage
internal/migrate/follow: jute internal/auth internal/migrate/apachefiles internal/migrate/learner internal/moving/proof internal/socket internal/watch
internal/migrate/back: jute internal/keystore internal/config internal/wordclient internal/migrate internal/migrate/apachefiles internal/migrate/learner internal/restore internal/socket internal/storage internal/terminal internal/tree
internal/migrate/switchover: internal/migrate/apachefiles internal/migrate/follow internal/migrate/learner
internal/migrate/shadow: jute internal/migrate/compare internal/socket internal/terminal
internal/migrate: jute internal/migrate/apachefiles internal/quorum internal/recovery internal/restore internal/storage internal/tree internal/txnlog
internal/moving: internal/serverid internal/auth internal/cli internal/config internal/keystore internal/migrate internal/migrate/apachefiles internal/migrate/back internal/migrate/compare internal/migrate/follow internal/migrate/learner internal/migrate/shadow internal/migrate/switchover internal/moving/proof internal/recovery internal/runbook internal/sasl internal/socket internal/storage internal/terminal internal/tree internal/txnlog zk zk/kerberos
internal/busiest: jute internal/auth
internal/replica: authprovider jute internal/auth internal/busiest internal/limit internal/lograte internal/memory internal/metrics internal/policy internal/quorum internal/sasl internal/storage internal/tree internal/turns internal/watch
internal/wordclient:
internal/fourletter: internal/serverid internal/metrics internal/replica internal/watch
internal/server:  authprovider jute internal/auth internal/tree internal/memory internal/watch internal/storage internal/quorum internal/quorum/peer internal/metrics internal/sasl internal/lograte internal/socket internal/recovery internal/replica internal/restore internal/fourletter internal/wordclient internal/runbook internal/audit internal/limit internal/turns internal/serverid
internal/admin:   internal/serverid jute internal/busiest internal/config internal/fourletter internal/lograte internal/metrics internal/quorum internal/replica internal/storage internal/socket
internal/history: jute
internal/traffic: jute internal/history
internal/traffic/costly: jute
internal/terminal:
internal/check/acls: jute
internal/check:   jute internal/history internal/check/acls
internal/bench/wire: jute
internal/bench/chart:
internal/bench/machine:
internal/bench/floor: jute internal/bench/wire
internal/bench/keeperbench: jute internal/bench/wire
internal/bench/servers: jute internal/freeport internal/bench/wire
internal/bench:   jute internal/terminal internal/bench/chart internal/bench/machine internal/bench/wire internal/bench/floor internal/bench/keeperbench internal/bench/servers
internal/export:  jute
internal/access:  zk internal/config internal/keystore internal/sasl internal/wordclient zk/scram zk/kerberos
internal/cli:     jute zk internal/access internal/auth internal/config internal/limit internal/export internal/policy internal/terminal internal/cli/advice internal/cli/screen internal/cli/subtree internal/cli/rights internal/top
internal/top:     internal/cli/screen internal/cli/subtree internal/terminal
internal/cli/rights: authprovider zk internal/auth internal/limit internal/policy internal/cli/advice internal/cli/subtree
internal/cli/advice:
internal/cli/screen: zk internal/cli/advice internal/export internal/terminal
internal/cli/subtree: authprovider zk internal/cli/advice internal/cli/screen
internal/sim:     jute internal/auth internal/config internal/limit internal/tree internal/storage internal/quorum internal/replica internal/restore internal/check internal/history internal/traffic
zk:               jute internal/sasl
zk/gozk/zk:       zk jute internal/wordclient
zk/recipe:        zk
zk/zkotel:        zk
zk/zkprom:        zk
zk/scram:         zk
zk/kerberos:      zk
zktest:        zk internal/freeport internal/server internal/tree internal/auth internal/sasl internal/wordclient
internal/status:  internal/cli internal/config internal/terminal internal/wordclient
cmd/zooid:        internal/serverid jute internal/doctor internal/recovery internal/setup internal/cli internal/status internal/server internal/memory internal/config internal/auth internal/tree internal/bench internal/check internal/storage internal/keystore internal/sasl internal/txnlog authprovider authprovider/key internal/scram internal/admin internal/wordclient internal/terminal internal/systemd internal/socket internal/migrate internal/migrate/apachefiles internal/metrics/expose internal/kerberos internal/runbook internal/history internal/external internal/audit internal/limit internal/moving internal/moving/proof internal/pages internal/top internal/cli/screen
`

// lean packages are what a program that uses the client compiles. They import nothing
// outside of the standard library and this module.
var lean = []string{"jute", "internal/sasl", "zk", "zk/recipe", "zk/gozk/zk"}

// raftOnly lists the only packages that may know that raft exists. Recovery writes the first
// membership of a new ensemble.
var raftOnly = map[string]bool{
	"internal/storage": true, "internal/quorum": true, "internal/quorum/peer": true, "internal/recovery": true,
}

// deterministic packages compute; they never look at the world: what they need of it is
// passed in. TestTidy holds them to the rest of that: no goroutines, no choice by select.
var (
	deterministic = []string{
		"jute", "internal/auth", "internal/policy", "internal/limit", "internal/busiest", "internal/tree", "internal/watch",
		"internal/replica", "internal/quorum",
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
