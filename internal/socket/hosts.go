package socket

import (
	"net"
	"os"
	"slices"
	"strings"
)

// ownDomains are top-level domains in which no name can be registered: those that are reserved for local use, and those
// that are commonly used locally and that ICANN doesn't delegate.
var ownDomains = []string{
	"arpa", "corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "mail", "private", "svc",
	"test",
}

// ForeignHost reports whether host, the Host of an HTTP request without TLS, may be a stranger's domain. By DNS
// rebinding, a stranger's domain resolves to this host's address, and a page of that domain can read what a browser on
// this network gets from here. own are names in lower case by which callers reach this host. Addresses, the host's own
// name, and names that can't be registered are always accepted.
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
