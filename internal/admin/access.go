package admin

import (
	"net/http"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// certified is the scheme of callers identified by their certificates.
const certified = "x509"

// Apache's error texts for callers without permission.
const (
	errAuthMissing   = "Auth info is missing for the command"
	errUnauthorized  = "Not authorized"
	errNotAuthentic  = "Not authenticated"
	errOpenRoot      = errUnauthorized + ": the ACL of / admits everybody, which isn't enough; ask as a superuser, as an identity that the ACL names, or with the file admin.token of the server's data directory"
	errRuled         = errUnauthorized + ": the tree has a policy or limits (/zookeeper/policy, /zookeeper/limits), past which this command goes; ask as a superuser, or with the file admin.token of the server's data directory"
	authHeader       = "Authorization"
	authTokensMax    = 2
	credentialsBytes = 4 << 10 // of an Authorization header, which leaves room for any real password
)

// allPermissions are the permissions on the root that a caller of a guarded command needs, each checked separately.
var allPermissions = []jute.Perm{jute.PermRead, jute.PermWrite, jute.PermCreate, jute.PermDelete, jute.PermAdmin}

// permitted reports whether the caller may run a guarded command. If not, it answers the call, checking in Apache's
// order: first for a missing header, then for invalid credentials, then for a missing permission. Unlike Apache it
// requires that the caller is named: by the server's token, as a superuser, or in the ACL of the root. An identity that
// any caller can make up, such as digest with any name and password, proves nothing while that ACL admits everybody.
// Also unlike Apache, a caller with a certificate needs no header; but a browser shows its user's certificate at any
// page's request, so that doesn't hold for a request from another site's page. What a policy hides from the caller, and
// rules that only superusers may remove, call for a superuser.
func (c *call) permitted(cmd *command) bool {
	header := c.req.Header.Get(authHeader)
	if header == "" && c.req.TLS != nil && len(c.req.TLS.PeerCertificates) > 0 && !fromElsewhere(c.req) {
		header = certified
	}
	if header == "" {
		c.fail(http.StatusUnauthorized, errAuthMissing)
		return false
	}
	tokens := strings.Split(header, " ")
	if len(tokens) > authTokensMax || tokens[0] == "" || len(header) > credentialsBytes {
		c.fail(http.StatusUnauthorized, errNotAuthentic)
		return false
	}
	if c.of == nil {
		c.fail(http.StatusOK, errNotServing)
		return false
	}
	if tokens[0] == TokenScheme {
		if len(tokens) == authTokensMax && c.admin.token.is(tokens[1]) {
			return true
		}
		c.admin.log.Warn("a caller of the admin server could not prove who it is", "client", c.req.RemoteAddr,
			"err", "it has no token, or an earlier one", "code", "ZD-4010")
		c.fail(http.StatusUnauthorized, errNotAuthentic)
		return false
	}
	var credential []byte
	if len(tokens) == authTokensMax {
		credential = []byte(tokens[1])
	}
	ids, err := c.of.Authenticate(c.req.RemoteAddr, c.req.TLS, tokens[0], credential)
	if err != nil {
		c.admin.log.Warn("a caller of the admin server could not prove who it is", "client", c.req.RemoteAddr, "err", err,
			"code", "ZD-4010")
		c.fail(http.StatusUnauthorized, errNotAuthentic)
		return false
	}
	c.ids = ids
	of := c.of.Replica()
	for _, rule := range []struct {
		why     string
		permits func(path string, want jute.Perm, ids []jute.ID) bool
	}{{errUnauthorized, of.Permits}, {errOpenRoot, of.PermitsNamed}} {
		for _, perm := range allPermissions {
			if !rule.permits("/", perm, ids) {
				c.admin.log.Warn("a caller of the admin server lacks a permission on /", "client", c.req.RemoteAddr,
					"permission", perm, "code", "ZD-4011")
				c.fail(http.StatusForbidden, rule.why)
				return false
			}
		}
	}
	ruled := (cmd.shows || cmd.replaces) && of.HasPolicy() || cmd.replaces && of.HasLimits()
	if ruled && !slices.ContainsFunc(ids, func(id jute.ID) bool { return id.Scheme == "super" }) {
		c.admin.log.Warn("a caller of the admin server lacks a permission on /", "client", c.req.RemoteAddr,
			"permission", "a superuser's, as the tree has a policy or limits", "code", "ZD-4011")
		c.fail(http.StatusForbidden, errRuled)
		return false
	}
	return true
}
