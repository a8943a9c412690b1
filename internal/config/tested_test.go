package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var testFunc = regexp.MustCompile(`(?m)^func (Test\w+)\(`)

// TestHonouredKeysAreTested holds testdata/honoured.txt against the table of keys: each honoured key has a line with
// the name of a test that exists, and each line has an honoured key.
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
	tests := testNames(t)
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
		if !tests[test] {
			t.Errorf("testdata/honoured.txt names %s, which is no test", test)
		}
	}
	for name := range want {
		t.Errorf("%s is honoured and has no line in testdata/honoured.txt: name a test of what it does there", name)
	}
}

// testNames returns the names of all tests of the project.
func testNames(t *testing.T) map[string]bool {
	t.Helper()
	all := map[string]bool{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || len(name) > 2 && name[0] == '.') {
			return filepath.SkipDir
		}
		if !strings.HasSuffix(file, "_test.go") {
			return nil
		}
		text, err := os.ReadFile(file)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			all[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return all
}
