package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/runbook"
)

// TestExplain: every code is listed and explained, in whatever way it is typed; a code that doesn't exist is an error.
func TestExplain(t *testing.T) {
	t.Parallel()
	explain := func(args ...string) (string, int) {
		var out bytes.Buffer
		code := runExplain(args, &out, &out)
		return out.String(), code
	}
	list, code := explain()
	if code != 0 {
		t.Errorf("exit %d of the list", code)
	}
	for _, s := range runbook.Sections() {
		for _, e := range s.Entries {
			if !strings.Contains(list, "  "+e.Code+"  "+e.Title+"\n") {
				t.Errorf("%s is not in the list", e.Code)
			}
			text, code := explain(e.Code)
			if code != 0 || !strings.HasPrefix(text, e.Code+": "+e.Title+".\n") || !strings.Contains(text, "\nWhat to do:\n") {
				t.Errorf("explain %s: exit %d\n%s", e.Code, code, text)
			}
		}
	}
	want, _ := explain("ZD-2002")
	for _, typed := range []string{"zd-2002", "2002"} {
		if text, code := explain(typed); code != 0 || text != want {
			t.Errorf("explain %s: exit %d\n%s", typed, code, text)
		}
	}
	if text, code := explain("ZD-2002", "ZD-0000"); code != 2 || !strings.HasPrefix(text, want) ||
		!strings.Contains(text, `no code "ZD-0000"`) {
		t.Errorf("exit %d\n%s", code, text)
	}
}
