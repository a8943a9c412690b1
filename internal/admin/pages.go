package admin

import (
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
)

// A browser on this host, or in this network, reaches the admin server for any page that it shows. What a page may do
// with that is bounded by what browsers tell of it.
//
//   - A page that reads answers must be of the same host by its name. By DNS rebinding a stranger's domain gets the
//     address of the admin server, and then the request's Host names that domain: it is refused.
//   - A page of another site may still send requests, without seeing the answers. Browsers say of these where they come
//     from, and commands that change something refuse them.

// ownDomains are top-level domains in which nobody can register a name: those that are reserved for local use, and
// those that many use so and that ICANN gives to nobody.
var ownDomains = []string{
	"arpa", "corp", "home", "internal", "intranet", "lan", "local", "localdomain", "localhost", "mail", "private", "svc",
	"test",
}

// foreign reports whether a request without TLS was sent to a name that may be a stranger's. Over TLS the certificate
// says whom the name belongs to.
func (a *Admin) foreign(r *http.Request) bool {
	if r.TLS != nil || r.Host == "" {
		return false
	}
	host := r.Host
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.ToLower(strings.TrimSuffix(strings.Trim(host, "[]"), "."))
	if address, _, _ := strings.Cut(host, "%"); net.ParseIP(address) != nil {
		return false
	}
	dot := strings.LastIndexByte(host, '.')
	own, err := os.Hostname()
	return dot >= 0 && !slices.Contains(ownDomains, host[dot+1:]) && !slices.Contains(a.opt.Hosts, host) &&
		(err != nil || host != strings.ToLower(own))
}

// fromElsewhere reports whether a browser says that a page of another site sent a request.
func fromElsewhere(r *http.Request) bool {
	switch r.Header.Get("Sec-Fetch-Site") {
	case "cross-site", "same-site":
		return true
	}
	origin := r.Header.Get("Origin")
	if origin == "" {
		return false
	}
	u, err := url.Parse(origin)
	return err != nil || !strings.EqualFold(u.Host, r.Host)
}
