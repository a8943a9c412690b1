package setup

import (
	"fmt"
	"net"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/config"
)

const (
	// nameBytesMax is how long a certificate's common name may be (RFC 5280, ub-common-name).
	nameBytesMax = 64
	// hostsMax bounds the names and addresses of one server.
	hostsMax = 32
	// hostBytesMax is how long a name may be in DNS.
	hostBytesMax = 253
)

// superuserDefault is the name in the certificate that init writes for the superuser.
const superuserDefault = "client"

var (
	// appName matches the allowed names of applications. No such name needs an escape in a
	// subject, a path or a shell, and none equals the name in a server's certificate, which has
	// a blank.
	appName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)
	// serialName matches names that look like a serial number.
	serialName = regexp.MustCompile(`^[0-9a-f]{32}$`)
	hostLabel  = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_-]{0,61}[A-Za-z0-9_])?$`)
	digits     = regexp.MustCompile(`^[0-9]+$`)
)

// checkAppName returns why an application can't have a name.
func checkAppName(name string) error {
	switch {
	case name == "":
		return fmt.Errorf("issue a certificate: the application's name is empty")
	case len(name) > nameBytesMax:
		return fmt.Errorf("issue a certificate: an application's name may have at most %d bytes; this one has %d",
			nameBytesMax, len(name))
	case !appName.MatchString(name):
		return fmt.Errorf("issue a certificate for %.80q: an application's name consists of letters, digits, '.', '_' and '-', and begins with a letter or digit",
			name)
	case serialName.MatchString(name):
		return fmt.Errorf("issue a certificate for %s: it looks like a serial number", name)
	}
	return nil
}

// checkHosts returns why a server can't have these names.
func checkHosts(hosts []string) error {
	if len(hosts) == 0 {
		return fmt.Errorf("issue a server's certificate: it needs the names and addresses of the server")
	}
	if len(hosts) > hostsMax {
		return fmt.Errorf("issue a server's certificate: it has at most %d names, these are %d", hostsMax, len(hosts))
	}
	for i, host := range hosts {
		if slices.ContainsFunc(hosts[:i], func(other string) bool { return sameHost(host, other) }) {
			return fmt.Errorf("issue a server's certificate: %.80q is given twice", host)
		}
		if err := checkHost(host); err != nil {
			return err
		}
	}
	return nil
}

func checkHost(host string) error {
	if net.ParseIP(host) != nil {
		return nil
	}
	labels := strings.Split(host, ".")
	switch {
	case len(host) > hostBytesMax:
		return fmt.Errorf("issue a server's certificate: a host's name may have at most %d bytes; one has %d", hostBytesMax,
			len(host))
	case strings.Contains(host, "*"):
		return fmt.Errorf("issue a server's certificate for %.80q: a wildcard certificate passes for every server that it matches; name the server",
			host)
	case strings.ContainsAny(host, ":[]"):
		return fmt.Errorf("issue a server's certificate for %.80q: want a name or an address without brackets and port", host)
	case digits.MatchString(labels[len(labels)-1]):
		return fmt.Errorf("issue a server's certificate for %.80q: it is neither a name nor an address", host)
	}
	for _, label := range labels {
		if !hostLabel.MatchString(label) {
			return fmt.Errorf("issue a server's certificate for %.80q: it isn't a host's name", host)
		}
	}
	return nil
}

// sameHost reports whether two names of hosts, or two addresses, are the same.
func sameHost(a, b string) bool {
	if ip := net.ParseIP(a); ip != nil {
		return ip.Equal(net.ParseIP(b))
	}
	return strings.EqualFold(a, b)
}

// serverName returns the common name in a server's certificate.
func serverName(host string) string {
	name := "server " + strings.ToLower(host)
	return name[:min(len(name), nameBytesMax)]
}

// superusers returns the names in certificates that make their holders superusers: that of init, and
// those in the configurations that are in dir.
func superusers(dir string) ([]string, error) {
	names := []string{superuserDefault}
	files, _ := filepath.Glob(filepath.Join(literal(dir), "*", "zoo.cfg"))
	for _, file := range files {
		text, err := readBounded(file)
		if err != nil {
			return nil, err
		}
		values, err := config.Properties(text)
		if err != nil {
			return nil, fmt.Errorf("read %s: %w", file, err)
		}
		for key, subject := range values {
			if strings.HasSuffix(key, "X509AuthenticationProvider.superUser") {
				if name := strings.TrimPrefix(strings.TrimSpace(subject), "CN="); !slices.Contains(names, name) {
					names = append(names, name)
				}
			}
		}
	}
	return names, nil
}

// isSuperuser reports whether a name is one of superusers, ignoring case: readers of a list of certificates don't
// distinguish case.
func isSuperuser(name string, superusers []string) bool {
	return slices.ContainsFunc(superusers, func(super string) bool { return strings.EqualFold(name, super) })
}
