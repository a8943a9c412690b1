package cli

import (
	"context"
	"strings"
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
	s.out.show(map[string]string{"version": s.opt.version}, func() {
		s.out.printf("ZooKeeper CLI version: %s\n", s.opt.version)
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
	s.out.show(c.toJSON(), func() {
		s.out.printf("%s\n\n", c.about)
		c.printUsage(s.out.w)
		if names := aliasesOf(c.name); names != nil {
			s.out.printf("\nAlso: %s\n", strings.Join(names, ", "))
		}
		l := lessons()[c.name]
		if l.text != "" {
			s.out.printf("\n%s\n", l.text)
		}
		if l.examples != nil {
			s.out.printf("\nExamples:\n")
		}
		for _, line := range l.examples {
			s.out.printf("  %s\n", line)
		}
	})
	return nil
}

// printGuide prints what help has on a word that is no command.
func (s *shell) printGuide(name string) error {
	for _, g := range guides() {
		if g.name == name {
			s.out.show(map[string]string{"name": g.name, "about": g.about, "text": g.text}, func() {
				s.out.printf("%s\n\n%s", g.about, g.text)
			})
			return nil
		}
	}
	return unknownCommandError(name)
}

// printTopics lists the commands.
func (s *shell) printTopics() {
	for _, t := range topics() {
		if !s.out.json {
			s.out.printf("%s\n", s.out.paint(blue, t.title))
		}
		for _, name := range t.names {
			c, _ := find(strings.Fields(name))
			s.out.show(c.toJSON(), func() { s.out.printf("  %-20s %s\n", c.name, c.about) })
		}
	}
	if !s.out.json {
		s.out.printf("%s\n", s.out.paint(blue, "More help"))
		for _, g := range guides() {
			s.out.printf("  %-20s %s\n", "help "+g.name, g.about)
		}
		s.out.printf("\nhelp COMMAND tells its flags, with examples; -o json prints any result as JSON.\n")
	}
}
