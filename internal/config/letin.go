package config

import (
	"fmt"
	"net"
	"strconv"
)

// LetIn says how the server of c, which belongs to no ensemble yet, gets into one that serves without it: who belongs
// to an ensemble is what its members are told, never what a stranger's file says. It is "" if no server line is c's.
func (c *Config) LetIn() string {
	own, ok := c.Quorum.Members.Find(c.Quorum.MyID)
	if !ok || len(own.Addrs) == 0 {
		return ""
	}
	at := net.JoinHostPort(own.Addrs[0].Host, strconv.Itoa(own.Addrs[0].QuorumPort))
	if own.Client.IsZero() && c.Client.Port > 0 {
		own.Client = HostPort{Host: "0.0.0.0", Port: c.Client.Port}
	}
	if own.Secure.IsZero() && c.Secure.Port > 0 {
		own.Secure = HostPort{Host: "0.0.0.0", Port: c.Secure.Port}
	}
	return fmt.Sprintf("if the others serve without it, run 'zooid allow-join %d zoo.cfg %s' on one of them: it then follows without a vote and serves clients; 'zooid cli reconfig -add \"server.%d=%s\"' gives it a vote, by servers with reconfigEnabled=true",
		own.ID, at, own.ID, own)
}
