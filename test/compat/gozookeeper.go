package compat

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

const goZookeeperModule = "github.com/go-zookeeper/zk@v1.0.4"

// goZookeeperEnsembleTests are the tests of go-zookeeper that start three servers. The others start one, or none.
var goZookeeperEnsembleTests = []string{
	"TestIntegration_BasicCluster",
	"TestIntegration_ClientClusterFailover",
	"TestIntegration_NoQuorum",
	"TestIntegration_RecurringReAuthHang",
	"TestIntegration_DNSHostProviderReconnect",
	"TestIntegration_IncrementalReconfig",
	"TestIntegration_Reconfig",
}

// goZookeeperChanges are made in a copy of go-zookeeper's tests, each in one place.
var goZookeeperChanges = []struct{ file, before, after string }{
	// The tests wait for servers with FLWSrvr, which expects the build date as 01/02/2006. Apache has written 2006-01-02
	// since 3.6, so no test would start with a current server.
	{"server_help_test.go", "_, ok := FLWSrvr(serverAddrs, time.Second)", "ok := allServe(serverAddrs)"},
	// They wait half a minute for three servers, and for their end 5 s, for which a busy machine is too slow.
	{"server_help_test.go", "cluster.waitForStart(30, time.Second)", "cluster.waitForStart(200, time.Second)"},
	{"server_help_test.go", "tc.waitForStart(10, time.Second*2)", "tc.waitForStart(200, time.Second)"},
	{"server_help_test.go", "return tc.waitForStop(5, time.Second)", "return tc.waitForStop(60, time.Second)"},
	{"server_help_test.go", "err := tc.waitForStop(5, time.Second)", "err := tc.waitForStop(60, time.Second)"},
	// The tests choose ports at random, which tests beside them may have. Something must use the package rand.
	{"server_help_test.go", randomPorts, "ownPorts() + rand.Intn(1)"},
	{"tcp_server_test.go", randomPorts, "ownPorts() + rand.Intn(1)"},
	{"zk_test.go", randomPorts, "ownPorts() + rand.Intn(1)"},
}

const (
	randomPorts = "int(rand.Int31n(6000) + 10000)"

	// goZookeeperPorts is how many ports a lane has. A test takes ten up to three times.
	goZookeeperPorts = 30

	// goZookeeperAdditions are a file of the copy.
	goZookeeperAdditions = `package zk

import (
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// allServe reports whether each server says that it serves, and as what.
func allServe(servers []string) bool {
	for _, server := range servers {
		reply, err := fourLetterWord(server, "srvr", time.Second)
		if err != nil || !strings.Contains(string(reply), "\nMode: ") {
			return false
		}
	}
	return true
}

var portsTaken atomic.Int64

// ownPorts returns the first of ten ports that are this process's alone.
func ownPorts() int {
	first, err := strconv.Atoi(os.Getenv("ZOOID_COMPAT_PORTS"))
	n := int(portsTaken.Add(10))
	if err != nil || n > 30 {
		panic("there are no more ports")
	}
	return first + n - 10
}
`
)

// goZookeeperSuite returns go-zookeeper's own suite: its tests of ensembles of three, or all others, a unit each.
func goZookeeperSuite(t *testing.T, servers int) suite {
	t.Helper()
	binary := buildGoZookeeper(t)
	list, err := exec.Command(binary, "-test.list", ".").Output()
	if err != nil {
		t.Fatalf("listing go-zookeeper's tests: %v", err)
	}
	var tests []string
	for test := range strings.Lines(string(list)) {
		test = strings.TrimSpace(test)
		if strings.HasPrefix(test, "Test") && slices.Contains(goZookeeperEnsembleTests, test) == (servers > 1) {
			tests = append(tests, test)
		}
	}
	if servers > 1 && len(tests) != len(goZookeeperEnsembleTests) {
		t.Fatalf("go-zookeeper has only these of its tests of ensembles: %q", tests)
	}
	probe := "TestIntegration_WaitForClose"
	if servers > 1 {
		probe = "TestIntegration_BasicCluster"
	}
	ports := make([]int, lanes) // the first port of each lane
	for lane := range ports {
		ports[lane] = freeport.Take(t, goZookeeperPorts)[0]
	}
	return suite{
		servers: servers,
		units:   tests,
		probe:   probe,
		differs: map[string]string{
			"TestIntegration_IncrementalReconfig": "reconfig that names a new voter which doesn't run",
		},
		group: func(test string) string {
			if strings.HasPrefix(test, "TestIntegration_") {
				return "with servers"
			}
			return "without"
		},
		run: func(ctx context.Context, p Program, lane int, unit, folder string) (Results, error) {
			env := append(p.standInEnv(t, folder),
				"ZOOKEEPER_BIN_PATH="+standInFolder(t),
				"ZK_VERSION="+p.Version,
				fmt.Sprintf("ZOOID_COMPAT_PORTS=%d", ports[lane]),
				"TMPDIR="+folder)
			out, err := runGroup(ctx, folder, env, []string{binary, "-test.v", "-test.run", "^" + unit + "$"})
			os.WriteFile(filepath.Join(folder, "test.log"), []byte(out), 0o644)
			outcome := goTestOutcome(out, unit)
			if outcome != Failed && err != nil {
				return nil, fmt.Errorf("running go-zookeeper's %s: %w", unit, err)
			}
			return Results{unit: outcome}, nil
		},
	}
}

// goTestOutcome returns a test's outcome from the output of go test -v. A test that never ended counts as failed.
func goTestOutcome(out, test string) Outcome {
	m := regexp.MustCompile(`(?m)^--- (PASS|SKIP|FAIL): ` + regexp.QuoteMeta(test) + ` `).FindStringSubmatch(out)
	switch {
	case m == nil, m[1] == "FAIL":
		return Failed
	case m[1] == "SKIP":
		return Skipped
	}
	return Passed
}

// buildGoZookeeper compiles the module's tests, from a copy with changes, and returns the executable.
func buildGoZookeeper(t *testing.T) string {
	t.Helper()
	folder := filepath.Join(t.TempDir(), "zk")
	if err := os.CopyFS(folder, os.DirFS(downloadGoZookeeper(t))); err != nil {
		t.Fatalf("copying go-zookeeper: %v", err)
	}
	for _, c := range goZookeeperChanges {
		file := filepath.Join(folder, c.file)
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatalf("reading go-zookeeper's tests: %v", err)
		}
		if strings.Count(string(text), c.before) != 1 {
			t.Fatalf("%s: want one %q", file, c.before)
		}
		// The module cache is read-only, and so are its copies.
		changed := strings.Replace(string(text), c.before, c.after, 1)
		if err := errors.Join(os.Remove(file), os.WriteFile(file, []byte(changed), 0o644)); err != nil {
			t.Fatalf("changing go-zookeeper's tests: %v", err)
		}
	}
	if err := os.WriteFile(filepath.Join(folder, "additions_test.go"), []byte(goZookeeperAdditions), 0o644); err != nil {
		t.Fatalf("changing go-zookeeper's tests: %v", err)
	}
	binary := filepath.Join(folder, "zk.test")
	build := exec.Command("go", "test", "-c", "-o", binary, ".")
	build.Dir = folder
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building go-zookeeper's tests: %v\n%s", err, out)
	}
	return binary
}

// downloadGoZookeeper returns the module's folder in the module cache, downloading it if need be.
func downloadGoZookeeper(t *testing.T) string {
	t.Helper()
	for attempt := 1; ; attempt++ {
		download := exec.Command("go", "mod", "download", "-json", goZookeeperModule)
		download.Dir = os.TempDir() // outside any module, so that no go.mod gets a dependency on it
		out, err := download.Output()
		var module struct{ Dir, Error string }
		if json.Unmarshal(out, &module); err == nil && module.Dir != "" {
			return module.Dir
		}
		if attempt == attempts {
			t.Fatalf("go mod download %s: %v %s", goZookeeperModule, err, module.Error)
		}
		time.Sleep(time.Second)
	}
}
