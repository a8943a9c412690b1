package zooid

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestHalves holds the arrow between the halves of a package that has shell files: the shell
// uses what computes, which uses nothing of the shell. The two could be packages of their own.
func TestHalves(t *testing.T) {
	halves := map[string][]string{}
	goFiles(t, func(file, pkg string) {
		if slices.Contains(deterministic, pkg) && !strings.HasSuffix(file, "_test.go") {
			halves[pkg] = append(halves[pkg], file)
		}
	})
	for pkg, names := range halves {
		if !slices.ContainsFunc(names, func(name string) bool { return !isPure(name, pkg) }) {
			continue
		}
		sources := map[string]string{}
		for _, name := range names {
			b, err := os.ReadFile(name)
			if err != nil {
				t.Fatal(err)
			}
			sources[name] = string(b)
		}
		for _, bad := range usesOfShell(t, sources, func(name string) bool { return !isPure(name, pkg) }) {
			t.Error(bad)
		}
	}
	for _, file := range shellFiles {
		if _, err := os.Stat(file); err != nil {
			t.Errorf("%s is on the list of shell files: %v", file, err)
		}
	}
}

// usesOfShell returns where the files of a package that are not of its shell use what the
// shell declares.
func usesOfShell(t *testing.T, sources map[string]string, isShell func(name string) bool) (bad []string) {
	t.Helper()
	set := token.NewFileSet()
	var files []*ast.File
	for name, source := range sources {
		f, err := parser.ParseFile(set, name, source, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, f)
	}
	// Imports stay unresolved: what matters is the package's own.
	conf := types.Config{Error: func(error) {}, Importer: noImports{}}
	info := &types.Info{Uses: map[*ast.Ident]types.Object{}}
	_, _ = conf.Check("p", set, files, info)
	for id, of := range info.Uses {
		at, from := set.Position(id.Pos()), set.Position(of.Pos())
		if of.Pos().IsValid() && !isShell(at.Filename) && isShell(from.Filename) {
			bad = append(bad, at.String()+": "+id.Name+" is declared in "+from.Filename+", which is of the shell: what computes may not use it")
		}
	}
	slices.Sort(bad)
	return bad
}

// TestUseOfShellIsFound shows that the rule finds functions, types, fields, methods and
// constants of the shell, and allows the other direction.
func TestUseOfShellIsFound(t *testing.T) {
	sources := map[string]string{
		"pure.go":  "package p\ntype Loop struct{ n int }\nfunc (l *Loop) Turn() {}\n",
		"shell.go": "package p\ntype peer struct{ loop *Loop }\nfunc (p *peer) send() { p.loop.Turn() }\nconst limit = 3\nfunc dial() {}\n",
	}
	shell := func(name string) bool { return name == "shell.go" }
	if bad := usesOfShell(t, sources, shell); len(bad) != 0 {
		t.Errorf("allowed, and found: %q", bad)
	}
	for _, use := range []string{"func f() { dial() }", "var p peer", "func f(l *Loop) { l.hang() }", "func f() int { return limit }"} {
		with := map[string]string{"pure.go": sources["pure.go"] + use, "shell.go": sources["shell.go"] + "func (l *Loop) hang() {}\n"}
		if bad := usesOfShell(t, with, shell); len(bad) != 1 {
			t.Errorf("%s: found %q", use, bad)
		}
	}
}
