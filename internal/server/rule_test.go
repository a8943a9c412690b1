package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/authprovider"
)

// TestRuleThatPanics admits nobody, and is told once.
func TestRuleThatPanics(t *testing.T) {
	authprovider.RegisterRule("panics.1", func(id, entry string) bool { return []bool{true}[len(id)] })
	var out bytes.Buffer
	find := findRule(slog.New(slog.NewTextHandler(&out, nil)))
	if find("no such rule") != nil {
		t.Error("a rule that isn't registered was found")
	}
	rule := find("panics.1")
	if !rule("", "x") || rule("a", "x") || rule("bc", "x") {
		t.Error("the rule doesn't say what it says")
	}
	if text := out.String(); strings.Count(text, "ZD-3142") != 1 || !strings.Contains(text, "index out of range [1]") ||
		!strings.Contains(text, "rule=panics.1") {
		t.Errorf("the log says %q", text)
	}
}
