package config

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"
	"unsafe"
)

const (
	modulePath = "github.com/zooid-project/zooid/"
	configPath = modulePath + "internal/config"
)

// effectInside are the honoured keys whose effect is a decision of this package: nobody else needs to read the field.
var effectInside = map[string]string{
	"standaloneEnabled":    "decides Quorum.Distributed",
	"multiAddress.enabled": "admits several addresses in a server line",
	"peerType":             "is compared with the role in the server lines",
	"relativePaths":        "makes the paths of zoo.cfg absolute",
}

// TestHonouredKeysAreRead refuses a key that is marked as honoured while no code outside of this package reads its
// field: such a key would be accepted and ignored, without a word.
func TestHonouredKeysAreRead(t *testing.T) {
	t.Parallel()
	reads := readsOfConfig(t)
	for _, k := range rows() {
		if k.field == nil {
			continue
		}
		c := &Config{}
		path := fieldPath(reflect.ValueOf(c).Elem(), reflect.ValueOf(k.field(c)).UnsafePointer())
		if path == nil {
			t.Errorf("%s: its field is not one of Config", k.name)
			continue
		}
		read := reads.reach(path)
		_, inside := effectInside[k.name]
		switch {
		case read && inside:
			t.Errorf("%s: it is read outside too; take it out of effectInside", k.name)
		case !read && !inside:
			t.Errorf("%s: nobody outside of internal/config reads %s; give it an effect, or make it an unused or a refused key",
				k.name, strings.Join(names(path), "."))
		}
	}
}

// field is one step of the way from Config to the field of a key: a field and the struct type that holds it.
type field struct{ owner, name string }

func names(path []field) (all []string) {
	for _, f := range path {
		all = append(all, f.name)
	}
	return all
}

// fieldPath returns the way from a struct to the field at an address, or nil.
func fieldPath(v reflect.Value, at unsafe.Pointer) []field {
	for i := range v.NumField() {
		f, step := v.Field(i), field{v.Type().Name(), v.Type().Field(i).Name}
		if f.Kind() == reflect.Struct {
			if rest := fieldPath(f, at); rest != nil {
				return append([]field{step}, rest...)
			}
		} else if f.Addr().UnsafePointer() == at {
			return []field{step}
		}
	}
	return nil
}

// fieldReads is the set of field chains that code outside of this package reads, each as the type that it begins with
// and the names: cfg.Quorum.TLS.Enabled is "Config.Quorum.TLS.Enabled", and with q a *Quorum, q.MyID is "Quorum.MyID".
type fieldReads map[string]bool

// reach reports whether some code reads the field at the end of path: by one chain from Config, or by a chain from a
// struct on the way that other code was handed.
func (r fieldReads) reach(path []field) bool {
	for i := range path {
		if r[path[i].owner+"."+strings.Join(names(path[i:]), ".")] && (i == 0 || r.reach(path[:i])) {
			return true
		}
	}
	return false
}

// readsOfConfig type-checks every package that imports this one, with no other import resolved: the types of
// configuration are all that matter here.
func readsOfConfig(t *testing.T) fieldReads {
	t.Helper()
	packages := map[string][]string{}
	err := filepath.WalkDir("../..", func(file string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if name := d.Name(); d.IsDir() && (name == "testdata" || len(name) > 2 && name[0] == '.') {
			return filepath.SkipDir
		}
		if strings.HasSuffix(file, ".go") && !strings.HasSuffix(file, "_test.go") {
			packages[filepath.Dir(file)] = append(packages[filepath.Dir(file)], file)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	set := token.NewFileSet()
	own := ownTypes(t, set, packages["../../internal/config"])
	reads := fieldReads{}
	for dir, files := range packages {
		if dir == "../../internal/config" || dir == "../../internal/proof/sim" || !importsConfig(t, files) {
			continue
		}
		info := &types.Info{Selections: map[*ast.SelectorExpr]*types.Selection{}, Types: map[ast.Expr]types.TypeAndValue{}}
		parsed := parseAll(t, set, files)
		conf := types.Config{Error: func(error) {}, Importer: onlyConfig{own}}
		_, _ = conf.Check(dir, set, parsed, info)
		for _, f := range parsed {
			reads.add(f, info)
		}
	}
	return reads
}

func ownTypes(t *testing.T, set *token.FileSet, files []string) *types.Package {
	t.Helper()
	conf := types.Config{Error: func(error) {}, Importer: onlyConfig{}}
	pkg, _ := conf.Check(configPath, set, parseAll(t, set, files), nil)
	return pkg
}

func parseAll(t *testing.T, set *token.FileSet, files []string) (all []*ast.File) {
	t.Helper()
	for _, file := range files {
		f, err := parser.ParseFile(set, file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, f)
	}
	return all
}

func importsConfig(t *testing.T, files []string) bool {
	t.Helper()
	for _, file := range files {
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		if slices.ContainsFunc(f.Imports, func(s *ast.ImportSpec) bool { return s.Path.Value == strconv.Quote(configPath) }) {
			return true
		}
	}
	return false
}

// onlyConfig resolves the import of this package alone; every other one is empty.
type onlyConfig struct{ own *types.Package }

func (o onlyConfig) Import(path string) (*types.Package, error) {
	if path == configPath && o.own != nil {
		return o.own, nil
	}
	empty := types.NewPackage(path, filepath.Base(path))
	empty.MarkComplete()
	return empty, nil
}

// add notes the chains of one file, each as long as it is: the inner parts of a longer chain don't count as read, nor
// does what is assigned to.
func (r fieldReads) add(f *ast.File, info *types.Info) {
	skip := map[ast.Expr]bool{}
	ast.Inspect(f, func(n ast.Node) bool {
		switch x := n.(type) {
		case *ast.AssignStmt:
			for _, to := range x.Lhs {
				skip[to] = true
			}
		case *ast.SelectorExpr:
			chain, _ := chainOf(x, info)
			for inner := ast.Expr(x); ; {
				s, ok := inner.(*ast.SelectorExpr)
				if !ok {
					break
				}
				if inner != x {
					skip[inner] = true
				}
				inner = s.X
			}
			if chain != "" && !skip[x] {
				r[chain] = true
			}
		}
		return true
	})
}

// chainOf returns the chain that an expression selects, "" if it is none of configuration's.
func chainOf(x ast.Expr, info *types.Info) (chain string, end types.Type) {
	s, ok := x.(*ast.SelectorExpr)
	if !ok || info.Selections[s] == nil {
		t := info.TypeOf(x)
		return configType(t), t
	}
	chain, at := chainOf(s.X, info)
	if chain == "" { // it may begin here, in a field of another package's struct
		t := info.TypeOf(x)
		return configType(t), t
	}
	selection := info.Selections[s]
	steps := selection.Index()
	if selection.Kind() != types.FieldVal {
		steps = steps[:len(steps)-1] // a method reads what it is called on
	}
	for _, i := range steps {
		if p, ok := at.Underlying().(*types.Pointer); ok {
			at = p.Elem()
		}
		st, ok := at.Underlying().(*types.Struct)
		if !ok {
			return "", nil
		}
		chain, at = chain+"."+st.Field(i).Name(), st.Field(i).Type()
	}
	return chain, at
}

// configType names a struct type of this package, or a pointer to one; "" for others.
func configType(t types.Type) string {
	if p, ok := t.(*types.Pointer); ok {
		t = p.Elem()
	}
	named, ok := t.(*types.Named)
	if !ok || named.Obj().Pkg() == nil || named.Obj().Pkg().Path() != configPath {
		return ""
	}
	if _, ok := named.Underlying().(*types.Struct); !ok {
		return ""
	}
	return named.Obj().Name()
}
