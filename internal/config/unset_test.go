package config

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var unset = flag.Bool("unset", false, "run each test of testdata/honoured.txt without what it sets; 20 minutes")

// TestHonouredKeysUnset runs each test of testdata/honoured.txt against a program that ignores the key: the test must
// fail, without a panic. A line with the word unjudged at its end is a debt: its test is known to pass, so it doesn't
// judge what the key does.
func TestHonouredKeysUnset(t *testing.T) {
	if !*unset {
		t.Skip("run it with -unset after changes of testdata/honoured.txt or its tests; it takes 20 minutes")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	type run struct{ folder, test, word string }
	notices := map[run]string{}
	for _, j := range readJudged(t) {
		r := run{j.folder, j.test, j.word}
		if _, done := notices[r]; !done {
			notices[r] = noticesUnset(t, root, j)
		}
		why := notices[r]
		switch {
		case why != "" && !j.debt:
			t.Errorf("%s: %s in %s %s", j.key, j.test, j.folder, why)
		case why == "" && j.debt:
			t.Errorf("%s: %s in %s judges it; take the word unjudged off", j.key, j.test, j.folder)
		}
	}
}

// noticesUnset runs a test without what it sets. It returns "" if the test fails, and otherwise what happens.
func noticesUnset(t *testing.T, root string, j judged) string {
	t.Helper()
	texts := map[string]string{}
	if j.word == j.key {
		file := filepath.Join(root, "internal", "config", "values.go")
		text, err := os.ReadFile(file)
		const was = "\tif k.field != nil {\n"
		if err != nil || strings.Count(string(text), was) != 1 {
			t.Fatalf("%v, or assign in values.go doesn't have one line %q any more", err, was)
		}
		texts[file] = strings.Replace(string(text), was,
			fmt.Sprintf("\tif k.field != nil && (k.name != %q || value == k.value) {\n", j.key), 1)
	} else {
		withoutWord(t, filepath.Join(root, j.folder), j.word, texts)
	}
	if len(texts) == 0 {
		return fmt.Sprintf("can't be judged: the package has no function and reads no field %s", j.word)
	}
	dir := t.TempDir()
	replace := map[string]string{}
	for file, text := range texts {
		replace[file] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	overlay, err := json.Marshal(map[string]any{"Replace": replace})
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, "overlay.json"), overlay, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	// By the environment it holds for programs that the test builds, too.
	c := exec.Command("go", "test", "-count=1", "-timeout=3m", "-run=^"+j.test+"$", "./"+j.folder)
	c.Dir, c.Env = root, append(os.Environ(), "GOFLAGS=-overlay="+filepath.Join(dir, "overlay.json"))
	out, err := c.CombinedOutput()
	switch text := string(out); {
	case err == nil && strings.Contains(text, "no tests to run"):
		return "doesn't run here"
	case err == nil:
		return fmt.Sprintf("passes although %s is unset", j.word)
	case strings.Contains(text, "[build failed]") || strings.Contains(text, "[setup failed]"):
		return fmt.Sprintf("can't be judged: the package doesn't compile without %s:\n%s", j.word, text)
	case strings.Contains(text, "panic: ") && !strings.Contains(text, "panic: test timed out"):
		return fmt.Sprintf("panics without %s:\n%.2000s", j.word, text)
	}
	return ""
}

// An insertion puts a text into another one.
type insertion struct {
	at   int
	text string
}

// withoutWord adds the texts of a folder's files that have a function named word, which does nothing in them, or that
// read a field named so, which is always zero in them.
func withoutWord(t *testing.T, folder, word string, texts map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	name := ""
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		w := without{word: word, kept: map[ast.Node]bool{}, at: func(p token.Pos) int { return set.Position(p).Offset }}
		w.source = string(text)
		ast.Inspect(f, w.node)
		if len(w.insert) > 0 {
			slices.SortStableFunc(w.insert, func(a, b insertion) int { return cmp.Compare(b.at, a.at) })
			for _, i := range w.insert {
				w.source = w.source[:i.at] + i.text + w.source[i.at:]
			}
			texts[file], name = w.source, f.Name.Name
		}
	}
	if name != "" {
		texts[filepath.Join(folder, "zz_unset.go")] = "package " + name +
			"\n\nfunc unsetValue[T any](T) (v T) { return v }\n\nfunc unsetAlways() bool { return true }\n"
	}
}

// without is a file in which a word is made ineffective.
type without struct {
	word   string
	source string
	at     func(token.Pos) int
	kept   map[ast.Node]bool // selectors that stay: what is assigned to, addressed or called
	insert []insertion
}

func (w *without) add(p token.Pos, text string) { w.insert = append(w.insert, insertion{w.at(p), text}) }

func (w *without) node(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.FuncDecl:
		if x.Name.Name == w.word && x.Body != nil {
			w.add(x.Body.Lbrace+1, w.nothing(x.Type.Results))
		}
	case *ast.AssignStmt:
		for _, l := range x.Lhs {
			w.kept[l] = true
		}
	case *ast.IncDecStmt:
		w.kept[x.X] = true
	case *ast.UnaryExpr:
		w.kept[x.X] = w.kept[x.X] || x.Op == token.AND
	case *ast.CallExpr:
		w.kept[x.Fun] = true
		if method, ok := x.Fun.(*ast.SelectorExpr); ok { // its receiver may have to be addressable
			w.kept[method.X] = true
		}
	case *ast.SelectorExpr:
		if x.Sel.Name == w.word && !w.kept[x] {
			w.add(x.Pos(), "unsetValue(")
			w.add(x.End(), ")")
		}
	}
	return true
}

// nothing returns the statements of a function that does nothing.
func (w *without) nothing(results *ast.FieldList) string {
	if results == nil {
		return " if unsetAlways() { return }; "
	}
	var vars, names []string
	for _, r := range results.List {
		for range max(1, len(r.Names)) {
			name := fmt.Sprint("unset", len(vars))
			vars = append(vars, fmt.Sprintf("var %s %s; ", name, w.source[w.at(r.Type.Pos()):w.at(r.Type.End())]))
			names = append(names, name)
		}
	}
	return " if unsetAlways() { " + strings.Join(vars, "") + "return " + strings.Join(names, ", ") + " }; "
}
