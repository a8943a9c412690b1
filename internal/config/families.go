package config

import (
	"maps"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/authprovider"
)

// schemes maps the authentication providers Apache has to the scheme each serves.
var schemes = map[string]string{
	"org.apache.zookeeper.server.auth.SASLAuthenticationProvider":     "sasl",
	"org.apache.zookeeper.server.auth.X509AuthenticationProvider":     "x509",
	"org.apache.zookeeper.server.auth.EnsembleAuthenticationProvider": "ensemble",
	"org.apache.zookeeper.server.auth.DigestAuthenticationProvider":   "digest",
	"org.apache.zookeeper.server.auth.IPAuthenticationProvider":       "ip",
}

// family takes the keys that have a variable part and so no row: authProvider.N, superUser and
// superUser.<suffix>. It reports whether the key belongs to a family.
func (l *loader) family(name string, s setting) bool {
	if name != "superUser" && !strings.HasPrefix(name, "superUser.") && !strings.HasPrefix(name, "authProvider.") {
		return false
	}
	l.given[name] = s
	return true
}

// familyRules reads the families once it is known which value of each key counts: an overridden value must not
// make a super user.
func (l *loader) familyRules() {
	a := &l.c.Auth
	defer l.matches()
	for _, name := range slices.Sorted(maps.Keys(l.given)) {
		value := l.given[name].value
		switch {
		case isMatches(name): // read when the schemes are known
		case strings.HasPrefix(name, "authProvider."):
			scheme, ok := schemes[value]
			if strings.Contains(value, ":") {
				l.external(name, strings.TrimPrefix(name, "authProvider."), value)
			} else if !ok && slices.Contains(authprovider.Names(), value) {
				if !slices.Contains(a.Providers, value) {
					a.Providers = append(a.Providers, value)
				}
			} else if !ok {
				l.fail("ZD-1003", name, "refused: Java classes can't be loaded; allowed: the providers %s of org.apache.zookeeper.server.auth, those compiled into this program (package authprovider): %s, and exec:/PROGRAM or https://URL in authProvider.SCHEME",
					alternatives(providerNames()), compiledIn())
			} else if scheme != "digest" && scheme != "ip" { // those are always there
				l.addScheme(scheme)
			}
		case name == "superUser" || strings.HasPrefix(name, "superUser."):
			if value != "" && !slices.Contains(a.SASLSuperUsers, value) {
				a.SASLSuperUsers = append(a.SASLSuperUsers, value)
			}
		}
	}
}

// external takes a scheme that a program or an endpoint judges: authProvider.SCHEME=exec:/path.
func (l *loader) external(key, scheme, target string) {
	if strings.Trim(scheme, "0123456789") == "" {
		l.fail("ZD-1002", key, "write authProvider. and the name of the scheme that it serves, such as authProvider.ldap")
	} else if err := authprovider.CheckScheme(scheme); err != nil {
		l.fail("ZD-1002", key, "%v", err)
	} else {
		l.c.Auth.External = append(l.c.Auth.External, External{Scheme: scheme, Target: target})
	}
}

// isMatches reports whether a key is authProvider.SCHEME.matches. No scheme has a dot in its name.
func isMatches(name string) bool {
	scheme, ok := strings.CutPrefix(name, "authProvider.")
	return ok && strings.HasSuffix(scheme, ".matches")
}

// matches reads the rules by which the ids of external schemes match: authProvider.SCHEME.matches=glob.
func (l *loader) matches() {
	for _, name := range slices.Sorted(maps.Keys(l.given)) {
		if !isMatches(name) {
			continue
		}
		scheme := strings.TrimSuffix(strings.TrimPrefix(name, "authProvider."), ".matches")
		at := slices.IndexFunc(l.c.Auth.External, func(e External) bool { return e.Scheme == scheme })
		switch rule := l.given[name].value; {
		case at < 0:
			l.fail("ZD-1005", name, "no program or endpoint serves the scheme %s; add authProvider.%s=exec:/PROGRAM or https://URL. A provider that is compiled in names its rule itself",
				printable(scheme), printable(scheme))
		case authprovider.FindRule(rule) == nil:
			l.fail("ZD-1002", name, "allowed: %s, or a rule that is compiled into this program (authprovider.RegisterRule)",
				authprovider.Glob)
		default:
			l.c.Auth.External[at].Matches = rule
		}
	}
}

// addScheme keeps the schemes sorted and each once, in whatever order they are configured.
func (l *loader) addScheme(scheme string) {
	if i, found := slices.BinarySearch(l.c.Auth.Schemes, scheme); !found {
		l.c.Auth.Schemes = slices.Insert(l.c.Auth.Schemes, i, scheme)
	}
}

func providerNames() []string {
	var names []string
	for class := range schemes {
		names = append(names, class[strings.LastIndexByte(class, '.')+1:])
	}
	slices.Sort(names)
	return names
}

func compiledIn() string {
	if names := authprovider.Names(); len(names) > 0 {
		return strings.Join(names, ", ")
	}
	return "none"
}
