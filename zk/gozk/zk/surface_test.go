package zk_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"go/constant"
	"go/importer"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	_ "github.com/go-zookeeper/zk" // so that it is in go.mod

	zooid "github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

const (
	theirs = "github.com/go-zookeeper/zk"
	ours   = "github.com/zooid-project/zooid/zk/gozk/zk"
)

// Everything that go-zookeeper exports is here, looks the same, and there is
// nothing else.
func TestSurface(t *testing.T) {
	t.Parallel()
	packages := imported(t, theirs, ours)
	want, got := surface(packages[0]), surface(packages[1])
	for name, text := range want {
		if got[name] != text {
			t.Errorf("%s is\n\t%s\nwant\n\t%s", name, got[name], text)
		}
	}
	for name := range got {
		if want[name] == "" {
			t.Errorf("%s is not in %s", name, theirs)
		}
	}
	if len(want) < 130 {
		t.Errorf("only %d names were compared", len(want))
	}
}

// imported returns packages as the compiler knows them.
func imported(t *testing.T, paths ...string) []*types.Package {
	t.Helper()
	cmd := exec.Command("go", append([]string{"list", "-export", "-deps", "-json=ImportPath,Export"}, paths...)...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v\n%s", err, &stderr)
	}
	exports := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Export string }
		if err := d.Decode(&p); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		exports[p.ImportPath] = p.Export
	}
	imp := importer.ForCompiler(token.NewFileSet(),
		"gc", func(path string) (io.ReadCloser, error) { return os.Open(exports[path]) })
	var all []*types.Package
	for _, path := range paths {
		p, err := imp.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	return all
}

// surface describes what a package exports, by name.
func surface(p *types.Package) map[string]string {
	short := func(of *types.Package) string { return of.Name() }
	all := map[string]string{}
	for _, name := range p.Scope().Names() {
		object := p.Scope().Lookup(name)
		if !object.Exported() {
			continue
		}
		switch o := object.(type) {
		case *types.Const:
			all[name] = fmt.Sprintf("const %s = %s", types.TypeString(o.Type(), short), constant.ToInt(o.Val()))
		case *types.TypeName:
			describe(all, o, short)
		default:
			all[name] = types.ObjectString(o, short)
		}
	}
	return all
}

// describe describes a type: what it is, its exported fields, its methods.
func describe(all map[string]string, o *types.TypeName, short types.Qualifier) {
	what := types.TypeString(o.Type().Underlying(), short)
	if s, ok := o.Type().Underlying().(*types.Struct); ok {
		var fields []string
		hidden := ""
		for f := range s.Fields() {
			if f.Exported() {
				fields = append(fields, f.Name()+" "+types.TypeString(f.Type(), short))
			} else {
				hidden = "; and more"
			}
		}
		what = "struct{" + strings.Join(fields, "; ") + hidden + "}"
	}
	all[o.Name()] = what
	methods := types.NewMethodSet(types.NewPointer(o.Type()))
	for i := range methods.Len() {
		if m := methods.At(i).Obj(); m.Exported() {
			byValue := types.NewMethodSet(o.Type()).Lookup(m.Pkg(), m.Name()) != nil
			all[o.Name()+"."+m.Name()] = fmt.Sprintf("%s (by value %v)", types.TypeString(m.Type(), short), byValue)
		}
	}
}

// The same program, built with either package, sees the same.
func TestSamePrograms(t *testing.T) {
	t.Parallel()
	e := zktest.Start(t, zktest.Options{})
	said := map[string][]string{}
	for _, path := range []string{theirs, ours} {
		said[path] = tour(t, build(t, path), e.Connect())
	}
	want, got := said[theirs], said[ours]
	for i := range max(len(want), len(got)) {
		w, g := "(the end)", "(the end)"
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Fatalf("line %d: %s\n%s has: %s", i+1, g, theirs, w)
		}
	}
	if len(want) < 120 || slices.Contains(want, "no event") {
		t.Errorf("the tour went wrong:\n%s", strings.Join(want, "\n"))
	}
}

// build builds the tour with a package.
func build(t *testing.T, path string) (binary string) {
	t.Helper()
	dir := t.TempDir()
	source, err := filepath.Abs("testdata/tour/main.go")
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(source)
	if err != nil {
		t.Fatal(err)
	}
	moved, binary := filepath.Join(dir, "main.go"), filepath.Join(dir, "tour")
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{source: moved}})
	if err != nil {
		t.Fatal(err)
	}
	for name, content := range map[string][]byte{
		moved: bytes.ReplaceAll(text, []byte(theirs), []byte(path)), filepath.Join(dir, "overlay"): overlay,
	} {
		if err := os.WriteFile(name, content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if out, err := exec.Command("go", "build", "-overlay", filepath.Join(dir, "overlay"), "-o", binary, "./testdata/tour").
		CombinedOutput(); err != nil {
		t.Fatalf("build the tour with %s: %v\n%s", path, err, out)
	}
	return binary
}

// tour runs the tour below a znode of its own.
func tour(t *testing.T, binary, servers string) []string {
	t.Helper()
	c, err := zooid.Open(t.Context(), servers, zooid.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	root, err := c.Create(t.Context(), "/tour-", nil, zooid.ModePersistentSequential, zooid.WorldACL(zooid.PermAll))
	if err != nil {
		t.Fatal(err)
	}
	var said, complaints bytes.Buffer
	cmd := exec.CommandContext(t.Context(), binary, servers, root)
	cmd.Stdout, cmd.Stderr = &said, &complaints
	if err := cmd.Run(); err != nil {
		t.Fatalf("the tour: %v\n%s\n%s", err, &said, &complaints)
	}
	return strings.Split(strings.TrimSpace(said.String()), "\n")
}
