package admin

import (
	"net/http"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// Apache's error texts for callers who aren't permitted.
const (
	errAuthMissing   = "Auth info is missing for the command"
	errUnauthorized  = "Not authorized"
	errNotAuthentic  = "Not authenticated"
	authHeader       = "Authorization"
	authTokensMax    = 2
	credentialsBytes = 4 << 10 // of an Authorization header, which leaves room for any real password
)

// allPermissions are the permissions on the root that a caller of a guarded command needs, each checked separately.
var allPermissions = []jute.Perm{jute.PermRead, jute.PermWrite, jute.PermCreate, jute.PermDelete, jute.PermAdmin}

// permitted reports whether the caller may run a guarded command. If not, it answers the call, checking in Apache's
// order: first for a missing header, then for invalid credentials, then for a missing permission.
func (c *call) permitted() bool {
	header := c.req.Header.Get(authHeader)
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
	for _, perm := range allPermissions {
		if !c.of.Replica().Permits("/", perm, ids) {
			c.admin.log.Warn("a caller of the admin server lacks a permission on /", "client", c.req.RemoteAddr,
				"permission", perm, "code", "ZD-4011")
			c.fail(http.StatusForbidden, errUnauthorized)
			return false
		}
	}
	return true
}
