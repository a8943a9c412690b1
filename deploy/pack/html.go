package main

import (
	"bytes"
	"errors"
	"fmt"
	"html"
	"maps"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"unicode"

	"github.com/yuin/goldmark"
	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/extension"
	"github.com/yuin/goldmark/parser"
	"github.com/yuin/goldmark/text"
)

// project is where links lead whose targets are not among the books: sources, and what is on other folders' pages.
const project = "https://github.com/zooid-project/zooid"

// A book is a page of the documentation that becomes an HTML page.
type book struct {
	source string // its file, from the root of the repository: docs/install.md
	target string // install.html
	title  string
	text   []byte
	doc    ast.Node
	ids    map[string]bool // the names that links to it can have
}

// A library is the books, and the facts by which their links are judged.
type library struct {
	root    string // the folder of the repository
	ref     string // the commit or tag that links to the project's site name
	books   map[string]*book
	images  map[string]bool
	parsing goldmark.Markdown
}

// writeHTML writes the documentation below root as HTML pages into dir, with the images that they show. Each link leads
// to one of the pages, or to the project's site; one that leads to nothing is an error.
func writeHTML(root, ref, dir string) error {
	l := &library{root: root, ref: ref, books: map[string]*book{}, images: map[string]bool{}, parsing: goldmark.New(
		goldmark.WithExtensions(extension.Table, extension.Strikethrough, extension.Linkify),
		goldmark.WithParserOptions(parser.WithAutoHeadingID()),
	)}
	if err := l.read(); err != nil {
		return fmt.Errorf("make HTML: %w", err)
	}
	var errs []error
	for _, source := range slices.Sorted(maps.Keys(l.books)) {
		b := l.books[source]
		errs = append(errs, l.relink(b))
		page, err := l.page(b)
		file := filepath.Join(dir, filepath.FromSlash(b.target))
		errs = append(errs, err, os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, page, 0o644))
	}
	for image := range l.images {
		bytes, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(image)))
		errs = append(errs, err, os.WriteFile(filepath.Join(dir, path.Base(image)), bytes, 0o644))
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("make HTML: %w", err)
	}
	return nil
}

// read parses the pages of docs, the decisions and the root.
func (l *library) read() error {
	for _, pattern := range []string{"*.md", "docs/*.md", "docs/decisions/*.md"} {
		files, err := filepath.Glob(filepath.Join(l.root, filepath.FromSlash(pattern)))
		if err != nil || len(files) == 0 {
			return fmt.Errorf("no pages %s in %s: %w", pattern, l.root, err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				return err
			}
			l.add(path.Join(path.Dir(pattern), filepath.Base(file)), text)
		}
	}
	return nil
}

// add parses a page. Those of docs/ are the top. A README.md in docs or below is the index of its folder.
func (l *library) add(source string, content []byte) {
	b := &book{source: source, text: content, ids: map[string]bool{}}
	dir, name := path.Split(source)
	switch {
	case strings.HasPrefix(dir, "docs/") && name == "README.md":
		b.target = strings.TrimPrefix(dir, "docs/") + "index.html"
	case dir == "":
		b.target = "project/" + strings.ToLower(strings.TrimSuffix(name, ".md")) + ".html"
	default:
		b.target = strings.TrimPrefix(dir, "docs/") + strings.TrimSuffix(name, ".md") + ".html"
	}
	ids := &slugs{b.ids}
	b.doc = l.parsing.Parser().Parse(text.NewReader(content), parser.WithContext(parser.NewContext(parser.WithIDs(ids))))
	if h, ok := b.doc.FirstChild().(*ast.Heading); ok {
		b.title = plainText(h, content)
	}
	l.books[source] = b
}

// plainText returns the text of a node without its marks.
func plainText(n ast.Node, source []byte) string {
	var b strings.Builder
	_ = ast.Walk(n, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if t, ok := n.(*ast.Text); ok && entering {
			b.Write(t.Segment.Value(source))
		}
		return ast.WalkContinue, nil
	})
	return b.String()
}

// slugs gives headings the names that GitHub gives them, by which the pages' links name them.
type slugs struct{ taken map[string]bool }

// Generate returns the name of a heading.
func (s *slugs) Generate(value []byte, _ ast.NodeKind) []byte {
	slug := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r) || unicode.IsDigit(r) || r == '-' || r == '_':
			return unicode.ToLower(r)
		case r == ' ':
			return '-'
		}
		return -1
	}, strings.TrimSpace(string(value)))
	name := slug
	for n := 1; s.taken[name]; n++ {
		name = fmt.Sprintf("%s-%d", slug, n)
	}
	s.taken[name] = true
	return []byte(name)
}

// Put reserves a name.
func (s *slugs) Put(value []byte) { s.taken[string(value)] = true }

// relink makes the links and images of a page lead where they do from its HTML.
func (l *library) relink(b *book) error {
	var errs []error
	err := ast.Walk(b.doc, func(n ast.Node, entering bool) (ast.WalkStatus, error) {
		if !entering {
			return ast.WalkContinue, nil
		}
		var to *[]byte
		switch n := n.(type) {
		case *ast.Link:
			to = &n.Destination
		case *ast.Image:
			to = &n.Destination
		case *ast.HTMLBlock:
			if n.HTMLBlockType != ast.HTMLBlockType2 { // a comment
				errs = append(errs, rawHTML(b, n.Lines().Value(b.text)))
			}
		case *ast.RawHTML:
			errs = append(errs, rawHTML(b, n.Segments.Value(b.text)))
		}
		if to != nil {
			link, err := l.follow(b, string(*to))
			errs, *to = append(errs, err), []byte(link)
		}
		return ast.WalkContinue, nil
	})
	return errors.Join(append(errs, err)...)
}

func rawHTML(b *book, text []byte) error {
	return fmt.Errorf("%s has raw HTML, which is left out: %.80q", b.source, text)
}

// follow returns the link of a page's HTML that leads where the page's own link does.
func (l *library) follow(b *book, link string) (string, error) {
	u, err := url.Parse(link)
	switch {
	case err != nil:
		return "", fmt.Errorf("%s links to %q: %w", b.source, link, err)
	case u.Scheme == "https" || u.Scheme == "http":
		return link, nil
	case u.Scheme != "" || u.Host != "" || strings.HasPrefix(u.Path, "/"):
		return "", fmt.Errorf("%s links to %s, which is neither a page nor a file of the project", b.source, link)
	}
	source := b.source
	if u.Path != "" {
		source = path.Join(path.Dir(b.source), u.Path)
	}
	if source == ".." || strings.HasPrefix(source, "../") {
		return "", fmt.Errorf("%s links to %s, which is out of the project", b.source, link)
	}
	if source == "docs/decisions" {
		source = "docs/decisions/README.md"
	}
	if to := l.books[source]; to != nil {
		if u.Fragment != "" && !to.ids[u.Fragment] {
			return "", fmt.Errorf("%s links to %s: no heading of %s has this name", b.source, link, source)
		}
		return (&url.URL{Path: relative(b.target, to.target), Fragment: u.Fragment}).String(), nil
	}
	st, err := os.Stat(filepath.Join(l.root, filepath.FromSlash(source)))
	switch {
	case err != nil:
		return "", fmt.Errorf("%s links to %s, which isn't there: %w", b.source, link, err)
	case path.Ext(source) == ".svg":
		l.images[source] = true
		return relative(b.target, path.Base(source)), nil
	case st.IsDir():
		return project + "/tree/" + l.ref + "/" + source, nil
	}
	u.Path = source
	return project + "/blob/" + l.ref + "/" + u.String(), nil
}

// relative returns the path from one page to another, both from the same folder.
func relative(from, to string) string {
	return strings.Repeat("../", strings.Count(from, "/")) + to
}

const style = `:root{color-scheme:light dark}
body{max-width:54rem;margin:0 auto;padding:1rem;line-height:1.5;font-family:system-ui,sans-serif}
nav{border-bottom:1px solid #8888;padding-bottom:.5rem;font-size:.9rem}nav a{margin-right:.7rem;display:inline-block}
pre{overflow-x:auto;padding:.7rem;border-radius:4px;background:#8881}code{font-size:.9em}
table{border-collapse:collapse;display:block;overflow-x:auto}td,th{border:1px solid #8886;padding:.3rem .6rem}
td,th{text-align:left;vertical-align:top}img{max-width:100%;background:#fff}h2{margin-top:2.2rem}`

// page returns a page's HTML: links to the books, and its text.
func (l *library) page(b *book) ([]byte, error) {
	var out bytes.Buffer
	fmt.Fprintf(&out, "<!DOCTYPE html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"+
		"<meta name=\"viewport\" content=\"width=device-width\">\n"+
		"<title>%s: Zooid</title>\n<style>%s</style>\n</head>\n<body>\n<nav>",
		html.EscapeString(b.title), style)
	for _, source := range slices.Sorted(maps.Keys(l.books)) {
		if to := l.books[source]; path.Dir(source) == "docs" {
			name := strings.TrimSuffix(path.Base(source), ".md")
			if source == "docs/README.md" {
				name = "books"
			}
			fmt.Fprintf(&out, "<a href=\"%s\">%s</a>\n", relative(b.target, to.target), name)
		}
	}
	fmt.Fprint(&out, "</nav>\n<main>\n")
	if err := l.parsing.Renderer().Render(&out, b.text, b.doc); err != nil {
		return nil, fmt.Errorf("%s: %w", b.source, err)
	}
	fmt.Fprint(&out, "</main>\n</body>\n</html>\n")
	return out.Bytes(), nil
}
