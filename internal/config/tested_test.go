package config

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// untestedMax is how many honoured keys may still be without a test of what they do. It only sinks.
const untestedMax = 8

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// TestHonouredKeysAreTested holds testdata/honoured.txt against the table of keys: each honoured key has a line with the
// name of a test that exists, and each line has an honoured key.
func TestHonouredKeysAreTested(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("testdata/honoured.txt")
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]bool{}
	for _, k := range rows() {
		if k.field != nil {
			want[k.name] = true
		}
	}
	tests := map[string]string{} // by package: the names of its tests
	untested := 0
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		given, test, ok := strings.Cut(strings.TrimSpace(line), " | ")
		name, _, _ := strings.Cut(strings.TrimPrefix(given, "-D"), "=")
		if !ok || !want[name] {
			t.Errorf("testdata/honoured.txt: %q is no line about an honoured key, or the second one", line)
			continue
		}
		delete(want, name)
		if test == "owed" {
			untested++
			continue
		}
		pkg, name, _ := strings.Cut(test, ".")
		if tests[pkg] == "" {
			tests[pkg] = testsOf(t, pkg)
		}
		if !strings.Contains(tests[pkg], " "+name+" ") {
			t.Errorf("testdata/honoured.txt names %s, which is no test", test)
		}
	}
	for name := range want {
		t.Errorf("%s is honoured and has no line in testdata/honoured.txt: name a test of what it does there", name)
	}
	if untested != untestedMax {
		t.Errorf("%d keys are owed a test, and untestedMax is %d", untested, untestedMax)
	}
}

// testsOf returns the names of a package's tests, each between spaces.
func testsOf(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join("..", "..", filepath.FromSlash(pkg), "*_test.go"))
	if err != nil {
		t.Fatal(err)
	}
	all := " "
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			all += m[1] + " "
		}
	}
	return all
}
