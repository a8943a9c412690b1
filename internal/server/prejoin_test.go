package server

import (
	"fmt"
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/quorum"
)

// TestIsOwn: a server that waits tells connections to its own client ports from those to another program's, at the
// same port of another address, too.
func TestIsOwn(t *testing.T) {
	t.Parallel()
	listen := func(addr string) net.Listener {
		t.Helper()
		l, err := net.Listen("tcp", addr)
		if err != nil {
			t.Skip(err) // not all systems have all loopback addresses
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	all, one := listen(":0"), listen("127.0.0.1:0")
	other := listen("127.0.0.2:" + portOf(one.Addr().String()))
	p := &prejoin{listeners: map[string]net.Listener{"all": all, "one": one}}
	for addr, own := range map[string]bool{
		"127.0.0.1:" + portOf(all.Addr().String()): true,
		"127.0.0.2:" + portOf(all.Addr().String()): true,
		one.Addr().String():                        true,
		other.Addr().String():                      false,
		listen("127.0.0.1:0").Addr().String():      false,
	} {
		c, err := net.Dial("tcp", addr)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if p.isOwn(c) != own {
			t.Errorf("a connection to %s, with listeners at %s and %s: own %t, want %t", addr, all.Addr(), one.Addr(), !own, own)
		}
	}
}

// TestOwnPortIsNoServer: two of three servers found an ensemble, though what may be the third one's client port leads
// to their own.
func TestOwnPortIsNoServer(t *testing.T) {
	t.Parallel()
	var members []Member
	for id := range uint64(3) {
		members = append(members, Member{ID: id + 1, Addrs: []string{freeport.Address(t)}})
	}
	stop := make(chan struct{})
	time.AfterFunc(patience, func() { close(stop) })
	opts := make([]Options, 2)
	for i := range opts {
		own := []string{freeport.Address(t)}
		opts[i] = Options{
			ID: members[i].ID, DataDir: t.TempDir(), Listen: own, Members: members, PeerListen: members[i].Addrs[0], Stop: stop,
			Clients: map[uint64][]string{3: own}, patience: quorum.Patience{Listens: 500, Name: 500},
		}
	}
	for i, s := range openAll(t, opts) {
		eventually(t, fmt.Sprintf("server %d serves", i+1), func() bool { return s.Status().Serving })
	}
}
