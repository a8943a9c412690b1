package admin

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/zooid-project/zooid/internal/socket"
)

// A browser on this host, or in this network, reaches the admin server for any page that it shows. What a page may do
// with that is bounded by what browsers tell of it.
//
//   - A page that reads answers must be of the same host by its name. By DNS rebinding a stranger's domain gets the
//     address of the admin server, and then the request's Host names that domain: it is refused.
//   - A page of another site may still send requests, without seeing the answers. Browsers say of these where they come
//     from, and commands that change something refuse them.

// foreign reports whether a request without TLS was sent to a name that may be a stranger's. Over TLS the certificate
// says whom the name belongs to.
func (a *Admin) foreign(r *http.Request) bool {
	return r.TLS == nil && socket.ForeignHost(r.Host, a.opt.Hosts)
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
