package tree

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// testdata/levels holds a file for each feature level: which operations the log may hold from it on,
// which ones servers admit from it on only later than the log may hold them, and which functions
// compare the level in force with it. Its first line says which commit landed the level.
//
// A level that has landed is closed. Servers of that commit announce that they know it, so what is
// added to it later reaches servers that stop at it, or compute something else.
//
// To add to the behaviour: if the highest level has landed, raise FeatureLevelMax, begin a file for
// the new level with the line "not landed", and gate the change by that level. Then write the new
// lines into its file. When a version with the level lands, replace "not landed" by "landed in" and
// the commit, as a change of its own.

const notLanded = "not landed"

// TestLandedLevels compares what the code has at each level with the level's file.
func TestLandedLevels(t *testing.T) {
	t.Parallel()
	have := make([][]string, FeatureLevelMax+1)
	note := func(level int32, format string, a ...any) {
		line := fmt.Sprintf(format, a...)
		for slices.Contains(have[level], line) {
			line += " again"
		}
		have[level] = append(have[level], line)
	}
	for op := jute.Op(-1000); op <= 1000; op++ {
		level := LevelOf(op)
		if level == 0 {
			continue
		}
		note(level, "operation %d %s", op, OpName(op))
		for admitted := level; admitted <= FeatureLevelMax; admitted++ {
			if Admits(admitted, op, nil) {
				if admitted > level {
					note(admitted, "admits %d %s", op, OpName(op))
				}
				break
			}
		}
	}
	for _, dir := range []string{".", "../replica", "../quorum"} {
		for _, g := range gates(t, dir) {
			if g.level > FeatureLevelMax {
				t.Errorf("%s compares with level %d; the highest is %d", g.where, g.level, FeatureLevelMax)
			} else if g.level > 1 {
				note(int32(g.level), "gate %s", g.where)
			}
		}
	}
	for level := 1; level <= FeatureLevelMax; level++ {
		text, err := os.ReadFile(filepath.Join("testdata", "levels", strconv.Itoa(level)+".txt"))
		if err != nil {
			t.Fatalf("level %d has no list: %v", level, err)
		}
		status, rest, _ := strings.Cut(string(text), "\n")
		landed, want := strings.HasPrefix(status, "landed in "), strings.Split(strings.TrimSpace(rest), "\n")
		if !landed && (status != notLanded || level < FeatureLevelMax) {
			t.Errorf("level %d: its file begins with %q, want \"landed in COMMIT\", or %q for the highest level", level, status,
				notLanded)
		}
		slices.Sort(have[level])
		slices.Sort(want)
		for _, line := range have[level] {
			switch {
			case slices.Contains(want, line):
			case landed:
				t.Errorf("level %d has landed (%s) without %q: servers of that version would stop or differ. Gate it by a new level",
					level, strings.TrimPrefix(status, "landed in "), line)
			default:
				t.Errorf("level %d: testdata/levels/%d.txt lacks %q", level, level, line)
			}
		}
		for _, line := range want {
			if !slices.Contains(have[level], line) {
				t.Errorf("level %d: the code doesn't have %q any more: logs of that level are still read", level, line)
			}
		}
	}
}

// A gate is a place that compares the level in force with a level.
type gate struct {
	where string // package and function
	level int
}

// gates returns the places in a package that compare the level in force with a constant level, other
// than FeatureLevelMax. It finds them by the name: a field FeatureLevel or inForce, a variable level,
// or a call level.Load.
func gates(t *testing.T, dir string) (found []gate) {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %d files (%v)", dir, len(files), err)
	}
	abs, err := filepath.Abs(dir)
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	constants := map[string]int{}
	var parsed []*ast.File
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed = append(parsed, f)
		ast.Inspect(f, func(n ast.Node) bool {
			if v, ok := n.(*ast.ValueSpec); ok && len(v.Names) == 1 && len(v.Values) == 1 {
				if level, ok := literal(v.Values[0], nil); ok && strings.HasPrefix(v.Names[0].Name, "level") {
					constants[v.Names[0].Name] = level
				}
			}
			return true
		})
	}
	for _, f := range parsed {
		for _, decl := range f.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(fn, func(n ast.Node) bool {
				b, ok := n.(*ast.BinaryExpr)
				if !ok || !isLevel(b.X) {
					return true
				}
				if level, ok := literal(b.Y, constants); ok {
					found = append(found, gate{fmt.Sprintf("%s.%s %s", filepath.Base(abs), fn.Name.Name, b.Op), level})
				}
				return true
			})
		}
	}
	return found
}

// isLevel reports whether an expression is the level in force, by its name.
func isLevel(e ast.Expr) bool {
	switch e := e.(type) {
	case *ast.SelectorExpr:
		return e.Sel.Name == "FeatureLevel" || e.Sel.Name == "inForce"
	case *ast.Ident:
		return e.Name == "level" || e.Name == "inForce"
	case *ast.CallExpr:
		load, ok := e.Fun.(*ast.SelectorExpr)
		if !ok || load.Sel.Name != "Load" {
			return false
		}
		of, ok := load.X.(*ast.SelectorExpr)
		return ok && of.Sel.Name == "level"
	}
	return false
}

// literal returns the value of a number, or of the name of a constant.
func literal(e ast.Expr, constants map[string]int) (n int, ok bool) {
	switch e := e.(type) {
	case *ast.BasicLit:
		n, err := strconv.Atoi(e.Value)
		return n, err == nil && e.Kind == token.INT
	case *ast.Ident:
		n, ok = constants[e.Name]
	}
	return n, ok
}

// TestGatesAreFound finds each form of a gate in a package made for it.
func TestGatesAreFound(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var source bytes.Buffer
	source.WriteString("package x\nconst levelNew = 7\n")
	for i, form := range []string{"t.settings.FeatureLevel >= 2", "t.FeatureLevel < levelNew", "r.level.Load() >= 3",
		"a && level >= 4", "l.levels.inForce > 5", "t.FeatureLevel > other"} {
		fmt.Fprintf(&source, "func f%d() bool { return %s }\n", i, form)
	}
	if err := os.WriteFile(filepath.Join(dir, "x.go"), source.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, g := range gates(t, dir) {
		got = append(got, fmt.Sprintf("%s %d", strings.TrimPrefix(g.where, filepath.Base(dir)), g.level))
	}
	want := []string{".f0 >= 2", ".f1 < 7", ".f2 >= 3", ".f3 >= 4", ".f4 > 5"}
	if !slices.Equal(got, want) {
		t.Errorf("found %q, want %q", got, want)
	}
}
