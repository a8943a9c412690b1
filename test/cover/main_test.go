package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestReport merges two profiles: a place is missed if neither reaches it.
func TestReport(t *testing.T) {
	t.Parallel()
	dir, all := t.TempDir(), blocks{}
	for name, text := range map[string]string{
		"one": "mode: set\nh.com/o/m/a/x.go:1.2,3.4 2 1\nh.com/o/m/a/x.go:5.2,5.9 1 0\nh.com/o/m/b/y.go:7.1,9.2 1 0\n",
		"two": "mode: atomic\nh.com/o/m/a/x.go:1.2,3.4 2 0\nh.com/o/m/a/x.go:5.2,5.9 1 0\nh.com/o/m/b/y.go:7.1,9.2 1 12\n",
	} {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := all.read(file); err != nil {
			t.Fatal(err)
		}
	}
	var out strings.Builder
	if percent := all.report(&out); percent != 25 {
		t.Errorf("%v %% are missed", percent)
	}
	want := "a/x.go\n\t5\n\n" +
		"package                  statements  missed  percent\n" +
		"a                                 3       1     33.3\n" +
		"b                                 1       0      0.0\n" +
		"all                               4       1     25.0\n"
	if out.String() != want {
		t.Errorf("it prints\n%s\nwant\n%s", &out, want)
	}
}

// TestNotAProfile: what isn't a line of a profile is an error, not a line that nothing misses.
func TestNotAProfile(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"", "x", "x.go:1.2,3.4 2", "x.go:1.2 2 1", "x.go:1.2,3.4 two 1", "x.go:a.2,3.4 2 1",
		"x.go:1.2,3.4 2 -1"} {
		if at, one, err := parse(line); err == nil {
			t.Errorf("%q is %+v, %+v", line, at, one)
		}
	}
}
