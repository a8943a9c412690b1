package zooid

import (
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// systems are those that make cross builds for, with the packages that run there. The server is for Linux and macOS,
// the client, its recipes and the shell are for Windows too.
var systems = []struct {
	os, arch string
	packages []string
}{
	{"linux", "arm64", []string{"./..."}},
	{"darwin", "arm64", []string{"./cmd/...", "./internal/...", "./jute", "./zk/..."}},
	{"windows", "amd64", []string{"./jute", "./zk/...", "./internal/tool/cli", "./cmd/zooid"}},
}

// TestOtherSystems checks the types of what is built for other systems, from the sources of all packages, those of the
// standard library among them. Builds, which make cross does, take thirty times as long where nothing is cached, and
// hardly find more in a program without assembly and cgo.
func TestOtherSystems(t *testing.T) {
	t.Parallel()
	for _, s := range systems {
		t.Run(s.os+"/"+s.arch, func(t *testing.T) {
			checked := map[string]*types.Package{"unsafe": types.Unsafe}
			own := 0
			for _, p := range listDeps(t, s.os, s.arch, s.packages) {
				if p.ImportPath == "unsafe" {
					continue
				}
				inside := strings.HasPrefix(p.ImportPath, module)
				if inside {
					own++
				}
				for _, err := range p.check(checked, s.arch, inside) {
					t.Error(err)
				}
				if t.Failed() {
					return // packages that import it would fail as well
				}
			}
			if own < len(s.packages) {
				t.Errorf("%d packages of the module were checked: nothing was shown", own)
			}
		})
	}
}

// A listed is a package as go list prints it.
type listed struct {
	ImportPath, Dir string
	GoFiles         []string
	SFiles          []string
	ImportMap       map[string]string
	Module          *struct{ GoVersion string }
}

// listDeps lists packages and all that they import for a system, imported ones first.
func listDeps(t *testing.T, system, arch string, packages []string) (all []listed) {
	t.Helper()
	list := exec.Command("go", append([]string{
		"list", "-deps", "-json=ImportPath,Dir,GoFiles,SFiles,ImportMap,Module",
	}, packages...)...)
	list.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS="+system, "GOARCH="+arch)
	out, err := list.Output()
	if err != nil {
		exit, _ := errors.AsType[*exec.ExitError](err)
		t.Fatalf("list packages for %s: %v\n%s", system, err, exit.Stderr)
	}
	for decoder := json.NewDecoder(strings.NewReader(string(out))); ; {
		var p listed
		if err := decoder.Decode(&p); errors.Is(err, io.EOF) {
			return all
		} else if err != nil {
			t.Fatalf("read the list of packages: %v", err)
		}
		all = append(all, p)
	}
}

// check checks a package's types against those of the packages before it, and adds its own. Function bodies are checked
// in this module's packages only.
func (p *listed) check(checked map[string]*types.Package, arch string, inside bool) (errs []error) {
	set := token.NewFileSet()
	var files []*ast.File
	for _, name := range p.GoFiles {
		f, err := parser.ParseFile(set, filepath.Join(p.Dir, name), nil, parser.SkipObjectResolution)
		if err != nil {
			return []error{err}
		}
		files = append(files, f)
	}
	if inside && len(p.SFiles) > 0 {
		return []error{fmt.Errorf("%s has assembly, which this test doesn't check: %v", p.ImportPath, p.SFiles)}
	}
	config := types.Config{
		IgnoreFuncBodies: !inside,
		Sizes:            types.SizesFor("gc", arch),
		Importer:         importer{p.ImportMap, checked},
		Error:            func(err error) { errs = append(errs, err) },
	}
	if p.Module != nil && p.Module.GoVersion != "" {
		config.GoVersion = "go" + p.Module.GoVersion
	}
	checked[p.ImportPath], _ = config.Check(p.ImportPath, set, files, nil) // its error is the first of errs
	return errs
}

// An importer finds packages that were checked.
type importer struct {
	renamed map[string]string
	checked map[string]*types.Package
}

func (i importer) Import(path string) (*types.Package, error) {
	if real, ok := i.renamed[path]; ok {
		path = real
	}
	if p := i.checked[path]; p != nil {
		return p, nil
	}
	return nil, fmt.Errorf("%s was not listed before", path)
}
