package socket

import (
	"container/list"
	"math/rand/v2"
	"net"
	"net/netip"
)

// Newcomers are the open connections of a port that haven't proved anything yet, and that may be closed to make room
// for others. The first to be closed is the oldest one of the network with the most. So neither one network with many
// connections nor many silent connections can keep others out for longer than these need to prove something.
//
// All operations but FirstOfFew take constant time. Newcomers isn't safe for concurrent use. The zero value is empty.
type Newcomers struct {
	of       map[net.Conn]*list.Element // values are net.Conn, in the list of the connection's network
	networks map[netip.Prefix]*network
	// sizes[n] has the networks (*network) with n newcomers. The first is the one that has had n for the longest time.
	sizes []*list.List
}

// A network has the newcomers of one NetworkOf. It has at least one.
type network struct {
	conns list.List // net.Conn, the oldest first
	at    *list.Element
}

// Add adds a connection as the newest.
func (n *Newcomers) Add(c net.Conn) {
	if n.of == nil {
		n.of, n.networks = map[net.Conn]*list.Element{}, map[netip.Prefix]*network{}
	}
	from := NetworkOf(c.RemoteAddr())
	w := n.networks[from]
	if w == nil {
		w = &network{}
		n.networks[from] = w
	}
	n.of[c] = w.conns.PushBack(c)
	n.resize(w, w.conns.Len()-1)
}

// Remove removes a connection that has proved something or is closed. It reports whether it was a newcomer.
func (n *Newcomers) Remove(c net.Conn) bool {
	e := n.of[c]
	if e == nil {
		return false
	}
	delete(n.of, c)
	from := NetworkOf(c.RemoteAddr())
	w := n.networks[from]
	w.conns.Remove(e)
	n.resize(w, w.conns.Len()+1)
	if w.conns.Len() == 0 {
		delete(n.networks, from)
	}
	return true
}

// First returns the connection to close first, or nil if there is none.
func (n *Newcomers) First() net.Conn {
	if len(n.of) == 0 {
		return nil
	}
	w := n.sizes[len(n.sizes)-1].Front().Value.(*network)
	return w.conns.Front().Value.(net.Conn)
}

// FirstOf returns the oldest connection of a network, or nil if it has none.
func (n *Newcomers) FirstOf(from netip.Prefix) net.Conn {
	w := n.networks[from]
	if w == nil {
		return nil
	}
	return w.conns.Front().Value.(net.Conn)
}

// FirstOfFew is First for a port with room for few connections, on which a newcomer may need long to prove something.
// It never returns newest. If no network has more than one connection, it returns a random one: otherwise a server on a
// slow network would always be the oldest while strangers connect from many networks. It takes time proportional to the
// number of connections.
func (n *Newcomers) FirstOfFew(newest net.Conn) net.Conn {
	if len(n.of) == 0 || len(n.sizes) > 2 {
		return n.First() // from a network with several, whose oldest isn't newest
	}
	var others []net.Conn
	for e := n.sizes[1].Front(); e != nil; e = e.Next() {
		if c := e.Value.(*network).conns.Front().Value.(net.Conn); c != newest {
			others = append(others, c)
		}
	}
	if len(others) == 0 {
		return nil
	}
	return others[rand.IntN(len(others))]
}

// Len returns the number of connections.
func (n *Newcomers) Len() int { return len(n.of) }

// LenOf returns the number of a network's connections.
func (n *Newcomers) LenOf(from netip.Prefix) int {
	if w := n.networks[from]; w != nil {
		return w.conns.Len()
	}
	return 0
}

// resize records that a network had was newcomers, and now has one more or one fewer.
func (n *Newcomers) resize(w *network, was int) {
	if was > 0 {
		n.sizes[was].Remove(w.at)
	}
	if is := w.conns.Len(); is > 0 {
		for len(n.sizes) <= is {
			n.sizes = append(n.sizes, list.New())
		}
		w.at = n.sizes[is].PushBack(w)
	}
	for len(n.sizes) > 0 && n.sizes[len(n.sizes)-1].Len() == 0 {
		n.sizes = n.sizes[:len(n.sizes)-1]
	}
}

// NetworkOf returns the network of an address: a whole IPv4 address, or the first 64 bits of an IPv6 address, since a
// host may use all addresses with the same 64 bits. All addresses that aren't IP addresses form one network.
func NetworkOf(remote net.Addr) netip.Prefix {
	var addr netip.Addr
	if tcp, ok := remote.(*net.TCPAddr); ok {
		addr = tcp.AddrPort().Addr()
	} else if parsed, err := netip.ParseAddrPort(remote.String()); err == nil {
		addr = parsed.Addr()
	} else {
		return netip.Prefix{}
	}
	addr = addr.Unmap()
	bits := 32
	if addr.Is6() {
		bits = 64
	}
	of, _ := addr.Prefix(bits) // can't fail: an address has at least so many bits
	return of
}
