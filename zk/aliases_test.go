package zk

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// constants returns the names of the constants that a file declares.
func constants(t *testing.T, file string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, d := range f.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.CONST {
			for _, spec := range g.Specs {
				for _, name := range spec.(*ast.ValueSpec).Names {
					names = append(names, name.Name)
				}
			}
		}
	}
	return names
}

// Every error code, permission, mode and kind of watch of the protocol is in this
// package, so that a program needn't import another.
func TestOneImportIsEnough(t *testing.T) {
	t.Parallel()
	ours := constants(t, "aliases.go")
	codes, types := constants(t, "../jute/code.go"), constants(t, "../jute/types.go")
	if len(codes) < 30 || len(types) < 30 {
		t.Fatalf("package jute has %d codes and %d other constants; were they moved?", len(codes), len(types))
	}
	for _, name := range append(codes, types...) {
		wanted := false
		for _, kind := range []string{"Err", "Perm", "Mode", "AddWatch", "Watcher", "EventNode", "EventResync"} {
			wanted = wanted || strings.HasPrefix(name, kind)
		}
		if wanted && !slices.Contains(ours, name) {
			t.Errorf("package zk lacks %s", name)
		}
	}
}
