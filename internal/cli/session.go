package cli

import (
	"context"
)

func runConnect(_ context.Context, s *shell, a *args) error {
	return s.connect(a.argOr(0, s.host))
}

func runClose(_ context.Context, s *shell, _ *args) error {
	if s.client == nil || stateWord(s.client) == "CLOSED" {
		return errNotConnected
	}
	s.disconnect()
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
}

func (c *command) toJSON() commandJSON {
	v := commandJSON{c.name, c.usage, c.about, map[string]string{}}
	for _, f := range c.flags {
		v.Flags["-"+f.name] = f.about
	}
	return v
}

func runHelp(_ context.Context, s *shell, a *args) error {
	if len(a.words) == 0 {
		for _, c := range commands() {
			s.out.show(c.toJSON(), func() { s.out.printf("  %-22s %s\n", c.name, c.about) })
		}
		if !s.out.json {
			s.out.printf("\nhelp COMMAND tells its arguments and flags; -o json prints any result as JSON.\n")
		}
		return nil
	}
	c, _ := find(a.words)
	if c == nil {
		return unknownCommandError(a.arg(0))
	}
	s.out.show(c.toJSON(), func() {
		s.out.printf("%s\n\n", c.about)
		c.printUsage(s.out.w)
	})
	return nil
}
