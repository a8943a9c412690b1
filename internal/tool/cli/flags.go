package cli

import (
	"context"
	"net"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/zk"
)

// Access holds the shell's flags for TLS and logins, for commands outside the shell. The zero value has no TLS.
type Access struct{ o options }

// Take reads one of these flags, with its value, from the front of arguments and returns the rest. ok is false if
// arguments don't begin with one.
func (a *Access) Take(arguments []string) (rest []string, ok bool, err error) {
	if len(arguments) == 0 || !strings.HasPrefix(arguments[0], "-") {
		return arguments, false, nil
	}
	if !reaches(flagName(arguments[0])) {
		return arguments, false, nil
	}
	rest, err = a.o.take(arguments)
	return rest, true, err
}

// reaches reports whether a flag with that name determines how servers are reached, or with which identity.
func reaches(name string) bool {
	return strings.HasPrefix(name, "tls") || slices.Contains([]string{"client-configuration", "profile", "auth",
		"auth-file", "sasl", "sasl-mechanism", "sasl-file"}, name)
}

// TakeAll reads all of these flags, wherever they are, and returns the other arguments.
func (a *Access) TakeAll(arguments []string) (others []string, err error) {
	for len(arguments) > 0 {
		rest, taken, err := a.Take(arguments)
		if err != nil {
			return nil, err
		}
		if !taken {
			others, rest = append(others, arguments[0]), arguments[1:]
		}
		arguments = rest
	}
	return others, nil
}

// Reach returns how servers are reached, for packages below this one.
func (a *Access) Reach() *access.Access { return &a.o.access }

// Servers returns the servers that the profile or the environment names, as HOST:PORT,…; "" for none.
func (a *Access) Servers() (string, error) {
	if err := a.o.access.Settle(); err != nil || a.o.access.Server == "" {
		return "", err
	}
	c, err := zk.ParseConnectString(a.o.access.Server)
	return strings.Join(c.Servers, ","), err
}

// Check takes settings without a flag from the profile and the environment, and reads the named files, so that a
// problem with them is reported at the start.
func (a *Access) Check() error { return a.o.access.Check() }

// Secure reports whether servers are reached by TLS.
func (a *Access) Secure() bool { return a.o.access.Secure }

// Use makes servers be reached by TLS, with a server's own key and trust stores.
func (a *Access) Use(tls *config.TLS) { a.o.access.Use(tls) }

// Put sets the options of a client.
func (a *Access) Put(o *zk.Options) { a.o.access.Put(o) }

// Dial connects to a server, without a session.
func (a *Access) Dial(ctx context.Context, server string) (net.Conn, error) {
	return a.o.access.Dial(ctx, server)
}
