package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"path"
	"slices"
	"strings"
)

// The kinds of mutants. A mutant of each kind is a plausible small mistake.
const (
	negated  = "negated"  // a condition holds when it shouldn't
	boundary = "boundary" // > is >=, and the like
	dropped  = "dropped"  // a statement isn't there
	plusOne  = "plus one" // a constant is one more; of true and false, the other one
	ignored  = "ignored"  // an error isn't noticed, or isn't returned
)

// A mutant is one mistake that is compiled into the package under test, and is made if it is the active one.
type mutant struct {
	id        int
	file      string // from the root of the module, with slashes
	line, col int
	function  string // such as (*Tree).Apply
	kind      string
	text      string // what is changed
	source    string // the line that it begins in, without indentation
	nth       int    // of those that are the same in all of function, kind, text and source
	statement int    // where the innermost statement around it begins: an offset
	offset    int
	edits     []edit
}

// String describes the change in the form of marks of equivalent mutants.
func (m *mutant) String() string {
	text := m.kind + ": " + m.text
	if m.nth > 1 {
		text += fmt.Sprintf(" (%d)", m.nth)
	}
	return text
}

// checksFile is the file of a package that has the checks of internal/invariant alone. They run in other builds.
const checksFile = "invariants.go"

// finder finds the mutants of one file.
type finder struct {
	pkg   *loaded
	file  *sourceFile
	found []*mutant
	next  int // the next id
}

// find returns the mutants of a package, in the order of their files and places. Their ids begin at 1.
func (p *loaded) find() []*mutant {
	f := &finder{pkg: p, next: 1}
	for _, f.file = range p.files {
		if path.Base(f.file.name) == checksFile {
			continue
		}
		for _, decl := range f.file.syntax.Decls {
			ast.PreorderStack(decl, nil, f.visit)
		}
	}
	slices.SortStableFunc(f.found, func(a, b *mutant) int {
		return cmp.Or(strings.Compare(a.file, b.file), a.offset-b.offset)
	})
	same := map[mark]int{}
	for _, m := range f.found {
		key := m.key()
		same[key]++
		m.nth = same[key]
	}
	return f.found
}

// visit examines one node. It returns false for nodes that it skips.
func (f *finder) visit(n ast.Node, stack []ast.Node) bool {
	if f.left(n, stack) {
		return false
	}
	function := enclosing(stack)
	if function == nil {
		return true // an initial value of a package's variable: no coverage tells which test needs it
	}
	if s, ok := n.(ast.Stmt); ok {
		f.statement(s, stack)
		return true
	}
	expr, ok := n.(ast.Expr)
	if !ok {
		return true
	}
	if r, ok := parent(stack).(*ast.ReturnStmt); ok {
		f.returned(expr, r, function, stack)
	}
	typ := f.pkg.info.Types[expr]
	if typ.Value != nil {
		f.constant(expr, typ, stack)
		return false
	}
	if typ.IsValue() && isBool(typ.Type) {
		f.condition(expr, stack)
	}
	return true
}

// left reports whether a node has no mutants: declarations of types and constants, constant expressions, capacities,
// results next to an error or false, and text for humans: the log, and the texts of errors and panics.
func (f *finder) left(n ast.Node, stack []ast.Node) bool {
	switch n := n.(type) {
	case *ast.ArrayType, *ast.FuncType, *ast.InterfaceType, *ast.StructType, *ast.MapType, *ast.ChanType:
		return true
	case *ast.GenDecl:
		return n.Tok == token.CONST || n.Tok == token.TYPE || n.Tok == token.IMPORT
	case *ast.IfStmt:
		return f.pkg.info.Types[n.Cond].Value != nil // code of other builds, such as the checks of internal/invariant
	case *ast.CallExpr:
		if f.logs(n) || f.words(n) || f.builtin(n, "panic") {
			return true
		}
	}
	switch p := parent(stack).(type) {
	case *ast.KeyValueExpr:
		if composite, ok := stack[len(stack)-2].(*ast.CompositeLit); ok && p.Key == n {
			_, isMap := f.pkg.info.TypeOf(composite).Underlying().(*types.Map)
			return !isMap
		}
	case *ast.ReturnStmt:
		return f.meaningless(n, p)
	case *ast.CallExpr:
		if f.builtin(p, "make") && n != p.Fun {
			_, isSlice := f.pkg.info.TypeOf(p).Underlying().(*types.Slice)
			return !isSlice || len(p.Args) != 2
		}
	}
	return false
}

// statement adds the mutant without s, where the program compiles without it.
func (f *finder) statement(s ast.Stmt, stack []ast.Node) {
	if !listed(s, parent(stack)) {
		return
	}
	switch s := s.(type) {
	case *ast.ExprStmt:
		call, ok := s.X.(*ast.CallExpr)
		if ok && (f.logs(call) || f.locks(call) || f.builtin(call, "panic") && !conditional(stack)) {
			return
		}
	case *ast.DeferStmt:
		if f.locks(s.Call) || f.logs(s.Call) {
			return
		}
	case *ast.AssignStmt:
		if s.Tok == token.DEFINE || blank(s) {
			return
		}
	case *ast.IncDecStmt, *ast.SendStmt, *ast.GoStmt:
	case *ast.BranchStmt:
		if s.Tok == token.GOTO || s.Tok == token.FALLTHROUGH {
			return
		}
	case *ast.ReturnStmt:
		if !conditional(stack) || f.alone(s, stack) {
			return
		}
	default:
		return
	}
	f.add(s, stack, dropped, f.text(s), func(id string) []edit {
		return f.around(s, "if !mutantOn("+id+") { ", " }")
	})
}

// alone reports whether s is all that follows a check of an error: ignoring the error is the same mutant.
func (f *finder) alone(s ast.Stmt, stack []ast.Node) bool {
	check := stack[len(stack)-2].(*ast.IfStmt)
	compared, ok := ast.Unparen(check.Cond).(*ast.BinaryExpr)
	return ok && f.checksError(compared) && len(check.Body.List) == 1 && check.Body.List[0] == s
}

// returned adds the mutant that returns nil for the error that expr is.
func (f *finder) returned(expr ast.Expr, r *ast.ReturnStmt, function ast.Node, stack []ast.Node) {
	results := f.signature(function).Results()
	last := len(r.Results) - 1
	if results.Len() != len(r.Results) || r.Results[last] != expr || f.pkg.info.Types[expr].IsNil() {
		return
	}
	if !types.Identical(results.At(last).Type(), errorType) {
		return
	}
	f.add(expr, stack, ignored, "return "+f.text(expr), func(id string) []edit {
		return f.around(expr, "mutantError("+id+", ", ")")
	})
}

// constant adds the mutant of a constant expression that is an integer, or true or false.
func (f *finder) constant(expr ast.Expr, typ types.TypeAndValue, stack []ast.Node) {
	switch {
	case typ.Value.Kind() == constant.Bool && isBool(typ.Type):
		f.add(expr, stack, plusOne, f.text(expr), func(id string) []edit {
			return f.around(expr, "(", " != mutantOn("+id+"))")
		})
	case typ.Value.Kind() == constant.Int && isInteger(typ.Type) && typ.Type.String() != "time.Duration":
		name, ok := f.typeName(typ.Type)
		if !ok {
			return
		}
		f.add(expr, stack, plusOne, f.text(expr), func(id string) []edit {
			return f.around(expr, "mutantPlusOne["+name+"]("+id+", ", ")")
		})
	}
}

// condition adds the mutants of a comparison, or of another part of a condition.
func (f *finder) condition(expr ast.Expr, stack []ast.Node) {
	compared, ok := expr.(*ast.BinaryExpr)
	switch {
	case ok && f.checksError(compared):
		unless := " && !mutantOn("
		if compared.Op == token.EQL {
			unless = " || mutantOn("
		}
		f.add(expr, stack, ignored, f.text(expr), func(id string) []edit {
			return f.around(expr, "(", unless+id+"))")
		})
		return
	case ok && (compared.Op == token.LAND || compared.Op == token.LOR):
		return // its parts have mutants
	case ok:
	case !inCondition(expr, stack):
		return
	}
	switch expr := expr.(type) {
	case *ast.ParenExpr:
		return
	case *ast.UnaryExpr:
		if expr.Op == token.NOT {
			return
		}
	}
	f.add(expr, stack, negated, f.text(expr), func(id string) []edit {
		return f.around(expr, "((", ") != mutantOn("+id+"))")
	})
	if ok {
		f.atBoundary(compared, stack)
	}
}

// boundaries has, for each comparison of order, the comparison that replaces it, and its name.
var boundaries = map[token.Token]struct{ instead, by string }{
	token.LSS: {"<=", "mutantLess"}, token.LEQ: {"<", "mutantLessEqual"},
	token.GTR: {">=", "mutantGreater"}, token.GEQ: {">", "mutantGreaterEqual"},
}

func (f *finder) atBoundary(compared *ast.BinaryExpr, stack []ast.Node) {
	other, ok := boundaries[compared.Op]
	if !ok {
		return
	}
	text := f.text(compared.X) + " " + other.instead + " " + f.text(compared.Y)
	f.add(compared, stack, boundary, text, func(id string) []edit {
		at := f.file.offset(compared.OpPos)
		edits := f.around(compared, other.by+"("+id+", ", ")")
		return append(edits, edit{at: at, cut: len(compared.Op.String()), text: ",", place: replaces})
	})
}

// add adds a mutant of n.
func (f *finder) add(n ast.Node, stack []ast.Node, kind, text string, edits func(id string) []edit) {
	at := f.pkg.set.Position(n.Pos())
	m := &mutant{
		id: f.next, file: f.file.name, line: at.Line, col: at.Column, kind: kind, text: text,
		source: f.file.line(at.Line), offset: at.Offset, statement: at.Offset, edits: edits(fmt.Sprint(f.next)),
	}
	for _, outer := range stack {
		switch outer := outer.(type) {
		case *ast.FuncDecl:
			m.function = functionName(outer)
		case *ast.BlockStmt, *ast.CaseClause, *ast.CommClause:
		case ast.Stmt:
			m.statement = f.file.offset(outer.Pos())
		}
	}
	f.next++
	f.found = append(f.found, m)
}

// around returns the edits that put a text before n and one after it.
func (f *finder) around(n ast.Node, before, after string) []edit {
	from, to := f.file.offset(n.Pos()), f.file.offset(n.End())
	return []edit{
		{at: from, text: before, place: opens, other: to, seq: f.next},
		{at: to, text: after, place: closes, other: from, seq: f.next},
	}
}

// text returns n as it is written, on one line.
func (f *finder) text(n ast.Node) string {
	text := strings.Join(strings.Fields(string(f.file.text[f.file.offset(n.Pos()):f.file.offset(n.End())])), " ")
	if r := []rune(text); len(r) > textMax {
		return string(r[:textMax]) + "…"
	}
	return text
}

// textMax bounds the printed text of a change, in characters.
const textMax = 70
