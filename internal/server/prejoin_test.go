package server

import (
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/keystore"
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

// TestWordsBeforeJoining: a server that waits for its ensemble tells so by four-letter words on each client port, over
// TLS as without, to clients whose certificate the port trusts.
func TestWordsBeforeJoining(t *testing.T) {
	t.Parallel()
	keys := keystore.Options{Keys: store("server.jks"), Trust: store("trust.jks"), ClientAuth: "need"}
	port, err := keystore.NewPort(keys)
	if err != nil {
		t.Fatal(err)
	}
	plain, secure, peer := freeport.Address(t), freeport.Address(t), freeport.Address(t)
	opened, stop := make(chan error), make(chan struct{})
	go func() {
		s, err := Open(Options{
			ID: 1, DataDir: t.TempDir(), Listen: []string{plain}, PeerListen: peer, Stop: stop,
			FourLetterWords: []string{"mntr"},
			Members:         []Member{{ID: 1, Addrs: []string{peer}}, {ID: 2, Addrs: []string{freeport.Address(t)}}},
			Secure:          SecureOptions{Listen: []string{secure}, Unify: true, TLS: port.Config()},
		})
		if s != nil {
			s.Close()
		}
		opened <- err
	}()
	defer func() { close(stop); <-opened }()
	ask := func(conn net.Conn, err error) string {
		if err != nil {
			return err.Error()
		}
		defer conn.Close()
		if _, err := conn.Write([]byte("mntr")); err != nil {
			return err.Error()
		}
		text, _ := io.ReadAll(conn) // what has arrived counts
		return string(text)
	}
	const waits = "zk_zooid_waits_for\tserver 2 isn't running"
	for name, answer := range map[string]func() string{
		"without TLS":           func() string { return ask(net.Dial("tcp", plain)) },
		"TLS":                   func() string { return ask(dialTLS(t, secure, "client.pem")) },
		"TLS on the plain port": func() string { return ask(dialTLS(t, plain, "client.pem")) },
	} {
		eventually(t, name, func() bool { return strings.Contains(answer(), waits) })
	}
	for _, addr := range []string{plain, secure} {
		if text := ask(dialTLS(t, addr, "")); strings.Contains(text, waits) {
			t.Errorf("a client without a certificate is told at %s: %q", addr, text)
		}
	}
}
