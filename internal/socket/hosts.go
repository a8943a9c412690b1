package socket

import (
	"net"
	"os"
	"slices"
	"strings"
)

// ownDomains are top-level domains in which nobody can register a name: those that are reserved for local use, and
// those that many use so and that ICANN gives to nobody.
var ownDomains = []string{
	"arpa", "corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "mail", "private", "svc",
	"test",
}

// ForeignHost reports whether host, the Host of an HTTP request without TLS, may be a stranger's name. By DNS rebinding
// a stranger's domain gets the address of this host, and a page of that domain may read what a browser here gets.
// own are the names in lower case by which callers reach this host, besides addresses, its own name, and names that
// nobody can register.
func ForeignHost(host string, own []string) bool {
	if host == "" {
		return false
	}
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if address, _, _ := strings.Cut(host, "%"); net.ParseIP(address) != nil {
		return false
	}
	dot := strings.LastIndexByte(host, '.')
	this, err := os.Hostname()
	return dot >= 0 && !slices.Contains(ownDomains, host[dot+1:]) && !slices.Contains(own, host) &&
		(err != nil || host != strings.ToLower(this))
}
