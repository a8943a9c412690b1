package server

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// idSource draws ids of sessions and connections that are unique in the cluster,
// over restarts too. As in Apache the high byte is the server's id, the 40 bits
// below it count milliseconds, the low 16 bits count ids; more than 65,536 ids in
// a millisecond borrow from the next ones, which start-up has long left behind.
// Wall-clock time is used where Apache takes a monotonic clock, because that one
// begins anew with each boot.
type idSource struct{ next atomic.Int64 }

func newIDSource(server uint64, now time.Time) *idSource {
	return idsFrom(server, now.UnixMilli())
}

// idsFrom is newIDSource for a time in ms since 1970.
func idsFrom(server uint64, ms int64) *idSource {
	s := &idSource{}
	s.next.Store(int64(uint64(ms)<<24>>8 | server<<56))
	return s
}

// idByteReserved is the first byte of no session's id: in the owner of a znode, as
// clients see it, it marks a time to live.
const idByteReserved = 0xff

// checkIDs refuses servers whose sessions could be taken for something else. Ids
// of sessions and connections begin with the last byte of their server's id, so
// these bytes must differ, and not be the reserved one. Consensus has no server 0.
func checkIDs(members []Member) error {
	seen := map[byte]uint64{}
	for _, m := range members {
		low := byte(m.ID)
		other, taken := seen[low]
		switch {
		case m.ID == 0:
			return errors.New("server id 0 can't be used: ids begin with 1; change the server lines and that server's myid")
		case low == idByteReserved:
			return fmt.Errorf("server id %d can't be used: ids of its sessions would look like times to live; take an id from 1 to 254", m.ID)
		case taken:
			return fmt.Errorf("servers %d and %d can't be in one ensemble: ids of their sessions would begin alike; take ids from 1 to 254", other, m.ID)
		}
		seen[low] = m.ID
	}
	return nil
}

// take returns an id: never 0 nor the one value that marks containers.
func (s *idSource) take() int64 {
	for {
		if id := s.next.Add(1) - 1; id != 0 && id != -1<<63 {
			return id
		}
	}
}

// hostOf returns a TCP address without its port.
func hostOf(a net.Addr) netip.Addr {
	if tcp, ok := a.(*net.TCPAddr); ok {
		return tcp.AddrPort().Addr().Unmap()
	}
	return netip.Addr{}
}

// addressID returns the identity that a connection has by its address alone, in
// the form in which Java prints addresses.
func addressID(addr string) jute.ID {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	return jute.ID{Scheme: "ip", ID: javaAddress(host)}
}

// javaAddress writes an IPv6 address with all its eight groups, as Java does.
func javaAddress(host string) string {
	host, _, _ = strings.Cut(host, "%")
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return host
	}
	return auth.AddressID(ip.AsSlice(), "").ID
}
