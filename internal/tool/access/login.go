package access

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/kerberos"
	"github.com/zooid-project/zooid/zk/scram"
)

// sectionDefault is the section of the login file that Java's clients use by default.
// It may be missing from the file.
const sectionDefault = "Client"

// login is a login by SASL, from flags or from a login file of Java (JAAS).
type login struct {
	file    string
	section string // "" for sectionDefault
	off     bool   // zookeeper.sasl.client=false

	mechanism string // DIGEST-MD5 or SCRAM-SHA-256; "" for DIGEST-MD5

	kerberos *kerberos.Login // nil for none
	service  string          // the servers' principal without its host; "" for zookeeper

	user, password string // user is "" for no login
}

// set parses user:password.
func (l *login) set(text string) error {
	user, password, ok := strings.Cut(text, ":")
	if !ok || user == "" {
		return errors.New("want user:password") // never shows the password
	}
	l.user, l.password = user, password
	return nil
}

// setFile parses user:password in the first line of a file.
func (l *login) setFile(file string) error {
	text, err := ReadSmall(file)
	if err != nil {
		return err
	}
	line, _, _ := strings.Cut(string(text), "\n")
	if err := l.set(strings.TrimRight(line, "\r")); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	return nil
}

// The mechanisms of a login by password.
const (
	digestMD5   = "DIGEST-MD5"
	scramSHA256 = "SCRAM-SHA-256"
)

// SetMechanism chooses the mechanism of a login by SASL.
func (a *Access) SetMechanism(name string) error {
	if name != digestMD5 && name != scramSHA256 {
		return fmt.Errorf("%.40q isn't a mechanism; want %s or %s", name, digestMD5, scramSHA256)
	}
	a.login.mechanism = name
	return nil
}

// SetLogin sets the user and the password of a login by SASL, given as user:password.
func (a *Access) SetLogin(text string) error { return a.login.set(text) }

// ReadLogin sets the user and the password from the first line of a file, given as user:password.
func (a *Access) ReadLogin(file string) error { return a.login.setFile(file) }

// put sets the login in a client's options.
func (l *login) put(o *zk.Options) {
	switch {
	case l.off:
	case l.kerberos != nil:
		k := *l.kerberos
		k.Service = l.service
		o.SASL = k
	case l.user == "":
	case l.mechanism == scramSHA256:
		o.SASL = scram.SHA256(l.user, l.password)
	default:
		o.SASL = zk.DigestMD5(l.user, l.password)
	}
}

// read reads the user and the password from the login file, unless a flag has set them.
func (l *login) read() error {
	if l.file == "" || l.user != "" || l.off {
		return nil
	}
	text, err := ReadSmall(l.file)
	if err != nil {
		return fmt.Errorf("read the login file (java.security.auth.login.config): %w", err)
	}
	sections, err := sasl.ParseLogin(l.file, text)
	if err != nil {
		return err
	}
	name := cmp.Or(l.section, sectionDefault)
	i := slices.IndexFunc(sections, func(s sasl.Section) bool { return s.Name == name })
	if i < 0 && l.section == "" {
		return nil
	}
	if i < 0 {
		return fmt.Errorf("%s has no section %q, which zookeeper.sasl.clientconfig names", l.file, name)
	}
	return l.readSection(sections[i])
}

func (l *login) readSection(s sasl.Section) error {
	if k := s.Kerberos(); k != nil {
		l.kerberos = &kerberos.Login{Keytab: k.Keytab, Principal: k.Principal, Cache: k.Cache}
		if k.Keytab != "" {
			if _, err := os.Stat(k.Keytab); err != nil {
				return fmt.Errorf("%s: section %q: read the keytab: %w", l.file, s.Name, err)
			}
		}
		return nil
	}
	for _, m := range s.Modules {
		if !strings.HasSuffix(m.Class, ".DigestLoginModule") {
			return fmt.Errorf("%s: section %q asks for the login module %.200q; only org.apache.zookeeper.server.auth.DigestLoginModule is known, with username and password, and Krb5LoginModule",
				l.file, s.Name, m.Class)
		}
		for _, o := range m.Options {
			switch o.Name {
			case "username":
				l.user = o.Value
			case "password":
				l.password = o.Value
			}
		}
	}
	if l.user == "" {
		return fmt.Errorf("%s: section %q gives no username", l.file, s.Name)
	}
	return nil
}
