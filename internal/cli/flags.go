package cli

import (
	"context"
	"net"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// Access is how the shell's flags for TLS and logins say to reach servers, for commands beside the shell. The zero
// value has no TLS.
type Access struct{ o options }

// Take reads one of those flags, with its value, from the front of arguments and returns what follows; ok is false if
// they begin with something else.
func (a *Access) Take(arguments []string) (rest []string, ok bool, err error) {
	if len(arguments) == 0 || !strings.HasPrefix(arguments[0], "-") {
		return arguments, false, nil
	}
	name := flagName(arguments[0])
	if !strings.HasPrefix(name, "tls") && !slices.Contains([]string{"client-configuration", "auth", "auth-file", "sasl", "sasl-file"}, name) {
		return arguments, false, nil
	}
	rest, err = a.o.take(arguments)
	return rest, true, err
}

// Check reads the files that the flags name, so that what is wrong with them is told at the start.
func (a *Access) Check() error { return a.o.access.Check() }

// Secure reports whether servers are reached by TLS.
func (a *Access) Secure() bool { return a.o.access.Secure }

// Put sets the options of one client.
func (a *Access) Put(o *zk.Options) { a.o.access.Put(o) }

// Dial connects to a server, without a session.
func (a *Access) Dial(ctx context.Context, server string) (net.Conn, error) {
	return a.o.access.Dial(ctx, server)
}
