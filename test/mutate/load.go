package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// loaded is a package whose types are known.
type loaded struct {
	path  string // for import
	dir   string
	root  string // the module's folder
	set   *token.FileSet
	files []*sourceFile
	types *types.Package
	info  *types.Info

	importer types.Importer
}

// sourceFile is one of its files, without tests.
type sourceFile struct {
	name   string // from the root of the module, with slashes
	path   string
	text   []byte
	syntax *ast.File
	pkg    *loaded
}

func (f *sourceFile) offset(p token.Pos) int { return f.pkg.set.Position(p).Offset }

// line returns a line without what is around its text; the first is 1.
func (f *sourceFile) line(n int) string {
	return strings.TrimSpace(strings.SplitN(string(f.text), "\n", n+1)[n-1])
}

// listedPackage is go list's description of a package.
type listedPackage struct {
	ImportPath, Dir, Export string
	GoFiles                 []string
	DepOnly, Standard       bool
	Module                  *struct{ Dir string }
}

// load reads the one package that pattern names.
func load(pattern string) (*loaded, error) {
	out, err := output(exec.Command("go", "list", "-deps", "-export",
		"-json=ImportPath,Dir,Export,GoFiles,DepOnly,Standard,Module", "--", pattern, "cmp", "os", "strconv")) // see support
	if err != nil {
		return nil, err
	}
	var wanted *listedPackage
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		p := new(listedPackage)
		if err := d.Decode(p); err == io.EOF {
			break
		} else if err != nil {
			return nil, err
		}
		exports[p.ImportPath] = p.Export
		if p.DepOnly || p.Standard {
			continue
		}
		if wanted != nil {
			return nil, fmt.Errorf("%s names more than one package", pattern)
		}
		wanted = p
	}
	if wanted == nil || wanted.Module == nil {
		return nil, fmt.Errorf("%s is no package of a module", pattern)
	}
	pkg := &loaded{path: wanted.ImportPath, dir: wanted.Dir, root: wanted.Module.Dir, set: token.NewFileSet()}
	pkg.importer = importer.ForCompiler(pkg.set, "gc", func(path string) (io.ReadCloser, error) {
		return os.Open(exports[path])
	})
	var all []*ast.File
	for _, name := range wanted.GoFiles {
		f := &sourceFile{path: filepath.Join(pkg.dir, name), pkg: pkg}
		relative, err := filepath.Rel(pkg.root, f.path)
		if err != nil {
			return nil, err
		}
		f.name = filepath.ToSlash(relative)
		if f.text, err = os.ReadFile(f.path); err != nil {
			return nil, err
		}
		if f.syntax, err = parser.ParseFile(pkg.set, f.path, f.text, parser.ParseComments); err != nil {
			return nil, err
		}
		pkg.files = append(pkg.files, f)
		all = append(all, f.syntax)
	}
	pkg.info = &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{}, Defs: map[*ast.Ident]types.Object{},
	}
	conf := types.Config{Importer: pkg.importer}
	pkg.types, err = conf.Check(pkg.path, pkg.set, all, pkg.info)
	return pkg, err
}

// name is the package's folder from the root of the module, which is how people call it.
func (p *loaded) name() string {
	_, name, _ := strings.Cut(filepath.ToSlash(p.dir), filepath.ToSlash(p.root)+"/")
	return name
}

// output runs a command and returns its output; an error has the command's error output.
func output(c *exec.Cmd) ([]byte, error) {
	out, err := c.Output()
	if ended, ok := errors.AsType[*exec.ExitError](err); ok {
		return out, fmt.Errorf("%s: %w\n%s", c, err, ended.Stderr)
	}
	return out, err
}
