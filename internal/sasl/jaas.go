package sasl

import (
	"fmt"
	"slices"
	"strings"
)

// LoginBytesMax is the size of the largest login file accepted: enough for thousands of users, and
// little to read if the path is wrong.
const LoginBytesMax = 1 << 20

// A Section is one entry of a login file: a name and the modules under it.
type Section struct {
	Name    string
	Modules []Module
}

// A Module is one login module of a section. Options hold passwords; don't log them.
type Module struct {
	Class   string // Java class
	Flag    string // required, requisite, sufficient or optional
	Options []Option

	file string
	line int
}

// An Option is one name=value of a module.
type Option struct{ Name, Value string }

// ParseLogin reads the text of a login file in the syntax of Java's JAAS:
//
//	Name {
//	    module.Class flag option=value option="value" ;
//	};
//
// Errors name the file and the line, and no values. Values that refer to Java's system properties
// (${…}) are refused, because there are none to substitute.
func ParseLogin(file string, text []byte) ([]Section, error) {
	p := loginParser{lex: lexer{file: file, text: text, line: 1}}
	if len(text) > LoginBytesMax {
		return nil, fmt.Errorf("read the login file %s: it has %d bytes, at most %d are accepted; does java.security.auth.login.config name the right file?",
			file, len(text), LoginBytesMax)
	}
	var sections []Section
	for {
		tok, err := p.lex.next()
		if err != nil {
			return nil, err
		}
		if tok.kind == kindEnd {
			return sections, nil
		}
		if tok.kind != kindWord {
			return nil, p.lex.errorf(tok.line, "expected the name of a section, found %s", tok)
		}
		if slices.ContainsFunc(sections, func(s Section) bool { return s.Name == tok.text }) {
			return nil, p.lex.errorf(tok.line, "section %q is there twice; merge the two", tok.text)
		}
		section, err := p.section(tok.text)
		if err != nil {
			return nil, err
		}
		sections = append(sections, section)
	}
}

type loginParser struct{ lex lexer }

// section reads what follows a section's name.
func (p *loginParser) section(name string) (Section, error) {
	s := Section{Name: name}
	if err := p.expect("{"); err != nil {
		return s, err
	}
	for {
		tok, err := p.lex.next()
		if err != nil {
			return s, err
		}
		if tok.is("}") {
			return s, p.expect(";")
		}
		if tok.kind != kindWord {
			return s, p.lex.errorf(tok.line, "expected the class of a login module, or } to end section %q, found %s", name, tok)
		}
		module, err := p.module(tok)
		if err != nil {
			return s, err
		}
		s.Modules = append(s.Modules, module)
	}
}

// module reads what follows a module's class, up to its semicolon.
func (p *loginParser) module(class token) (Module, error) {
	m := Module{Class: class.text, file: p.lex.file, line: class.line}
	flag, err := p.lex.next()
	if err != nil {
		return m, err
	}
	m.Flag = strings.ToLower(flag.text)
	if flag.kind != kindWord || !slices.Contains([]string{"required", "requisite", "sufficient", "optional"}, m.Flag) {
		return m, p.lex.errorf(flag.line, "expected required, requisite, sufficient or optional after the class %s, found %s",
			class.text, flag)
	}
	for {
		name, err := p.lex.next()
		if err != nil {
			return m, err
		}
		if name.is(";") {
			return m, nil
		}
		if name.kind != kindWord {
			return m, p.lex.errorf(name.line, "expected an option or a semicolon that ends the module %s, found %s", class.text,
				name)
		}
		if err := p.expect("="); err != nil {
			return m, err
		}
		value, err := p.lex.next()
		if err != nil {
			return m, err
		}
		if value.kind != kindWord {
			return m, p.lex.errorf(value.line, "expected the value of option %s, found %s; put it in double quotes", name.text,
				value)
		}
		if strings.Contains(value.text, "${") {
			return m, p.lex.errorf(value.line, "option %s refers to a Java property by ${…}, which can't be looked up; write the value itself",
				name.text)
		}
		m.Options = append(m.Options, Option{name.text, value.text})
	}
}

func (p *loginParser) expect(mark string) error {
	tok, err := p.lex.next()
	if err == nil && !tok.is(mark) {
		err = p.lex.errorf(tok.line, "expected %s, found %s", mark, tok)
	}
	return err
}

// The login modules known by their Java classes.
const (
	digestModule = "org.apache.zookeeper.server.auth.DigestLoginModule"
	krb5Module   = "Krb5LoginModule" // com.sun.security.auth.module, and others with that name
	userOption   = "user_"           // prefix of an option that gives a user's password
)

// Users returns the passwords of the users that a server's section names by options
// user_NAME="password". For a section with a module other than DIGEST-MD5 and Kerberos it returns
// an error that says where and why.
func (s Section) Users() (map[string]string, error) {
	users := map[string]string{}
	for _, m := range s.Modules {
		switch {
		case m.isKerberos():
			continue
		case m.Class != digestModule:
			return nil, fmt.Errorf("%s:%d: section %q names the login module %.200q; Java classes can't be loaded, only %s and %s are known",
				m.file, m.line, s.Name, m.Class, digestModule, krb5Module)
		}
		for _, o := range m.Options {
			if name, ok := strings.CutPrefix(o.Name, userOption); ok {
				users[name] = o.Value
			}
		}
	}
	return users, nil
}

func (m *Module) isKerberos() bool {
	return m.Class == krb5Module || strings.HasSuffix(m.Class, "."+krb5Module)
}

func (m *Module) option(name string) string {
	i := slices.IndexFunc(m.Options, func(o Option) bool { return o.Name == name })
	if i < 0 {
		return ""
	}
	return m.Options[i].Value
}

// Kerberos holds the options of a section's Krb5LoginModule.
type Kerberos struct {
	Keytab    string // keyTab; "" with a ticket cache
	Principal string // principal
	Cache     string // ticketCache; "" for the default one
	// Dispensable says that Java's login succeeds even if this module's doesn't, because of the section's
	// DigestLoginModule, whose login always succeeds.
	Dispensable bool
}

// Kerberos returns the Kerberos options of the section, or nil if it has no Kerberos module.
func (s Section) Kerberos() *Kerberos {
	for i, m := range s.Modules {
		if !m.isKerberos() {
			continue
		}
		k := &Kerberos{Principal: m.option("principal"), Cache: m.option("ticketCache"), Dispensable: s.goesOnWithout(i)}
		if m.option("useKeyTab") == "true" {
			k.Keytab = strings.TrimPrefix(m.option("keyTab"), "file:")
		}
		return k
	}
	return nil
}

// goesOnWithout reports whether a login by the section succeeds if module i's doesn't, by the rules of Java's
// javax.security.auth.login.Configuration.
func (s Section) goesOnWithout(i int) bool {
	digest := func(m Module) bool { return m.Class == digestModule }
	if slices.ContainsFunc(s.Modules[:i], func(m Module) bool { return digest(m) && m.Flag == "sufficient" }) {
		return true // it isn't asked
	}
	may := s.Modules[i].Flag == "optional" || s.Modules[i].Flag == "sufficient"
	return may && slices.ContainsFunc(s.Modules, digest)
}
