package matrix

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// configNode is the znode whose ACL decides which clients may change an ensemble's membership.
const configNode = "/zookeeper/config"

// reconfigCells returns permission x scheme x client: the superuser sets the ACL of configNode, and the client asks
// for a change that can only be refused, or one that changes nothing. The cells are played one after another.
func reconfigCells(members string) []reconfigCell {
	none := "99"
	var cells []reconfigCell
	for _, g := range grants() {
		if g.ids[0].Scheme == "x509" {
			continue // the scheme needs TLS
		}
		for _, p := range []jute.Perm{0, jute.PermRead, jute.PermWrite, jute.PermAll &^ jute.PermWrite} {
			for who, identity := range identities() {
				if identity.tls {
					continue // the ensemble has no TLS
				}
				for _, q := range []struct {
					name    string
					request jute.ReconfigRequest
				}{
					{"reconfig that removes nobody", jute.ReconfigRequest{Leaving: &none, CurConfigID: -1}},
					{"reconfig of another version", jute.ReconfigRequest{NewMembers: &members, CurConfigID: 12345}},
				} {
					cells = append(cells, reconfigCell{
						fmt.Sprintf("%s with %s for %s, by %s", q.name, permsName(p), g.name, identity.name), who, g.acl(p), q.request,
					})
				}
			}
		}
	}
	return cells
}

type reconfigCell struct {
	name    string
	who     int
	acl     []jute.ACL
	request jute.ReconfigRequest
}

// play returns the code of the answer.
func (c *reconfigCell) play(clients []*client) (string, error) {
	set := one(jute.OpSetACL, (&jute.SetACLRequest{Path: configNode, ACL: c.acl, Version: -1}).Append)
	if got, err := clients[0].ask(set, func(jute.WatcherEvent) {}); err != nil || !strings.HasPrefix(got[0], "ok") {
		return "", fmt.Errorf("set the ACL of %s: %q, %w", configNode, got, err)
	}
	got, err := clients[c.who].ask(one(jute.OpReconfig, c.request.Append), func(jute.WatcherEvent) {})
	if err != nil {
		return "", err
	}
	if strings.HasPrefix(got[0], "ok") {
		return "ok", nil // the body has the membership, whose version is a zxid
	}
	return got[0], nil
}
