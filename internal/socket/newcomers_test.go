package socket

import (
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"testing"
)

// from is a connection of which only the remote address is asked.
type from struct {
	net.Conn
	addr string
}

func (f *from) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(f.addr)) }

// TestNewcomers compares Newcomers with a list that is searched.
func TestNewcomers(t *testing.T) {
	t.Parallel()
	dice := rand.New(rand.NewPCG(1, 2))
	var n Newcomers
	var all []*from // the oldest first
	since := map[netip.Prefix]int{}
	for step := range 20_000 {
		grow := dice.IntN(100) < 50+20*(1-step/5_000%2*2)
		switch {
		case grow && len(all) < 300:
			c := &from{addr: fmt.Sprintf("10.0.0.%d:1", 1+dice.IntN(1+dice.IntN(200)))}
			n.Add(c)
			all = append(all, c)
			since[NetworkOf(c.RemoteAddr())] = step
		case len(all) > 0:
			i := dice.IntN(len(all))
			c := all[i]
			if !n.Remove(c) || n.Remove(c) {
				t.Fatal("a newcomer isn't removed, or twice")
			}
			all = slices.Delete(all, i, i+1)
			since[NetworkOf(c.RemoteAddr())] = step
		}
		count := map[netip.Prefix]int{}
		for _, c := range all {
			count[NetworkOf(c.RemoteAddr())]++
		}
		var want *from
		for _, c := range all {
			if want == nil {
				want = c
				continue
			}
			a, b := NetworkOf(c.RemoteAddr()), NetworkOf(want.RemoteAddr())
			if count[a] > count[b] || count[a] == count[b] && since[a] < since[b] {
				want = c
			}
		}
		got := n.First()
		if want == nil && got != nil || want != nil && got != net.Conn(want) {
			t.Fatalf("step %d: %v is first, want %v", step, got, want)
		}
	}
}

// TestNetworkOf: all addresses of an IPv6 network count as one, since one host may have them all.
func TestNetworkOf(t *testing.T) {
	t.Parallel()
	for a, want := range map[string]string{
		"10.0.0.1:2": "10.0.0.1/32", "[::ffff:10.0.0.1]:3": "10.0.0.1/32", "[2001:db8::1]:4": "2001:db8::/64",
		"[2001:db8::2:3:4:5]:6": "2001:db8::/64", "[fe80::1%lo]:7": "fe80::/64",
	} {
		if got := NetworkOf((&from{addr: a}).RemoteAddr()).String(); got != want {
			t.Errorf("%s is of %s, want %s", a, got, want)
		}
	}
	if got := NetworkOf(&net.UnixAddr{Name: "x"}); got != (netip.Prefix{}) {
		t.Errorf("a socket without an IP address is of %v", got)
	}
}

// TestFirstOfFew: with room for few connections, the oldest of the network with the most goes first too, but a random
// one if each network has one, and never the newest.
func TestFirstOfFew(t *testing.T) {
	t.Parallel()
	var n Newcomers
	if c := n.FirstOfFew(nil); c != nil {
		t.Errorf("of none %v goes", c)
	}
	newest := &from{addr: "10.0.0.1:1"}
	n.Add(newest)
	if c := n.FirstOfFew(newest); c != nil {
		t.Errorf("of the newest alone %v goes", c)
	}
	n.Remove(newest)
	const others = 4
	for i := range others {
		n.Add(&from{addr: fmt.Sprintf("10.0.1.%d:1", i)})
	}
	n.Add(newest)
	gone := map[net.Conn]bool{}
	for range 1000 { // one of four is missing in 1 of 10^124 runs
		gone[n.FirstOfFew(newest)] = true
	}
	if len(gone) != others || gone[newest] || gone[nil] {
		t.Errorf("of %d networks with a connection each and the newest these may go: %v", others, gone)
	}
	second := &from{addr: "10.0.0.1:2"}
	n.Add(second)
	network := NetworkOf(second.RemoteAddr())
	if c := n.FirstOfFew(second); c != net.Conn(newest) || n.FirstOf(network) != c || n.LenOf(network) != 2 {
		t.Errorf("%v goes, and not the older of the network with two", c)
	}
	if n.Len() != others+2 || n.FirstOf(netip.Prefix{}) != nil || n.LenOf(netip.Prefix{}) != 0 {
		t.Errorf("%d connections", n.Len())
	}
}
