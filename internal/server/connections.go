package server

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"net"
	"net/netip"
	"slices"
	"sync"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/socket"
)

// connections holds the clients' connections, from when they are accepted until they have ended.
type connections struct {
	life *lifetime

	mu sync.Mutex
	// perHostMax and most are maxClientCnxns and maxCnxns, 0 for no limit.
	perHostMax, most int
	// descriptorsMax is how many connections the limit of open files allows, 0 for any number.
	descriptorsMax int
	of             map[net.Conn]netip.Addr // client address of each connection
	overTLS        map[net.Conn]bool       // the connections that use TLS
	perHost        map[netip.Addr]int
	newcomers      socket.Newcomers // connections whose connect request hasn't been accepted yet
	lingering      socket.Newcomers // connections that have ended, and wait for their clients to close them
	answers        socket.Newcomers // the same after a four-letter word; not in of, so only descriptorsMax counts them
}

func newConnections(life *lifetime, opt *Options) *connections {
	return &connections{
		life: life, perHostMax: opt.MaxClientConnections, most: opt.MaxConnections,
		descriptorsMax: connectionsByDescriptors(openFilesMax(), len(opt.Members) > 0),
		of:             map[net.Conn]netip.Addr{}, overTLS: map[net.Conn]bool{}, perHost: map[netip.Addr]int{},
	}
}

// enter registers a connection. If there are too many, out makes room: one that lingers, and why is "", or a newcomer,
// and why says why room is short. If none makes room, enter only returns why. For maxClientCnxns, room is only made by
// the connection of the IPv4 address, or IPv6 network (64 bits), that has lingered longest, if it is of the same host.
func (cs *connections) enter(nc net.Conn) (out net.Conn, why string) {
	host := hostOf(nc.RemoteAddr())
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if cs.life.stopping() {
		return nil, "the server is stopping"
	}
	if n := cs.perHostMax; n > 0 && cs.perHost[host] >= n {
		if out = cs.lingering.FirstOf(socket.NetworkOf(nc.RemoteAddr())); out == nil || cs.of[out] != host {
			return nil, fmt.Sprintf("there are %d connections from %s, the most allowed (maxClientCnxns)", n, host)
		}
	} else if n := cs.descriptorsMax; n > 0 && len(cs.of)+cs.answers.Len() >= n {
		if out = cs.answers.First(); out == nil {
			out = cs.lingering.First()
		}
		why = fmt.Sprintf("there are %d connections, as many as the limit of open files leaves room for (ulimit -n)", n)
	} else if n := cs.most; n > 0 && len(cs.of) >= n {
		out = cs.lingering.First()
		why = fmt.Sprintf("there are %d connections, the most allowed (maxCnxns)", n)
	}
	if out != nil {
		why = ""
	} else if why != "" {
		if out = cs.newcomers.First(); out == nil {
			return nil, why
		}
	}
	cs.leave(out)
	cs.of[nc] = host
	cs.perHost[host]++
	cs.newcomers.Add(nc)
	return out, why
}

// known records that a connection's connect request has been accepted.
func (cs *connections) known(nc net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.newcomers.Remove(socket.Below(nc))
}

// lingers records that a connection has ended, and waits for its client to close it.
func (cs *connections) lingers(nc net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if _, ok := cs.of[nc]; ok {
		cs.newcomers.Remove(nc) // if it is one still
		cs.lingering.Add(nc)
	}
}

// answered records that a four-letter word is answered, and the connection waits for its client to close it. From now
// on no answer lists it.
func (cs *connections) answered(nc net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	nc = socket.Below(nc)
	if _, ok := cs.of[nc]; ok { // otherwise it is being closed
		cs.leave(nc)
		cs.answers.Add(nc)
	}
}

// noteTLS records that a connection uses TLS.
func (cs *connections) noteTLS(nc net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	if _, ok := cs.of[nc]; ok {
		cs.overTLS[nc] = true
	}
}

func (cs *connections) forget(nc net.Conn) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.leave(socket.Below(nc))
}

// leave removes a connection, which may be nil, unless it is removed already. mu is held.
func (cs *connections) leave(nc net.Conn) {
	cs.answers.Remove(nc)
	host, ok := cs.of[nc]
	if !ok {
		return
	}
	delete(cs.of, nc)
	delete(cs.overTLS, nc)
	cs.newcomers.Remove(nc)
	cs.lingering.Remove(nc)
	if cs.perHost[host]--; cs.perHost[host] == 0 {
		delete(cs.perHost, host)
	}
}

// setLimits puts limits in force for new connections.
func (cs *connections) setLimits(perHostMax, most int) {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	cs.perHostMax, cs.most = perHostMax, most
}

// limitPerHost returns the limit of connections of one address in force.
func (cs *connections) limitPerHost() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return cs.perHostMax
}

func (cs *connections) count() int {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return len(cs.of)
}

// list returns all connections, in any order.
func (cs *connections) list() []net.Conn {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	return slices.Collect(maps.Keys(cs.of))
}

// SecureConnections returns the addresses of the connections over TLS, in the form that Connections returns them.
func (cs *connections) SecureConnections() map[string]bool {
	cs.mu.Lock()
	defer cs.mu.Unlock()
	list := make(map[string]bool, len(cs.overTLS))
	for nc := range cs.overTLS { // in any order
		list[javaSocket(nc.RemoteAddr().String())] = true
	}
	return list
}

// ShedConnections closes percent of 100 client connections, chosen at random, and returns how many
// it has closed. Their sessions continue wherever the clients connect next.
func (cs *connections) ShedConnections(percent int) int {
	all := cs.list()
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	return closeFirst(all, (len(all)*min(max(percent, 0), 100)+99)/100)
}

// closeAll closes all connections.
func (cs *connections) closeAll() {
	cs.closePart(1)
	cs.mu.Lock()
	defer cs.mu.Unlock()
	for nc := cs.answers.First(); nc != nil; nc = cs.answers.First() {
		cs.answers.Remove(nc)
		nc.Close()
	}
}

// closePart closes one nth of the connections, all of them if n is 1, and returns how many it closed.
func (cs *connections) closePart(n int) int {
	all := cs.list() // any order: the choice doesn't matter
	return closeFirst(all, (len(all)+n-1)/n)
}

func closeFirst(all []net.Conn, n int) int {
	for _, nc := range all[:n] {
		nc.Close()
	}
	return n
}

// descriptorsKept is how much of the limit of open files (ulimit -n) is kept for other uses than
// clients and peers: the log's segments, snapshots, listeners, and a reserve.
const descriptorsKept = 96

// connectionsByDescriptors returns how many client connections fit a limit of open files; 0 means any number. openFiles
// is 0 or less if the limit isn't known. If the limit is small, clients get a quarter of it.
func connectionsByDescriptors(openFiles int64, peers bool) int {
	if openFiles <= 0 {
		return 0
	}
	kept := int64(descriptorsKept)
	if peers {
		kept += peer.DescriptorsMax
	}
	return int(max(openFiles-kept, openFiles/4))
}
