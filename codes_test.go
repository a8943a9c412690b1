package zooid

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/runbook"
)

var codeForm = regexp.MustCompile(`^ZD-\d+$`)

// TestCodes: each log line at the levels warn and error has a code, each code in the code is in the runbook and each of
// the runbook in the code, and no two log lines of different texts share one.
func TestCodes(t *testing.T) {
	known, used := map[string]bool{}, map[string]bool{}
	for _, s := range runbook.Sections() {
		for _, e := range s.Entries {
			known[e.Code] = true
		}
	}
	lines, logged := 0, map[string]string{}
	goFiles(t, func(file, pkg string) {
		if strings.HasSuffix(file, "_test.go") || pkg == "internal/runbook" {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if code := text(n); codeForm.MatchString(code) {
				used[code] = true
				if !known[code] {
					t.Errorf("%s: %s is not in internal/runbook; add an entry there", set.Position(n.Pos()), code)
				}
			}
			call, ok := n.(*ast.CallExpr)
			if !ok || !complains(call) {
				return true
			}
			lines++
			words := texts(call)
			if code := runbook.OfMessage(constant(call.Args[0])); code != "" {
				used[code] = true
				words = []string{words[0], "code", code}
			}
			if !slices.Contains(words, "code") {
				t.Errorf("%s: a log line at this level needs a code: add \"code\", \"ZD-…\" at its end, and an entry in internal/runbook",
					set.Position(n.Pos()))
				return true
			}
			for _, code := range words {
				if !codeForm.MatchString(code) {
					continue
				}
				if other, taken := logged[code]; taken && other != words[0] {
					t.Errorf("%s: %s means %q already; give this line a code of its own", set.Position(n.Pos()), code, other)
				}
				logged[code] = words[0]
			}
			return true
		})
	})
	for code := range known {
		if !used[code] {
			t.Errorf("%s is in internal/runbook, and nothing reports it", code)
		}
	}
	if lines < 50 {
		t.Errorf("%d log lines were found; has their form changed?", lines)
	}
}

// complains reports whether a call writes a log line at the level warn or error.
func complains(call *ast.CallExpr) bool {
	f, ok := call.Fun.(*ast.SelectorExpr)
	if !ok || !slices.Contains([]string{"Warn", "Error", "WarnContext", "ErrorContext"}, f.Sel.Name) ||
		len(call.Args) == 0 {
		return false
	}
	receiver := ""
	switch x := f.X.(type) {
	case *ast.Ident:
		receiver = x.Name
	case *ast.SelectorExpr:
		receiver = x.Sel.Name
	}
	return strings.HasSuffix(strings.ToLower(receiver), "log")
}

// texts returns the string literals in a call's arguments.
func texts(call *ast.CallExpr) (all []string) {
	for _, arg := range call.Args {
		ast.Inspect(arg, func(n ast.Node) bool {
			if s := text(n); s != "" {
				all = append(all, s)
			}
			return true
		})
	}
	return all
}

// constant returns the value of an expression made of string literals.
func constant(e ast.Expr) string {
	if sum, ok := e.(*ast.BinaryExpr); ok {
		return constant(sum.X) + constant(sum.Y)
	}
	return text(e)
}

// text returns the value of a string literal.
func text(n ast.Node) string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	s, _ := strconv.Unquote(lit.Value)
	return s
}
