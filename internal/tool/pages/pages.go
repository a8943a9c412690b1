// Package pages is `zooid docs`: it shows the pages of the documentation, which the program contains (package docs).
package pages

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/docs"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/tool/terminal"
)

const help = `usage: zooid docs [PAGE [WORD…]]
       zooid docs CODE
       zooid docs -html [PAGE | CODE]

Shows a page of this version's documentation. Without PAGE, it lists the pages and their
sections. With WORDs, it shows the sections of the page whose titles contain all of them.
With the CODE of an error or a warning, it shows what zooid explain does. On a terminal,
the text is shown by $PAGER (less by default).

  zooid docs operations back up
  zooid docs ZD-2002

-html prints the path of the page in HTML, which packages, archives and the image include.
On a terminal, it also opens the page in $BROWSER (by default xdg-open, or open on macOS).

exit code: 0 shown; 1 the pages can't be read; 2 there is no such page, section or code.
`

// A page is a page of the documentation.
type page struct {
	name     string
	title    string
	sections []section // the first is the page's beginning, with its title
}

// A section is the text below a heading, including the heading.
type section struct {
	level       int // 1 for a page's title
	title, text string
}

// Main shows pages of the documentation. For the meaning of a code it calls explain with the arguments. It returns the
// exit code.
func Main(args []string, stdout, stderr io.Writer, explain func(args []string, stdout, stderr io.Writer) int) int {
	all, err := read()
	if err != nil {
		fmt.Fprintln(stderr, "zooid docs:", runbook.Text(err))
		return 1
	}
	if len(args) == 0 {
		list(stdout, all)
		return 0
	}
	if args[0] == "-h" || args[0] == "--help" {
		fmt.Fprint(stdout, help)
		return 0
	}
	if args[0] == "-html" || args[0] == "--html" {
		return openHTML(all, args[1:], stdout, stderr)
	}
	if _, ok := runbook.Find(args[0]); ok {
		return explain(args, stdout, stderr)
	}
	var names []string
	for i := range all {
		p := &all[i]
		if names = append(names, p.name); !strings.EqualFold(p.name, strings.TrimSuffix(args[0], ".md")) {
			continue
		}
		text := p.find(args[1:])
		if text == "" {
			fmt.Fprintf(stderr, "zooid docs: no section of %s has %.80q in its title\n  hint: zooid docs lists the sections\n",
				p.name, strings.Join(args[1:], " "))
			return 2
		}
		show(stdout, text)
		return 0
	}
	return unknown(stderr, args[0], names)
}

// unknown prints that there is no such page, and suggests similar names.
func unknown(stderr io.Writer, name string, names []string) int {
	hint := "zooid docs lists the pages"
	if near := config.Nearest(name, names); len(near) > 0 {
		hint = "did you mean " + strings.Join(near, " or ") + "? " + hint
	}
	fmt.Fprintf(stderr, "zooid docs: there is no page and no code %.80q\n  hint: %s\n", name, hint)
	return 2
}

// read returns the pages, sorted by name.
func read() (all []page, err error) {
	files, err := docs.Pages.ReadDir(".")
	if err != nil {
		return nil, err
	}
	for _, f := range files {
		text, err := docs.Pages.ReadFile(f.Name())
		if err != nil {
			return nil, err
		}
		p := page{name: strings.TrimSuffix(f.Name(), ".md"), sections: sectionsOf(string(text))}
		p.title = p.sections[0].title
		all = append(all, p)
	}
	return all, nil
}

// sectionsOf splits a page at its headings. A line within code that looks like a heading isn't one.
func sectionsOf(text string) (all []section) {
	code := false
	for line := range strings.Lines(text) {
		code = code != strings.HasPrefix(line, "```")
		if !code && strings.HasPrefix(line, "![") {
			continue // a picture, which no terminal shows
		}
		marks := len(line) - len(strings.TrimLeft(line, "#"))
		if len(all) == 0 || !code && marks > 0 && strings.HasPrefix(line[marks:], " ") {
			all = append(all, section{level: max(marks, 1), title: strings.TrimSpace(line[marks:])})
		}
		all[len(all)-1].text += line
	}
	return all
}

// find returns the page, or the sections whose titles have all words, with everything below them.
func (p *page) find(words []string) string {
	var text strings.Builder
	below := 0 // the level of the section whose parts are taken; 0 for none
	for _, s := range p.sections {
		taken := len(words) == 0 || below > 0 && s.level > below
		if !taken {
			below = 0
			if hasAll(s.title, words) {
				taken, below = true, s.level
			}
		}
		if taken {
			text.WriteString(s.text)
		}
	}
	return text.String()
}

// hasAll reports whether a title has all words; "backup" is in "Back up".
func hasAll(title string, words []string) bool {
	title = strings.ToLower(title)
	title += " " + strings.ReplaceAll(title, " ", "")
	return !slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(title, strings.ToLower(w)) })
}

// list prints the pages with their sections.
func list(w io.Writer, all []page) {
	for i := range all {
		p := &all[i]
		fmt.Fprintf(w, "%s: %s\n", p.name, p.title)
		for _, s := range p.sections {
			if s.level == 2 {
				fmt.Fprintf(w, "  %s\n", s.title)
			}
		}
	}
	fmt.Fprintln(w, "ZD-…: what the code of an error or a warning means (zooid explain lists the codes)")
}

// link is a link to a page or a file of the project, of which a terminal shows the text.
var link = regexp.MustCompile(`\[([^\]]+)\]\([^)]+\)`)

// show prints a text; on a terminal it uses the user's pager, and bold headings.
func show(w io.Writer, text string) {
	if !terminal.Is(w) {
		io.WriteString(w, text)
		return
	}
	var b strings.Builder
	code := false
	for line := range strings.Lines(text) {
		code = code != strings.HasPrefix(line, "```")
		if !code {
			line = link.ReplaceAllString(line, "$1")
			if strings.HasPrefix(line, "#") && terminal.Colours(w) {
				line = "\x1b[1m" + strings.TrimRight(line, "\n") + "\x1b[0m\n"
			}
		}
		b.WriteString(line)
	}
	words := wordsOf("PAGER", "less -FRX")
	if path, err := exec.LookPath(words[0]); err == nil {
		pager := exec.Command(path, words[1:]...)
		pager.Stdin, pager.Stdout, pager.Stderr = strings.NewReader(b.String()), terminal.FileOf(w), os.Stderr
		if pager.Run() == nil {
			return
		}
	}
	io.WriteString(w, b.String())
}

// wordsOf returns the command that an environment variable names, or else the usual one.
func wordsOf(variable, usual string) []string {
	if words := strings.Fields(os.Getenv(variable)); len(words) > 0 {
		return words
	}
	return strings.Fields(usual)
}
