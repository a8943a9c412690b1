package server

import (
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

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
	switch {
	case err != nil || ip.Is4():
		return host
	case ip.Is4In6():
		return ip.Unmap().String()
	}
	groups := ip.As16()
	var b []byte
	for i := 0; i < 16; i += 2 {
		if i > 0 {
			b = append(b, ':')
		}
		b = strconv.AppendUint(b, uint64(groups[i])<<8|uint64(groups[i+1]), 16)
	}
	return string(b)
}
