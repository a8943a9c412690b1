package cli

import (
	"cmp"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tool/access"
	"github.com/zooid-project/zooid/zk"
)

// options are the shell's own flags.
type options struct {
	timeout  time.Duration
	readOnly bool
	wait     bool
	keepOn   bool
	json     bool
	version  string
	access   access.Access
}

// client returns the options for a client of any server.
func (o *options) client() zk.Options {
	c := zk.Options{SessionTimeout: o.timeout, ReadOnly: o.readOnly}
	o.access.Put(&c)
	return c
}

// A startFlag is one of the shell's own flags, which stand before the command; takeBehind has the exceptions.
type startFlag struct {
	flag
	set func(o *options, value string) error
}

// startFlags returns zkCli's flags, then this shell's. An empty row separates them in
// the help text.
func startFlags() []startFlag {
	file := func(at func(*access.Access) *string) func(*options, string) error {
		return func(o *options, value string) error {
			o.access.Secure, *at(&o.access) = true, value
			return nil
		}
	}
	return []startFlag{
		{flag{"server", "host:port,…[/chroot]", "the ensemble (localhost:2181)"},
			func(o *options, v string) error { return o.access.SetServer(v) }},
		{flag{"profile", "name", "settings from ~/.config/zooid/profiles or the file $ZOOID_CONFIG"},
			func(o *options, v string) error { return o.access.SetProfile(v) }},
		{flag{"timeout", "ms", "timeout of the session and of connecting (30000)"}, (*options).setTimeout},
		{flag{"r", "", "accept a read-only server, which has no quorum"},
			func(o *options, _ string) error { o.readOnly = true; return nil }},
		{flag{"waitforconnection", "", "connect before reading commands; exit if that fails"},
			func(o *options, _ string) error { o.wait = true; return nil }},
		{flag{"client-configuration", "file", "a settings file of the Java client: TLS, SASL"},
			func(o *options, v string) error { return o.access.ReadProperties(v) }},
		{flag{"D", "name=value", "one such setting, as in -Dzookeeper.client.secure=true"}, (*options).setProperty},
		{flag{"k", "", "continue a script after a command that failed"},
			func(o *options, _ string) error { o.keepOn = true; return nil }},
		{flag{"o", "text|json", "how results are printed (text); json prints one value on each line"},
			func(o *options, v string) (err error) {
				o.json, err = outputForm(v)
				return err
			}},
		{},
		{flag{"tls", "", "connect by TLS; every other flag -tls-… implies it"},
			func(o *options, _ string) error { o.access.Secure = true; return nil }},
		{flag{"tls-ca", "file", "the authorities that sign servers' certificates (the system's)"},
			file(func(a *access.Access) *string { return &a.Trust.Location })},
		{flag{"tls-cert", "file", "this client's certificate and key"},
			file(func(a *access.Access) *string { return &a.Keys.Location })},
		{flag{"tls-key", "file", "its key, if the key is in another file"},
			file(func(a *access.Access) *string { return &a.KeyFile })},
		{flag{"tls-password-file", "file", "the password of these files: PEM, JKS (.jks) or PKCS12 (.p12)"},
			func(o *options, v string) error {
				o.access.Secure, o.access.Keys.PasswordPath, o.access.Trust.PasswordPath = true, v, v
				return nil
			}},
		{flag{"tls-any-host", "", "don't check that the certificate names the server"}, func(o *options, _ string) error {
			o.access.Secure, o.access.AnyHost = true, true
			return nil
		}},
		{},
		{flag{"auth", "scheme:credentials", "an identity, such as digest:user:password; repeatable"},
			func(o *options, v string) error { return o.access.AddAuth(v) }},
		{flag{"auth-file", "file", "identities, one on each line"},
			func(o *options, v string) error { return o.access.ReadAuth(v) }},
		{flag{"sasl", "user:password", "log in by SASL on each connection"},
			func(o *options, v string) error { return o.access.SetLogin(v) }},
		{flag{"sasl-mechanism", "name", "the mechanism: DIGEST-MD5 (the default) or SCRAM-SHA-256"},
			func(o *options, v string) error { return o.access.SetMechanism(v) }},
		{flag{"sasl-file", "file", "user:password, from the first line of a file"},
			func(o *options, v string) error { return o.access.ReadLogin(v) }},
	}
}

// StartFlags returns the names of the shell's own flags, those without and those with a value.
func StartFlags() (switches, valued []string) {
	for _, f := range startFlags() {
		if f.value != "" {
			valued = append(valued, "-"+f.name)
		} else if f.name != "" {
			switches = append(switches, "-"+f.name)
		}
	}
	return switches, valued
}

// printStartFlags prints the shell's own flags as a part of the help text.
func printStartFlags(w io.Writer) {
	for _, f := range startFlags() {
		switch left := strings.TrimSpace("-" + f.name + " " + f.value); {
		case f.name == "":
			fmt.Fprintln(w)
		case len([]rune(left)) > flagColumn:
			fmt.Fprintf(w, "  %s\n  %*s %s\n", left, flagColumn, "", f.about)
		default:
			fmt.Fprintf(w, "  %-*s %s\n", flagColumn, left, f.about)
		}
	}
}

// flagColumn is the width of most flags with their values.
const flagColumn = 28

// parseOptions parses the shell's flags; words is the command after them. opt is nil if
// the help text was asked for.
func parseOptions(arguments []string) (opt *options, words []string, err error) {
	opt = &options{timeout: 30 * time.Second}
	for len(arguments) > 0 && strings.HasPrefix(arguments[0], "-") {
		if name := flagName(arguments[0]); name == "h" || name == "help" {
			return nil, nil, nil
		}
		if arguments, err = opt.take(arguments); err != nil {
			return nil, nil, err
		}
	}
	words, err = opt.takeBehind(arguments)
	if err != nil {
		return nil, nil, err
	}
	if err := opt.access.Check(); err != nil {
		return nil, nil, err
	}
	opt.access.Server = cmp.Or(opt.access.Server, serverDefault)
	return opt, words, nil
}

// takeBehind takes the flags about which servers are reached, and how, from the words after a command, unless the
// command has a flag of the same name. It returns the command's own words.
func (o *options) takeBehind(words []string) (own []string, err error) {
	c, _ := find(words)
	if c == nil || c.raw {
		return words, nil
	}
	for len(words) > 0 && words[0] != "--" {
		word := words[0]
		if len(word) > 1 && word[0] == '-' {
			name := flagName(word)
			f := c.findFlag(name)
			if f == nil && (name == "server" || reaches(name)) {
				if words, err = o.take(words); err != nil {
					return nil, err
				}
				continue
			}
			if f != nil && f.value != "" && !strings.Contains(word, "=") && len(words) > 1 {
				own, words = append(own, word), words[1:] // its value, which may look like a flag
			}
		}
		own, words = append(own, words[0]), words[1:]
	}
	return append(own, words...), nil
}

// serverDefault is the ensemble if no other is given.
const serverDefault = "localhost:2181"

// flagName returns the name of the flag in word, which begins with one dash or two and may contain a value.
func flagName(word string) string {
	if strings.HasPrefix(word, "-D") {
		return "D"
	}
	name, _, _ := strings.Cut(strings.TrimPrefix(word[1:], "-"), "=")
	return name
}

// take reads the flag that arguments begin with and returns the rest.
func (o *options) take(arguments []string) (rest []string, err error) {
	word, rest := arguments[0], arguments[1:]
	name := flagName(word)
	_, value, given := strings.Cut(word, "=")
	if property, ok := strings.CutPrefix(word, "-D"); ok && property != "" {
		value, given = property, true
	}
	f := findStartFlag(name)
	switch {
	case f == nil:
		return nil, fmt.Errorf("there is no flag -%s", name)
	case f.value == "" && given:
		return nil, fmt.Errorf("the flag -%s takes no value", name)
	case f.value != "" && !given:
		if len(rest) == 0 {
			return nil, fmt.Errorf("the flag -%s needs a value: %s", name, f.value)
		}
		value, rest = rest[0], rest[1:]
	}
	if err := f.set(o, value); err != nil {
		return nil, fmt.Errorf("-%s: %w", name, err)
	}
	return rest, nil
}

func findStartFlag(name string) *startFlag {
	for _, f := range startFlags() {
		if f.name == name && name != "" {
			return &f
		}
	}
	return nil
}

func (o *options) setTimeout(value string) error {
	ms, err := strconv.Atoi(value)
	if err != nil || ms <= 0 || ms > timeoutMax {
		return fmt.Errorf("%q: want milliseconds, such as 30000", value)
	}
	o.timeout = time.Duration(ms) * time.Millisecond
	return nil
}

// timeoutMax is the longest session timeout that fits the 32 bits it is sent in, in milliseconds.
const timeoutMax = 1<<31 - 1

func (o *options) setProperty(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok {
		return fmt.Errorf("%q: want name=value, such as zookeeper.client.secure=true", text)
	}
	return o.access.SetProperty(name, value)
}

// outputForm reads the value of -o.
func outputForm(value string) (json bool, err error) {
	switch value {
	case "json", "text":
		return value == "json", nil
	}
	return false, fmt.Errorf("%q: want text or json", value)
}
