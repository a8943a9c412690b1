package server

import (
	"net"
	"net/netip"
	"strings"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/jute"
)

// idByteReserved can't be the first byte of a session's id: in a znode's owner, as clients see it,
// it marks a time to live.
const idByteReserved = 0xff

// checkIDs refuses server ids that would make session ids ambiguous. Ids of sessions and connections begin with the
// last byte of their server's id, so these bytes must differ, and must not be the reserved one.
func checkIDs(members []Member) error {
	seen := map[byte]uint64{}
	for _, m := range members {
		low := byte(m.ID)
		other, taken := seen[low]
		switch {
		case low == idByteReserved:
			return runbook.Errorf("ZD-1101", "server id %d can't be used: ids of its sessions would look like times to live; use an id from 0 to 254",
				serverid.MyID(m.ID))
		case taken:
			return runbook.Errorf("ZD-1101", "servers %d and %d can't be in one ensemble: ids of their sessions would begin with the same byte; use ids from 0 to 254",
				serverid.MyID(other), serverid.MyID(m.ID))
		}
		seen[low] = m.ID
	}
	return nil
}

// hostOf returns the IP address in a TCP address.
func hostOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// addressID returns the identity that a connection has by its address alone, in the form of Java's addresses.
func addressID(addr string) jute.ID {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return jute.ID{Scheme: "ip", ID: javaAddress(host)}
}

// javaAddress formats an IPv6 address with all of its eight groups, as Java does.
func javaAddress(host string) string {
	host, _, _ = strings.Cut(host, "%")
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return auth.AddressID(ip.AsSlice(), "").ID
}
