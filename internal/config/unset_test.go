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

// TestHonouredKeysUnset runs each test of testdata/honoured.txt against a program that ignores what the line says: the
// test must fail, without a panic. A line with the word unjudged at its end is a debt: its test is known to pass, so it
// doesn't judge what the key does.
func TestHonouredKeysUnset(t *testing.T) {
	if !*unset {
		t.Skip("run it with -unset after changes of testdata/honoured.txt or its tests; it takes 20 minutes")
	}
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	byFolder := map[string][]judged{}
	for _, j := range readJudged(t) {
		byFolder[j.folder] = append(byFolder[j.folder], j)
	}
	for folder, lines := range byFolder {
		t.Run(folder, func(t *testing.T) { judge(t, root, folder, lines) })
	}
}

// judge holds the tests of a folder to its lines.
func judge(t *testing.T, root, folder string, lines []judged) {
	dir := t.TempDir()
	overlay := weave(t, root, folder, lines, dir)
	binary := filepath.Join(dir, "tests")
	// By the environment the overlay holds for programs that tests build, too.
	flags := append(os.Environ(), "GOFLAGS=-overlay="+overlay, "ZOOID_CRASH=1") // which tests of crashes ask for
	build := exec.Command("go", "test", "-c", "-o", binary, "./"+folder)
	build.Dir, build.Env = root, flags
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%s: it doesn't compile with switches: %v\n%s", folder, err, out)
	}
	outcome := map[string]string{}
	run := func(test, unset string) string {
		key := test + " " + unset
		if _, done := outcome[key]; !done {
			c := exec.Command(binary, "-test.v", "-test.timeout=3m", "-test.run=^"+test+"$")
			c.Dir, c.Env = filepath.Join(root, folder), append(flags, variable+"="+unset)
			out, err := c.CombinedOutput()
			switch text := string(out); {
			case err == nil && strings.Contains(text, "--- SKIP: "+test+" "):
				outcome[key] = "is skipped"
			case err == nil:
				outcome[key] = "passes"
			case strings.Contains(text, "panic: ") && !strings.Contains(text, "panic: test timed out"):
				outcome[key] = fmt.Sprintf("panics:\n%.2000s", text)
			default:
				outcome[key] = "fails"
			}
		}
		return outcome[key]
	}
	for _, j := range lines {
		if all := run(j.test, ""); all != "passes" {
			t.Errorf("%s: %s %s even though nothing is unset", j.key, j.test, all)
			continue
		}
		switch now := run(j.test, j.word); {
		case now != "fails" && !j.debt:
			t.Errorf("%s: without %s, %s %s", j.key, j.word, j.test, now)
		case now == "fails" && j.debt:
			t.Errorf("%s: %s judges it; take the word unjudged off", j.key, j.test)
		}
	}
}

// variable is the environment variable with the word that has no effect.
const variable = "ZOOID_UNSET"

// weave writes an overlay with which the environment says what the program ignores: the key in any configuration, a
// field or a function of the folder.
func weave(t *testing.T, root, folder string, lines []judged, dir string) (overlay string) {
	t.Helper()
	config := filepath.Join(root, "internal", "config")
	values := filepath.Join(config, "values.go")
	text, err := os.ReadFile(values)
	const was = "\tif k.field != nil {\n"
	if err != nil || strings.Count(string(text), was) != 1 {
		t.Fatalf("%v, or assign in values.go doesn't have one line %q any more", err, was)
	}
	load := filepath.Join(config, "load.go")
	folders, err := os.ReadFile(load)
	const wasFolder = "\t\tif p.key != \"relativePaths\" ||" // which no assignment has to do with
	if err != nil || strings.Count(string(folders), wasFolder) != 1 {
		t.Fatalf("%v, or findFolder in load.go doesn't have one line %q any more", err, wasFolder)
	}
	texts := map[string]string{
		load: strings.Replace(string(folders), wasFolder, "\t\tif unsetNow(p.key) || p.key != \"relativePaths\" ||", 1),
		values: strings.Replace(string(text), was,
			"\tif k.field != nil && (!unsetNow(k.name) || value == k.value) {\n", 1),
		filepath.Join(config, supportName): "package config" + support,
	}
	words := map[string]bool{}
	for _, j := range lines {
		switch {
		case j.reader != "":
			withoutWords(t, filepath.Join(root, j.reader), map[string]bool{j.word: true}, texts)
		case j.word != j.key:
			words[j.word] = true
		}
	}
	withoutWords(t, filepath.Join(root, folder), words, texts)
	if len(words) > 0 { // an option that the folder passes on
		list := exec.Command("go", "list", "-deps", "-f", `{{with .Module}}{{if .Main}}{{$.Dir}}{{end}}{{end}}`, "./"+folder)
		list.Dir = root
		out, err := list.Output()
		if err != nil {
			t.Fatal(err)
		}
		for _, dir := range strings.Fields(string(out)) {
			if dir != filepath.Join(root, folder) && dir != config {
				withoutWords(t, dir, words, texts)
			}
		}
	}
	for word := range words {
		t.Errorf("%s has no function and reads no field %s", folder, word)
	}
	replace := map[string]string{}
	for file, text := range texts {
		replace[file] = filepath.Join(dir, fmt.Sprint(len(replace), ".go"))
		if err := os.WriteFile(replace[file], []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	list, err := json.Marshal(map[string]any{"Replace": replace})
	overlay = filepath.Join(dir, "overlay.json")
	if err == nil {
		err = os.WriteFile(overlay, list, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	return overlay
}

// support is what the changed files call; supportName is the file that it is in.
const (
	supportName = "zz_unset.go"
	support     = `

import "os"

var unsetWord = os.Getenv("` + variable + `")

func unsetNow(word string) bool { return word == unsetWord }

func unsetValue[T any](word string, v T) (zero T) {
	if unsetNow(word) {
		return zero
	}
	return v
}
`
)

// An insertion puts a text into another one.
type insertion struct {
	at   int
	text string
}

// withoutWords adds the texts of a folder's files that have functions or parameters named by words, or that read fields
// named so. It takes the words that it finds off.
func withoutWords(t *testing.T, folder string, words map[string]bool, texts map[string]string) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(folder, "*.go"))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text := []byte(texts[file])
		if len(text) == 0 {
			if text, err = os.ReadFile(file); err != nil {
				t.Fatal(err)
			}
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, text, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		w := without{
			words: words, found: found, source: string(text), kept: map[ast.Node]bool{},
			at: func(p token.Pos) int { return set.Position(p).Offset }, imports: map[string]bool{},
		}
		for _, i := range f.Imports {
			if name := filepath.Base(strings.Trim(i.Path.Value, `"`)); i.Name == nil {
				w.imports[name] = true
			} else {
				w.imports[i.Name.Name] = true
			}
		}
		ast.Inspect(f, w.node)
		if len(w.insert) == 0 {
			continue
		}
		slices.Reverse(w.insert) // of those at one place the outer one comes last
		slices.SortStableFunc(w.insert, func(a, b insertion) int { return cmp.Compare(b.at, a.at) })
		for _, i := range w.insert {
			w.source = w.source[:i.at] + i.text + w.source[i.at:]
		}
		texts[file] = w.source
		texts[filepath.Join(folder, supportName)] = "package " + f.Name.Name + support
	}
	for word := range found {
		delete(words, word)
	}
}

// without is a file in which words are made ineffective.
type without struct {
	words  map[string]bool
	found  map[string]bool
	source string
	at     func(token.Pos) int

	imports map[string]bool   // the names of imported packages
	kept    map[ast.Node]bool // selectors that stay: what is assigned to, addressed or called
	insert  []insertion
}

func (w *without) add(p token.Pos, text string) {
	w.insert = append(w.insert, insertion{w.at(p), text})
}

func (w *without) node(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.FuncDecl:
		if w.words[x.Name.Name] && x.Body != nil {
			w.found[x.Name.Name] = true
			w.add(x.Body.Lbrace+1, fmt.Sprintf(" if unsetNow(%q) { %s }; ", x.Name.Name, w.nothing(x.Type.Results)))
		}
		for _, p := range x.Type.Params.List {
			for _, name := range p.Names {
				if word := x.Name.Name + "(" + name.Name; w.words[word] {
					w.found[word] = true
					w.add(x.Body.Lbrace+1, fmt.Sprintf(" %s = unsetValue(%q, %s); ", name.Name, word, name.Name))
				}
			}
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
		if method, ok := x.Fun.(*ast.SelectorExpr); ok && method.Sel.Name != "Milliseconds" {
			w.kept[method.X] = true // which may have to be addressable
		}
	case *ast.SelectorExpr:
		of, _ := x.X.(*ast.Ident)
		if word := x.Sel.Name; w.words[word] && !w.kept[x] && (of == nil || !w.imports[of.Name]) {
			w.found[word] = true
			w.add(x.Pos(), fmt.Sprintf("unsetValue(%q, ", word))
			w.add(x.End(), ")")
		}
	}
	return true
}

// nothing returns the statements that end a function without results.
func (w *without) nothing(results *ast.FieldList) string {
	if results == nil {
		return "return"
	}
	var vars, names []string
	for _, r := range results.List {
		for range max(1, len(r.Names)) {
			name := fmt.Sprint("unset", len(vars))
			vars = append(vars, fmt.Sprintf("var %s %s; ", name, w.source[w.at(r.Type.Pos()):w.at(r.Type.End())]))
			names = append(names, name)
		}
	}
	return strings.Join(vars, "") + "return " + strings.Join(names, ", ")
}
