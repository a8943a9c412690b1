package cli

import (
	"context"
	"strings"
	"unicode/utf8"

	"github.com/zooid-project/zooid/internal/tool/cli/screen"
)

func runConnect(_ context.Context, s *shell, a *args) error {
	return s.connect(a.argOr(0, s.host))
}

func runClose(_ context.Context, s *shell, _ *args) error {
	if s.client == nil || stateWord(s.client) == "CLOSED" {
		return errNotConnected
	}
	s.disconnect()
	if !s.single {
		s.printState("Closed")
	}
	return nil
}

func runQuit(_ context.Context, s *shell, _ *args) error {
	s.over = true
	return nil
}

func runVersion(_ context.Context, s *shell, _ *args) error {
	s.out.Show(map[string]string{"version": s.opt.version}, func() {
		s.out.Printf("ZooKeeper CLI version: %s\n", s.opt.version)
	})
	return nil
}

type commandJSON struct {
	Name  string            `json:"name"`
	Usage string            `json:"usage"`
	About string            `json:"about"`
	Flags map[string]string `json:"flags,omitempty"`

	Examples []string `json:"examples,omitempty"`
}

func (c *command) toJSON() commandJSON {
	v := commandJSON{c.name, c.usage, c.about, map[string]string{}, lessons()[c.name].examples}
	for _, f := range c.flags {
		v.Flags["-"+f.name] = f.about
	}
	return v
}

func runHelp(_ context.Context, s *shell, a *args) error {
	if len(a.words) == 0 {
		s.printTopics()
		return nil
	}
	c, _ := find(a.words)
	if c == nil {
		return s.printGuide(a.arg(0))
	}
	s.out.Show(c.toJSON(), func() {
		s.out.Printf("%s\n\n", c.about)
		var usage strings.Builder
		c.printUsage(&usage)
		synopsis, flags, _ := strings.Cut(usage.String(), "\n")
		s.out.Printf("%s\n%s", folded(synopsis), flags)
		if names := aliasesOf(c.name); names != nil {
			s.out.Printf("\nAlso: %s\n", strings.Join(names, ", "))
		}
		l := lessons()[c.name]
		if l.text != "" {
			s.out.Printf("\n%s\n", l.text)
		}
		if l.examples != nil {
			s.out.Printf("\nExamples:\n")
		}
		for _, line := range l.examples {
			s.out.Printf("  %s\n", line)
		}
	})
	return nil
}

// folded breaks a line before the words at which it would pass helpColumns.
func folded(line string) string {
	var b strings.Builder
	column := 0
	for i, word := range strings.Split(line, " ") {
		n := utf8.RuneCountInString(word) + 1
		switch {
		case i > 0 && column+n > helpColumns:
			b.WriteString("\n    ")
			column = len("    ")
		case i > 0:
			b.WriteByte(' ')
		}
		b.WriteString(word)
		column += n
	}
	return b.String()
}

// helpColumns is the width of the help texts.
const helpColumns = 100

// printGuide prints help's text about a word that is not a command.
func (s *shell) printGuide(name string) error {
	for _, g := range guides() {
		if g.name == name {
			s.out.Show(map[string]string{"name": g.name, "about": g.about, "text": g.text}, func() {
				s.out.Printf("%s\n\n%s", g.about, g.text)
			})
			return nil
		}
	}
	return unknownCommandError(name)
}

// printTopics lists the commands.
func (s *shell) printTopics() {
	for _, t := range topics() {
		if !s.out.JSON {
			s.out.Printf("%s\n", s.out.Paint(screen.Blue, t.title))
		}
		for _, name := range t.names {
			c, _ := find(strings.Fields(name))
			s.out.Show(c.toJSON(), func() { s.out.Printf("  %-20s %s\n", c.name, c.about) })
		}
	}
	if !s.out.JSON {
		s.out.Printf("%s\n", s.out.Paint(screen.Blue, "More help"))
		for _, g := range guides() {
			s.out.Printf("  %-20s %s\n", "help "+g.name, g.about)
		}
		s.out.Printf("\nhelp COMMAND shows its flags and examples; -o json prints any result as JSON.\n")
	}
}
