package zooid

import (
	"errors"
	"go/ast"
	"go/parser"
	"go/scanner"
	"go/token"
	"go/types"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// House limits. Raise one only in a change of its own that says why.
const (
	fileLinesMax     = 800
	testFileLinesMax = 1500
	funcLinesMax     = 100
	packageLinesMax  = 5000
	columnsMax       = 120 // of code, comments and prose; a tab counts as one
)

// largePackages may have that many lines instead; docs/decisions/001-packages.md says
// why, and how each is to be cut.
var largePackages = map[string]int{
	"internal/proof/check": 5300,
	"internal/tool/cli":    7300,
	"internal/quorum":      6650,
	"internal/replica":     9260,
	"internal/server":      5350,
	"internal/proof/sim":   9850,
	"internal/storage":     6650,
	"internal/tree":        7520,
	"zk":                   5900,
}

var (
	vagueName = regexp.MustCompile(`^(util|utils|common|helpers?|misc|base|shared|core|impl|constants)$|_impl$|_utils?$`)
	vagueType = regexp.MustCompile(`(Manager|Handler|Helper|Impl|Processor|Controller|Service|Factory|Util|Wrapper|Info|Data)$`)

	// clock are the functions of package time that ask it, or wait; goroutines what
	// starts them without a go statement.
	clock      = []string{"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTicker", "NewTimer"}
	goroutines = []string{"WaitGroup"}

	// mustNotPanic faces untrusted bytes: errors, not crashes.
	mustNotPanic = []string{"jute", "zk", "internal/replica", "internal/server"}

	// longFuncs may exceed funcLinesMax; each entry says why.
	longFuncs = map[string]string{}
)

// TestTidy holds every file to the house rules.
func TestTidy(t *testing.T) {
	lines := map[string]int{}
	documented := map[string]bool{}
	goFiles(t, func(file, pkg string) {
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, parser.ParseComments)
		if err != nil {
			t.Error(err)
			return
		}
		importGroups(t, set, f)
		n := set.File(f.Pos()).LineCount()
		stem := strings.TrimSuffix(path.Base(file), ".go")
		if strings.HasSuffix(stem, "_test") {
			if n > testFileLinesMax {
				t.Errorf("%s: %d lines; a test file has at most %d", file, n, testFileLinesMax)
			}
			return
		}
		if n > fileLinesMax {
			t.Errorf("%s: %d lines; a file has at most %d", file, n, fileLinesMax)
		}
		if vagueName.MatchString(stem) || vagueName.MatchString(path.Base(pkg)) {
			t.Errorf("%s: name it after what it holds", file)
		}
		lines[pkg] += n
		documented[pkg] = documented[pkg] || f.Doc != nil
		c := checked{t: t, set: set, pkg: pkg}
		c.pure = slices.Contains(deterministic, pkg)
		ast.Inspect(f, c.node)
	})
	for pkg, n := range lines {
		most := max(packageLinesMax, largePackages[pkg])
		if n > most {
			t.Errorf("%s: %d lines; this package has at most %d", pkg, n, most)
		}
		if largePackages[pkg] != 0 && n <= packageLinesMax {
			t.Errorf("%s: it has %d lines and is no large package any more; take it off the list", pkg, n)
		}
		if !documented[pkg] {
			t.Errorf("%s: no package comment", pkg)
		}
	}
}

// TestLineLengths holds code, comments, and prose outside of tables and blocks of code, to columnsMax. A line of code
// may be longer for the sake of a text, which is searched for as it is printed.
func TestLineLengths(t *testing.T) {
	tooLong := func(file string, line int, text string) {
		if n := utf8.RuneCountInString(text); n > columnsMax {
			t.Errorf("%s:%d: a line of %d characters; fold it at %d", file, line, n, columnsMax)
		}
	}
	goFiles(t, func(file, _ string) {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, text, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		lines := strings.Split(string(text), "\n")
		for _, group := range f.Comments {
			for _, c := range group.List {
				first := set.Position(c.Pos()).Line
				for n := range strings.Count(c.Text, "\n") + 1 {
					if !drawn(lines[first+n-1]) && !strings.HasPrefix(c.Text, "//go:") {
						tooLong(file, first+n, lines[first+n-1])
					}
				}
			}
		}
		texts := literals(text)
		at := 0
		for n, line := range lines {
			if utf8.RuneCountInString(line) > columnsMax && !drawn(line) && !endsWithText(line, at, texts) {
				t.Errorf("%s:%d: a line of %d characters; fold it at %d", file, n+1, utf8.RuneCountInString(line), columnsMax)
			}
			at += len(line) + 1
		}
	})
	for _, page := range pages(t) {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		code, n := false, 0
		for line := range strings.Lines(string(text)) {
			n++
			trimmed := strings.TrimSpace(line)
			switch {
			case strings.HasPrefix(trimmed, "```"):
				code = !code
			case !code && !strings.HasPrefix(trimmed, "|") && !strings.HasPrefix(line, "    "):
				tooLong(filepath.ToSlash(page), n, strings.TrimRight(line, "\n"))
			}
		}
	}
}

// drawn reports whether a line belongs to a block of code or a drawing in a comment, which can't be folded.
func drawn(line string) bool {
	return strings.HasPrefix(strings.TrimLeft(line, "\t"), "//\t")
}

// literals returns where the string literals of a file are, as pairs of offsets.
func literals(text []byte) (at [][2]int) {
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile("", -1, len(text)), text, nil, 0)
	for {
		pos, tok, literal := s.Scan()
		switch tok {
		case token.EOF:
			return at
		case token.STRING:
			first := int(pos) - 1
			at = append(at, [2]int{first, first + len(literal)})
		}
	}
}

// endsWithText reports whether nothing but literals and punctuation is beyond columnsMax in the line that begins at an
// offset, and one of them is long, begins on another line, or stands in an aligned column.
func endsWithText(line string, begin int, literals [][2]int) bool {
	at, n := 0, 0
	for at = range line {
		if n++; n > columnsMax {
			break
		}
	}
	end, fold := begin+len(line), begin+at
	reason := strings.Contains(line[:at], "   ")
	for rest := fold; rest < end; rest++ {
		if strings.IndexByte(" ,(){}[]:;+.", line[rest-begin]) >= 0 {
			continue
		}
		if !slices.ContainsFunc(literals, func(l [2]int) bool { return l[0] <= rest && rest < l[1] }) {
			return false
		}
	}
	for _, l := range literals {
		if l[0] < fold && l[1] > begin {
			reason = reason || l[1]-l[0] >= columnsMax/2 || l[0] < begin || l[1] > end
		}
	}
	return reason
}

// importGroups holds a file's imports to groups: the standard library's, a blank line, all others.
func importGroups(t *testing.T, set *token.FileSet, f *ast.File) {
	t.Helper()
	standard := func(i *ast.ImportSpec) bool {
		first, _, _ := strings.Cut(strings.Trim(i.Path.Value, `"`), "/")
		return !strings.Contains(first, ".")
	}
	for n, spec := range f.Imports[min(1, len(f.Imports)):] {
		before := f.Imports[n]
		at := set.Position(spec.Pos())
		if at.Line == set.Position(before.Pos()).Line+1 && standard(spec) != standard(before) {
			t.Errorf("%s: the standard library's imports are a group of their own; put a blank line between", at)
		}
	}
}

// checked is one file under inspection.
type checked struct {
	t    *testing.T
	set  *token.FileSet
	pkg  string
	pure bool
}

func (c *checked) errorf(n ast.Node, format string, args ...any) {
	c.t.Helper()
	c.t.Errorf("%s: "+format, append([]any{c.set.Position(n.Pos())}, args...)...)
}

func (c *checked) node(n ast.Node) bool {
	switch x := n.(type) {
	case *ast.FuncDecl:
		length := c.set.Position(x.End()).Line - c.set.Position(x.Pos()).Line + 1
		if length > funcLinesMax && longFuncs[c.pkg+"."+x.Name.Name] == "" {
			c.errorf(x, "%s is %d lines; a function has at most %d", x.Name.Name, length, funcLinesMax)
		}
		if x.Name.IsExported() && x.Doc == nil && exportedReceiver(x) {
			c.errorf(x, "exported %s has no comment", x.Name.Name)
		}
		if x.Name.Name == "init" && x.Recv == nil {
			c.errorf(x, "no init functions: wire it where it is used")
		}
	case *ast.TypeSpec:
		// jute keeps the names of Apache's protocol file.
		if vagueType.MatchString(x.Name.Name) && c.pkg != "jute" {
			c.errorf(x, "type %s: say what it is, not that it is a thing", x.Name.Name)
		}
	case *ast.GoStmt:
		if c.pure {
			c.errorf(x, "it is deterministic and may not start goroutines")
		}
	case *ast.SelectStmt:
		if c.pure && len(x.Body.List) > 2 { // one case and a default are no choice
			c.errorf(x, "it is deterministic; select chooses at random")
		}
	case *ast.SelectorExpr:
		of, _ := x.X.(*ast.Ident)
		switch {
		case !c.pure || of == nil:
		case of.Name == "time" && slices.Contains(clock, x.Sel.Name):
			c.errorf(x, "it is deterministic and may not ask the clock (time.%s); pass in the time", x.Sel.Name)
		case of.Name == "sync" && slices.Contains(goroutines, x.Sel.Name):
			c.errorf(x, "it is deterministic and may not start goroutines (sync.%s)", x.Sel.Name)
		}
	case *ast.CallExpr:
		if id, ok := x.Fun.(*ast.Ident); ok && id.Name == "panic" && slices.Contains(mustNotPanic, c.pkg) {
			c.errorf(x, "%s faces untrusted input and may not panic", c.pkg)
		}
	}
	return true
}

// TestMapOrder refuses loops over maps in the deterministic packages and files:
// their order is random, so whatever it decides differs between replicas. A loop
// whose result doesn't depend on the order says why in a comment on its line
// that begins with "any order:".
func TestMapOrder(t *testing.T) {
	files := map[string][]string{}
	goFiles(t, func(file, pkg string) {
		if !strings.HasSuffix(file, "_test.go") {
			files[pkg] = append(files[pkg], file)
		}
	})
	for pkg, names := range files {
		if !slices.Contains(deterministic, pkg) {
			continue
		}
		set := token.NewFileSet()
		var parsed []*ast.File
		for _, name := range names {
			f, err := parser.ParseFile(set, name, nil, parser.ParseComments)
			if err != nil {
				t.Fatal(err)
			}
			parsed = append(parsed, f)
		}
		// Imports stay unresolved: the maps that matter are the package's own.
		conf := types.Config{Error: func(error) {}, Importer: noImports{}}
		info := &types.Info{Types: map[ast.Expr]types.TypeAndValue{}}
		_, _ = conf.Check(pkg, set, parsed, info)
		for _, f := range parsed {
			excused := map[int]bool{}
			for _, group := range f.Comments {
				for _, comment := range group.List {
					if strings.HasPrefix(comment.Text, "// any order:") {
						excused[set.Position(comment.Pos()).Line] = true
					}
				}
			}
			ast.Inspect(f, func(n ast.Node) bool {
				loop, ok := n.(*ast.RangeStmt)
				if !ok {
					return true
				}
				if typ := info.TypeOf(loop.X); typ != nil {
					if _, isMap := typ.Underlying().(*types.Map); isMap && !excused[set.Position(loop.Pos()).Line] {
						t.Errorf("%s: a loop over a map has no order; sort the keys, or say \"// any order: why\" on this line",
							set.Position(loop.Pos()))
					}
				}
				return true
			})
		}
	}
}

// noImports resolves nothing.
type noImports struct{}

// Import fails.
func (noImports) Import(path string) (*types.Package, error) {
	return nil, errors.New("not resolved: " + path)
}

// exportedReceiver reports whether x is a function or a method of an exported
// type; the methods that make an error need no comment of their own.
func exportedReceiver(x *ast.FuncDecl) bool {
	if x.Recv == nil {
		return true
	}
	if x.Name.Name == "Error" || x.Name.Name == "Unwrap" {
		return false
	}
	typ := x.Recv.List[0].Type
	if star, ok := typ.(*ast.StarExpr); ok {
		typ = star.X
	}
	if index, ok := typ.(*ast.IndexExpr); ok {
		typ = index.X
	}
	id, ok := typ.(*ast.Ident)
	return ok && id.IsExported()
}
