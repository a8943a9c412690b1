package compat

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
)

// kazooTestTimeoutSec ends one test that hangs; the slowest takes 10 s on Apache.
const kazooTestTimeoutSec = "60"

// portsPerServer is the distance between the ports of two servers in kazoo's suite.
const portsPerServer = 10

// kazooSuite returns kazoo's own suite, for an ensemble of so many servers. Its units are test modules; a test is
// named module::Class::test.
func kazooSuite(t *testing.T, servers int) suite {
	t.Helper()
	python := filepath.Join(cacheFolder(t), "kazoo", "bin", "python")
	needFile(t, filepath.Join(cacheFolder(t), "kazoo", "stamp"))
	found, err := filepath.Glob(filepath.Join(cacheFolder(t),
		"kazoo", "lib", "python3*", "site-packages", "kazoo", "tests", "test_*.py"))
	if err != nil || len(found) == 0 {
		t.Fatalf("looking for kazoo's tests: found %d, %v; run test/compat/install.sh", len(found), err)
	}
	var modules []string
	for _, file := range found {
		modules = append(modules, strings.TrimSuffix(filepath.Base(file), ".py"))
	}
	tests := filepath.Dir(found[0])
	ports := make([]int, lanes) // the first port of each lane, from which the suite counts up
	for lane := range ports {
		ports[lane] = freeport.Take(t, servers*portsPerServer)[0]
	}

	return suite{
		servers: servers,
		units:   modules,
		probe:   "test_counter::KazooCounterTests::test_int_counter",
		group:   func(test string) string { module, _, _ := strings.Cut(test, "::"); return module },
		run: func(ctx context.Context, p Program, lane int, unit, folder string) (Results, error) {
			env := append(p.standInEnv(t, folder),
				"ZOOKEEPER_CLASSPATH="+p.classPath,
				"ZOOKEEPER_VERSION="+p.Version,
				fmt.Sprintf("ZOOKEEPER_CLUSTER_SIZE=%d", servers),
				fmt.Sprintf("ZOOKEEPER_PORT_OFFSET=%d", ports[lane]),
				"TMPDIR="+folder, // the suite leaves its servers' folders in it
				"PYTHONDONTWRITEBYTECODE=1",
			)
			module, test, _ := strings.Cut(unit, "::")
			file := filepath.Join(tests, module+".py")
			if test != "" {
				file += "::" + test
			}
			out, err := runGroup(ctx, folder, env, []string{python, "-W", "ignore", "-m", "pytest",
				"-v", "--color=no", "--tb=short", "-p", "no:cacheprovider",
				"--timeout=" + kazooTestTimeoutSec, "--rootdir=" + tests, file})
			os.WriteFile(filepath.Join(folder, "pytest.log"), []byte(out), 0o644)
			results := parsePytest(out)
			if err != nil && len(results.failed()) == 0 { // pytest itself failed, not a test
				return results, fmt.Errorf("running kazoo's %s: %w", unit, err)
			}
			return results, nil
		},
	}
}

// A line of pytest -v: ".../test_lock.py::KazooLockTests::test_lock PASSED  [ 12%]". A test that was running when
// pytest died has a line without an outcome.
var pytestLine = regexp.MustCompile(`(?m)^[^\s:]*?(test_\w+)\.py::(\S.*?)(?: (PASSED|FAILED|ERROR|SKIPPED|XFAIL|XPASS)\b.*)?$`)

// parsePytest returns the outcomes in the output of pytest -v, which may be cut off.
func parsePytest(out string) Results {
	results := Results{}
	for _, m := range pytestLine.FindAllStringSubmatch(out, -1) {
		outcome := Failed
		switch m[3] {
		case "PASSED", "XPASS":
			outcome = Passed
		case "SKIPPED", "XFAIL":
			outcome = Skipped
		}
		results.add(m[1]+"::"+strings.TrimSpace(m[2]), outcome)
	}
	return results
}
