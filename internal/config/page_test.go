package config

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
)

const page = "../../docs/configuration.md"

// TestConfigurationPage holds the tables of docs/configuration.md against those of this package; -rewrite writes them.
func TestConfigurationPage(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	const mark = "<!-- The tables below are written by go test ./internal/config -run TestConfigurationPage -rewrite -->\n"
	head, tables, ok := strings.Cut(string(text), mark)
	if !ok {
		t.Fatalf("%s has no line %s", page, mark)
	}
	want := pageTables(t)
	if tables == want {
		return
	}
	if !*rewrite {
		t.Fatalf("%s is not what the keys are: write it with go test ./internal/config -run TestConfigurationPage -rewrite",
			page)
	}
	if err := os.WriteFile(page, []byte(head+mark+want), 0o644); err != nil {
		t.Fatal(err)
	}
}

// TestOwnKeysAreNamed: where the page lists Zooid's own keys, it names each honoured key that Apache doesn't have, and
// no other.
func TestOwnKeysAreNamed(t *testing.T) {
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	_, list, ok := strings.Cut(string(text), "These keys are Zooid's own: ")
	list, _, _ = strings.Cut(list, "\n\n")
	named := regexp.MustCompile("`[^`]+`").FindAllString(list, -1)
	if !ok || len(named) < 10 {
		t.Fatalf("%s names the keys %s as Zooid's own", page, named)
	}
	apache := map[string]bool{}
	keys, err := os.ReadFile("testdata/apache_keys.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range strings.Fields(string(keys)) {
		apache[strings.TrimPrefix(key, "zookeeper.")] = true
	}
	used := map[string]bool{}
	for _, k := range rows() {
		if k.field == nil || apache[k.name] || strings.HasPrefix(k.name, "java.") {
			continue
		}
		name := strings.Replace(k.name, "ssl.quorum.", "ssl.", 1)
		i := slices.IndexFunc(named, func(n string) bool {
			n = strings.Trim(n, "`")
			return n == name || strings.HasSuffix(n, "…") && strings.HasPrefix(name, strings.TrimSuffix(n, "…"))
		})
		if i < 0 {
			t.Errorf("%s doesn't name %s as Zooid's own key", page, k.name)
			continue
		}
		used[named[i]] = true
	}
	for _, n := range named {
		if !used[n] && n != "`audit.enable`" && n != "`audit.impl.class`" && n != "`ssl.quorum.`" {
			t.Errorf("%s names %s as Zooid's own key; Apache has it, or there is none", page, n)
		}
	}
}

func pageTables(t *testing.T) string {
	t.Helper()
	about := fieldComments(t)
	honoured := "\n## Honoured\n\n| key | given | default | meaning |\n|---|---|---|---|\n"
	unused := "\n## Accepted without effect\n\nA value other than Apache's default leaves a warning.\n\n| key | why |\n|---|---|\n"
	refused := "\n## Refused\n\nThe server doesn't start with these keys, except with the value in the second column.\n\n| key | except | why |\n|---|---|---|\n"
	for _, k := range rows() {
		switch {
		case k.field != nil:
			c := &Config{}
			path := fieldPath(reflect.ValueOf(c).Elem(), reflect.ValueOf(k.field(c)).UnsafePointer())
			last := path[len(path)-1]
			meaning := about[last.owner+"."+last.name]
			if last.owner == "HostPort" {
				meaning = about[path[0].owner+"."+path[0].name]
			}
			value := k.value
			if k.apache != "" {
				value += " (Apache: " + k.apache + ")"
			}
			honoured += fmt.Sprintf("| `%s` | %s | %s | %s |\n", k.name, given(k), value, cell(meaning))
		case k.unused != "":
			unused += fmt.Sprintf("| `%s` | %s |\n", k.name, cell(k.unused))
		default:
			refused += fmt.Sprintf("| `%s` | %s | %s |\n", k.name, k.unless, cell(k.refused))
		}
	}
	return honoured + unused + refused
}

// given says where a key is read.
func given(k key) string {
	switch {
	case k.where == inFile:
		return "zoo.cfg"
	case k.where == onlyD:
		return "-D" + k.name
	case k.plainD:
		return "zoo.cfg, -Dzookeeper." + k.name + ", -D" + k.name
	}
	return "zoo.cfg, -Dzookeeper." + k.name
}

func cell(s string) string { return strings.ReplaceAll(strings.TrimSpace(s), "|", `\|`) }

// fieldComments returns the comment of each field of each struct in config.go.
func fieldComments(t *testing.T) map[string]string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), "config.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	all := map[string]string{}
	ast.Inspect(f, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok {
			for _, field := range st.Fields.List {
				for _, name := range field.Names {
					all[spec.Name.Name+"."+name.Name] = strings.ReplaceAll(field.Doc.Text()+field.Comment.Text(), "\n", " ")
				}
			}
		}
		return false
	})
	return all
}
