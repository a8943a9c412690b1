package zooid

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// TestOneTableOfOperations refuses further tables of what operations are: names, and
// functions that only tell some operations from the others. They are for jute's table, which
// is asked by the methods of jute.Op; those of the log are tree's.
func TestOneTableOfOperations(t *testing.T) {
	goFiles(t, func(file, pkg string) {
		if pkg == "jute" || strings.HasPrefix(pkg, "test/") || strings.HasSuffix(file, "_test.go") {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			switch x := n.(type) {
			case *ast.MapType:
				if value, _ := x.Value.(*ast.Ident); isOpType(x.Key) && value != nil && value.Name == "string" {
					t.Errorf("%s: names of operations: ask jute.Op.String, or tree.OpName for those of the log", set.Position(x.Pos()))
				}
			case *ast.FuncDecl:
				if tellsOperationsApart(x) {
					t.Errorf("%s: %s is a set of operations: add it to jute's table if nothing there is that set", set.Position(x.Pos()),
						x.Name.Name)
				}
			}
			return true
		})
	})
}

// isOpType reports whether e is jute.Op.
func isOpType(e ast.Expr) bool {
	s, ok := e.(*ast.SelectorExpr)
	if !ok {
		return false
	}
	of, ok := s.X.(*ast.Ident)
	return ok && of.Name == "jute" && s.Sel.Name == "Op"
}

// tellsOperationsApart reports whether a function of one operation is nothing but a switch
// whose cases name operations and answer true.
func tellsOperationsApart(f *ast.FuncDecl) bool {
	if f.Body == nil || len(f.Body.List) == 0 || len(f.Type.Params.List) != 1 || !isOpType(f.Type.Params.List[0].Type) {
		return false
	}
	choice, ok := f.Body.List[0].(*ast.SwitchStmt)
	if !ok {
		return false
	}
	for _, s := range choice.Body.List {
		clause := s.(*ast.CaseClause)
		if len(clause.Body) != 1 {
			return false
		}
		answer, ok := clause.Body[0].(*ast.ReturnStmt)
		if !ok || len(answer.Results) != 1 {
			return false
		}
		if is, _ := answer.Results[0].(*ast.Ident); is == nil || is.Name != "true" && is.Name != "false" {
			return false
		}
	}
	return true
}

// TestSetOfOperationsIsFound shows that the rule finds what it refuses.
func TestSetOfOperationsIsFound(t *testing.T) {
	for source, want := range map[string]bool{
		"func a(op jute.Op) bool { switch op { case jute.OpCreate, jute.OpDelete: return true }; return false }": true,
		"func a(op jute.Op) bool { switch op { case jute.OpCreate: return b() }; return false }":                 false,
		"func a(op jute.Op) bool { return op.IsWrite() }":                                                        false,
		"func a(n int) bool { switch n { case 1: return true }; return false }":                                  false,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "a.go", "package a\n"+source, 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := tellsOperationsApart(f.Decls[0].(*ast.FuncDecl)); got != want {
			t.Errorf("%s: found %t", source, got)
		}
	}
}

// framing lists who may begin and end frames by hand: those that write a record that is no
// value of its own, or fill in the header behind the body. All others append whole frames.
var framing = []string{"jute", "internal/replica", "internal/tree", "internal/tool/bench/floor", "zk"}

// TestOneEncoderOfFrames keeps frames from being written by hand.
func TestOneEncoderOfFrames(t *testing.T) {
	goFiles(t, func(file, pkg string) {
		if slices.Contains(framing, pkg) || pkg == "test/sidebyside" {
			return
		}
		set := token.NewFileSet()
		f, err := parser.ParseFile(set, file, nil, 0)
		if err != nil {
			t.Error(err)
			return
		}
		ast.Inspect(f, func(n ast.Node) bool {
			if x, ok := n.(*ast.SelectorExpr); ok && x.Sel.Name == "BeginFrame" {
				t.Errorf("%s: a frame is written by hand: use jute.AppendFrame, AppendRequest or AppendReply", set.Position(x.Pos()))
			}
			return true
		})
	})
}
