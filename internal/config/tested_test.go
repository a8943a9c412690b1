package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// judged is a line of testdata/honoured.txt: an honoured key and the test that judges what it does.
type judged struct {
	key    string
	folder string // of the test's package, from the root of the module
	test   string
	word   string // how the test sets it: the key, a field of options, a function, or a parameter as in function(parameter
	reader string // the folder that reads the field or has the function; if it isn't said, this one or those it imports
	debt   bool   // the test is known to pass although the key is unset
}

// TestHonouredKeysAreTested holds testdata/honoured.txt against the table of keys and the tests: each honoured key has
// a line, and the source of the test that the line names sets what the line says. Whether the test judges what it sets
// is shown by TestHonouredKeysUnset.
func TestHonouredKeysAreTested(t *testing.T) {
	t.Parallel()
	want := map[string]bool{}
	for _, k := range rows() {
		if k.field != nil {
			want[k.name] = true
		}
	}
	sources := map[string]testSource{}
	for _, j := range readJudged(t) {
		if !want[j.key] {
			t.Errorf("testdata/honoured.txt: the line of %s is about no honoured key, or the second one", j.key)
			continue
		}
		delete(want, j.key)
		if sources[j.folder] == nil {
			sources[j.folder] = readTests(t, filepath.Join("..", "..", j.folder))
		}
		text := sources[j.folder].reach(j.test)
		switch {
		case text == "":
			t.Errorf("testdata/honoured.txt: %s has no test %s", j.folder, j.test)
		case !j.debt && !mentions(text, j.word):
			t.Errorf("testdata/honoured.txt: the source of %s in %s doesn't have %q; name a test that sets %s, and how its source calls it",
				j.test, j.folder, j.word, j.key)
		}
	}
	for name := range want {
		t.Errorf("%s is honoured and has no line in testdata/honoured.txt: name a test of what it does there", name)
	}
}

// readJudged reads testdata/honoured.txt.
func readJudged(t *testing.T) (all []judged) {
	t.Helper()
	text, err := os.ReadFile("testdata/honoured.txt")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if strings.HasPrefix(line, "#") {
			continue
		}
		given, test, _ := strings.Cut(strings.TrimSpace(line), " | ")
		var j judged
		j.key, _, _ = strings.Cut(strings.TrimPrefix(given, "-D"), "=")
		words := strings.Fields(test)
		if n := len(words); n > 0 && words[n-1] == "unjudged" {
			j.debt, words = true, words[:n-1]
		}
		switch len(words) {
		case 2:
			j.folder, j.test, j.word = words[0], words[1], j.key
		case 3:
			j.folder, j.test, j.word = words[0], words[1], words[2]
			if reader, word, ok := strings.Cut(j.word, ":"); ok {
				j.reader, j.word = reader, word
			}
		default:
			t.Fatalf("testdata/honoured.txt: %q doesn't end with a folder, a test and perhaps a word", line)
		}
		all = append(all, j)
	}
	return all
}

// mentions reports whether a source has a word, with nothing that could belong to it before (but a \n) and behind it.
// Of a parameter, the function counts.
func mentions(text, word string) bool {
	word, _, _ = strings.Cut(word, "(")
	return regexp.MustCompile(`(^|\\n|[^\w])(zookeeper\.)?` + regexp.QuoteMeta(word) + `($|[^\w])`).MatchString(text)
}

// testSource is the source of a folder's tests: the texts of its declarations, by their names. Methods of different
// types that share a name are one text.
type testSource map[string]string

// reach returns the text of a test and of all that it uses of its folder's tests. Of transcripts, their files belong to
// it.
func (s testSource) reach(test string) string {
	var text strings.Builder
	seen := map[string]bool{}
	for todo := []string{test}; len(todo) > 0; {
		name := todo[0]
		todo = todo[1:]
		if !seen[name] {
			seen[name] = true
			text.WriteString(s[name])
			todo = append(todo, identifier.FindAllString(s[name], -1)...)
		}
	}
	if text.Len() > 0 && test == "TestTranscripts" {
		text.WriteString(s[transcripts])
	}
	return text.String()
}

var identifier = regexp.MustCompile(`\b[A-Za-z]\w*\b`)

// transcripts is the name under which testSource has the files in testdata.
const transcripts = "testdata/"

// readTests reads the tests of a folder.
func readTests(t *testing.T, folder string) testSource {
	t.Helper()
	s := testSource{}
	err := filepath.WalkDir(folder, func(file string, d fs.DirEntry, err error) error {
		inside, relErr := filepath.Rel(folder, file)
		switch {
		case err != nil || relErr != nil:
			return fmt.Errorf("%w %w", err, relErr)
		case d.IsDir() && (inside == "." || strings.HasPrefix(inside, "testdata")):
			return nil
		case d.IsDir():
			return filepath.SkipDir
		}
		text, err := os.ReadFile(file)
		if strings.HasPrefix(inside, "testdata") && strings.HasSuffix(file, ".txt") {
			s[transcripts] += string(text)
		}
		if err == nil && !strings.HasPrefix(inside, "testdata") && strings.HasSuffix(file, "_test.go") {
			err = s.add(file, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// add adds the declarations of a file.
func (s testSource) add(name, text string) error {
	set := token.NewFileSet()
	f, err := parser.ParseFile(set, name, text, parser.SkipObjectResolution)
	if err != nil {
		return err
	}
	of := func(n ast.Node) string { return text[set.Position(n.Pos()).Offset:set.Position(n.End()).Offset] + "\n" }
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			s[d.Name.Name] += of(d)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						s[id.Name] += of(d)
					}
				case *ast.TypeSpec:
					s[spec.Name.Name] += of(spec)
				}
			}
		}
	}
	return nil
}
