package main

import (
	"go/ast"
	"go/constant"
	"go/token"
	"go/types"
	"slices"
	"strings"
)

var errorType = types.Universe.Lookup("error").Type()

func parent(stack []ast.Node) ast.Node {
	if len(stack) == 0 {
		return nil
	}
	return stack[len(stack)-1]
}

// enclosing returns the innermost function whose body is around a node, or nil.
func enclosing(stack []ast.Node) ast.Node {
	for _, n := range slices.Backward(stack) {
		switch n.(type) {
		case *ast.FuncDecl, *ast.FuncLit:
			return n
		}
	}
	return nil
}

// functionName returns a function's name with its receiver's type, such as (*Tree).Apply.
func functionName(f *ast.FuncDecl) string {
	if f.Recv == nil {
		return f.Name.Name
	}
	typ, star := f.Recv.List[0].Type, ""
	if pointer, ok := typ.(*ast.StarExpr); ok {
		typ, star = pointer.X, "*"
	}
	switch generic := typ.(type) {
	case *ast.IndexExpr:
		typ = generic.X
	case *ast.IndexListExpr:
		typ = generic.X
	}
	return "(" + star + typ.(*ast.Ident).Name + ")." + f.Name.Name
}

func (f *finder) signature(function ast.Node) *types.Signature {
	if declared, ok := function.(*ast.FuncDecl); ok {
		return f.pkg.info.Defs[declared.Name].Type().(*types.Signature)
	}
	return f.pkg.info.TypeOf(function.(*ast.FuncLit)).(*types.Signature)
}

// listed reports whether s is in a list of statements; others can't be left out by an if around them.
func listed(s ast.Stmt, in ast.Node) bool {
	switch in := in.(type) {
	case *ast.BlockStmt:
		return true
	case *ast.CaseClause:
		return slices.Contains(in.Body, s)
	case *ast.CommClause:
		return slices.Contains(in.Body, s)
	}
	return false
}

// conditional reports whether the innermost block is that of an if without an else: control flow may leave it at its
// end.
func conditional(stack []ast.Node) bool {
	if len(stack) < 2 {
		return false
	}
	branch, ok := stack[len(stack)-2].(*ast.IfStmt)
	return ok && branch.Else == nil
}

// blank reports whether an assignment only tells the compiler that a value is used.
func blank(s *ast.AssignStmt) bool {
	for n, to := range s.Lhs {
		if id, ok := to.(*ast.Ident); !ok || id.Name != "_" {
			return false
		}
		if _, ok := s.Rhs[min(n, len(s.Rhs)-1)].(*ast.CallExpr); ok {
			return false
		}
	}
	return true
}

// inCondition reports whether expr is what an if, a loop or a case without a tag asks, or an operand of &&, || or !.
func inCondition(expr ast.Expr, stack []ast.Node) bool {
	for n, outer := range slices.Backward(stack) {
		switch outer := outer.(type) {
		case *ast.ParenExpr:
			continue
		case *ast.IfStmt:
			return true
		case *ast.ForStmt:
			return true
		case *ast.BinaryExpr:
			return outer.Op == token.LAND || outer.Op == token.LOR
		case *ast.UnaryExpr:
			return outer.Op == token.NOT
		case *ast.CaseClause:
			choice, ok := stack[n-2].(*ast.SwitchStmt)
			return ok && choice.Tag == nil
		}
		return false
	}
	return false
}

// checksError reports whether an error is compared with nil.
func (f *finder) checksError(compared *ast.BinaryExpr) bool {
	if compared.Op != token.NEQ && compared.Op != token.EQL {
		return false
	}
	x, y := f.pkg.info.Types[compared.X], f.pkg.info.Types[compared.Y]
	return y.IsNil() && types.Identical(x.Type, errorType)
}

func (f *finder) builtin(call *ast.CallExpr, name string) bool {
	id, ok := call.Fun.(*ast.Ident)
	if !ok || id.Name != name {
		return false
	}
	_, ok = f.pkg.info.Uses[id].(*types.Builtin)
	return ok
}

// callee returns the package and the name of the function or method that is called; both are empty for a value.
func (f *finder) callee(call *ast.CallExpr) (pkg, name string) {
	var id *ast.Ident
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.Ident:
		id = fun
	case *ast.SelectorExpr:
		id = fun.Sel
	default:
		return "", ""
	}
	called, ok := f.pkg.info.Uses[id].(*types.Func)
	if !ok || called.Pkg() == nil {
		return "", ""
	}
	return called.Pkg().Path(), called.Name()
}

// logs reports whether a call is one to the log, which people read, or a check that only the simulator and the race
// detector make.
func (f *finder) logs(call *ast.CallExpr) bool {
	pkg, _ := f.callee(call)
	return pkg == "log/slog" || strings.HasSuffix(pkg, "/internal/lograte") ||
		strings.HasSuffix(pkg, "/internal/invariant")
}

// meaningless reports whether n is a zero that is returned before the error or the false that says to ignore it.
func (f *finder) meaningless(n ast.Node, r *ast.ReturnStmt) bool {
	last := r.Results[len(r.Results)-1]
	value, ok := n.(ast.Expr)
	if !ok || n == last {
		return false
	}
	if zero := f.pkg.info.Types[value].Value; zero == nil || zero.ExactString() != "0" && zero.ExactString() != "false" {
		return false
	}
	is := f.pkg.info.Types[last]
	if is.Value != nil && is.Value.Kind() == constant.Bool {
		return !constant.BoolVal(is.Value)
	}
	return types.Identical(is.Type, errorType)
}

// words reports whether a call makes the text of an error.
func (f *finder) words(call *ast.CallExpr) bool {
	pkg, name := f.callee(call)
	return pkg == "fmt" && name == "Errorf" || pkg == "errors" && name == "New"
}

// locks reports whether a call locks or unlocks: the race detector checks these.
func (f *finder) locks(call *ast.CallExpr) bool {
	pkg, name := f.callee(call)
	return pkg == "sync" && slices.Contains([]string{"Lock", "Unlock", "RLock", "RUnlock"}, name)
}

func isBool(t types.Type) bool {
	basic, ok := t.(*types.Basic)
	return ok && basic.Info()&types.IsBoolean != 0
}

func isInteger(t types.Type) bool {
	basic, ok := t.Underlying().(*types.Basic)
	return ok && basic.Info()&types.IsInteger != 0 && basic.Info()&types.IsUntyped == 0
}

// typeName returns a type's name in the file, if it has one there.
func (f *finder) typeName(t types.Type) (string, bool) {
	switch t := types.Unalias(t).(type) {
	case *types.Basic:
		return t.Name(), true
	case *types.Named:
		of := t.Obj().Pkg()
		if of == f.pkg.types {
			return t.Obj().Name(), true
		}
		for _, spec := range f.file.syntax.Imports {
			if strings.Trim(spec.Path.Value, `"`) != of.Path() {
				continue
			}
			if spec.Name != nil {
				return spec.Name.Name + "." + t.Obj().Name(), true
			}
			return of.Name() + "." + t.Obj().Name(), true
		}
	}
	return "", false
}
