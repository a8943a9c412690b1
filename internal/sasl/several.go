package sasl

import (
	"errors"
	"fmt"
	"strings"
)

// Several offers several mechanisms; the client's first token decides which one is used.
type Several []Mechanism

// Name returns the names of all mechanisms, separated by commas.
func (s Several) Name() string {
	var names []string
	for _, m := range s {
		names = append(names, m.Name())
	}
	return strings.Join(names, ", ")
}

// Begins reports whether a login by any of the mechanisms begins with token.
func (s Several) Begins(token []byte) bool { return s.of(token) != nil }

func (s Several) of(token []byte) Mechanism {
	for _, m := range s {
		if m.Begins(token) {
			return m
		}
	}
	return nil
}

// Begin returns the state of one connection's login, by a mechanism yet to be chosen.
func (s Several) Begin() Login { return &choice{several: s} }

// A choice is a login whose mechanism is chosen by the first token.
type choice struct {
	several Several
	chosen  Login // nil before the first token
	over    bool  // no mechanism was found
}

// Step implements Login.
func (c *choice) Step(token []byte) ([]byte, bool, string, error) {
	switch {
	case c.over:
		return nil, false, "", errors.New("log in: the login is over; a new one needs a new connection")
	case c.chosen != nil:
		return c.chosen.Step(token)
	}
	m := c.several.of(token)
	if m == nil {
		c.over = true
		return nil, false, "", fmt.Errorf("log in: the client's first token is of no mechanism that this server has; it has %s",
			c.several.Name())
	}
	c.chosen = m.Begin()
	return c.chosen.Step(token)
}
