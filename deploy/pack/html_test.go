package main

import (
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	linkOf = regexp.MustCompile(` (?:href|src)="([^"]*)"`)
	idOf   = regexp.MustCompile(` id="([^"]*)"`)
)

// TestHTML makes HTML of the project's own pages. Each link and each image leads to a page that is there, and to a
// heading of it, or to a file of the project.
func TestHTML(t *testing.T) {
	t.Parallel()
	dir, root := t.TempDir(), filepath.Join("..", "..")
	if err := writeHTML(root, "v1.2.3", dir); err != nil {
		t.Fatal(err)
	}
	texts, ids := map[string]string{}, map[string]bool{}
	err := filepath.WalkDir(dir, func(file string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(file)
		texts[file] = string(text)
		for _, m := range idOf.FindAllStringSubmatch(string(text), -1) {
			ids[file+"#"+m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{
		"index.html", "operations.html", "project/readme.html", "decisions/042-packages.html", "speed.svg",
	} {
		if texts[filepath.Join(dir, filepath.FromSlash(page))] == "" {
			t.Errorf("there is no %s", page)
		}
	}
	within, site, images := 0, 0, 0
	for file, text := range texts {
		if !strings.HasSuffix(file, ".html") {
			continue
		}
		if strings.Count(text, "<h1") != 1 || strings.Contains(text, "| --") || strings.Contains(text, "|---") {
			t.Errorf("%s has %d titles, or a table that isn't one", file, strings.Count(text, "<h1"))
		}
		for _, m := range linkOf.FindAllStringSubmatch(text, -1) {
			u, err := url.Parse(m[1])
			if err != nil {
				t.Errorf("%s: %v", file, err)
				continue
			}
			if path, ok := strings.CutPrefix(m[1], project+"/"); ok {
				_, path, _ = strings.Cut(path, "/v1.2.3/") // behind blob or tree
				path, _, _ = strings.Cut(path, "#")
				if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(path))); err != nil {
					t.Errorf("%s links to %s: %v", file, m[1], err)
				}
				site++
				continue
			}
			if u.Scheme != "" {
				continue // elsewhere in the world
			}
			to := file
			if u.Path != "" {
				to = filepath.Join(filepath.Dir(file), filepath.FromSlash(u.Path))
			}
			if _, ok := texts[to]; !ok || u.Fragment != "" && !ids[to+"#"+u.Fragment] {
				t.Errorf("%s links to %s", file, m[1])
			}
			within++
			if strings.HasSuffix(to, ".svg") {
				images++
			}
		}
	}
	if within < 500 || site < 10 || images < 2 {
		t.Errorf("%d links within, %d to the site, %d images", within, site, images)
	}
}

// TestHTMLRefuses: links that lead nowhere, or out of the project, and text that would be left out.
func TestHTMLRefuses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ text, want string }{
		"right":      {"# A\n\n## A `b`_c, d\n\n[x](#a-b_c-d) [y](docs/README.md#books-1)\n\n<!-- note -->\n", ""},
		"no page":    {"# A\n\n[x](docs/none.md)", "isn't there"},
		"no heading": {"# A\n\n[x](docs/README.md#none)", "no heading"},
		"no image":   {"# A\n\n![x](none.svg)", "isn't there"},
		"absolute":   {"# A\n\n[x](/etc/passwd)", "neither a page"},
		"script":     {"# A\n\n[x](javascript:alert(1))", "neither a page"},
		"host":       {"# A\n\n[x](//example.com/)", "neither a page"},
		"parents":    {"# A\n\n[x](../../../../../../../../etc/passwd)", "out of the project"},
		"inline":     {"# A\n\na <b>c</b>", "raw HTML"},
		"block":      {"# A\n\n<script>\nalert(1)\n</script>", "raw HTML"},
	} {
		root := t.TempDir()
		write := func(file, text string) {
			file = filepath.Join(root, filepath.FromSlash(file))
			err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644))
			if err != nil {
				t.Fatal(err)
			}
		}
		write("README.md", c.text)
		write("docs/README.md", "# Books\n\n## Books\n")
		write("docs/decisions/001-a.md", "# 001\n")
		err := writeHTML(root, "v1", t.TempDir())
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", name, err, c.want)
		}
	}
}
