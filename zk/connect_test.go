package zk

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"math"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

func TestParseConnectString(t *testing.T) {
	t.Parallel()
	for _, c := range []struct{ text, servers, chroot string }{
		{"a", "a:2181", ""},
		{"a:1,b,c:65535", "a:1 b:2181 c:65535", ""},
		{" a:1 , b ", "a:1 b:2181", ""},
		{"a/", "a:2181", ""},
		{"a,b:2/app/x y", "a:2181 b:2", "/app/x y"},
		{"[::1]:5,[fe80::1%eth0]/r", "[::1]:5 [fe80::1%eth0]:2181", "/r"},
		{"a:1,", "a:1", ""}, // what loops in templates write
		{",a,, b:2 , ,/app", "a:2181 b:2", "/app"},
		{"::1:2181", "[::1]:2181", ""},
		{"fe80::1:5,b", "[fe80::1]:5 b:2181", ""},
		{"fe80::1%eth0:5/r", "[fe80::1%eth0]:5", "/r"},
		{"::1", "[::1]:2181", ""},
		{"fe80::ffff", "[fe80::ffff]:2181", ""},
		{"1:2:3:4:5:6:7:8", "[1:2:3:4:5:6:7:8]:2181", ""},
		{"1:2:3:4:5:6:7:8:9", "[1:2:3:4:5:6:7:8]:9", ""},
		{"::ffff:10.0.0.1:7", "[::ffff:10.0.0.1]:7", ""},
		{"10.0.0.1:2181", "10.0.0.1:2181", ""},
	} {
		got, err := ParseConnectString(c.text)
		if err != nil || strings.Join(got.Servers, " ") != c.servers || got.Chroot != c.chroot {
			t.Errorf("%q: %+v, %v", c.text, got, err)
		}
		if again, err := ParseConnectString(got.String()); err != nil || again.String() != got.String() {
			t.Errorf("%q: String gives %q, which gives %+v, %v", c.text, got, again, err)
		}
	}
	for _, c := range []struct {
		text, reason string
		offset       int
	}{
		{"", "names no server", 0},
		{"/app", "names no server", 0},
		{",", "names no server", 0},
		{" , ,/app", "names no server", 0},
		{"a,b:1:2", "several colons", 2},
		{"10.0.0.1:1:2", "several colons", 0},
		{"fe80::1:99999", "port", 0},
		{"::1:", "port", 0},
		{"::1:0", "port", 0},
		{"a:0", "port", 0},
		{"a,b:65536", "port", 2},
		{"a:", "port", 0},
		{"a:x", "port", 0},
		{":2181", "no proper host", 0},
		{"a b", "no proper host", 0},
		{"::%]", "no proper host", 0}, // a zone of an IPv6 address; in brackets it could not be read again
		{"a,x::1", "in brackets", 2},
		{"[::1", "not closed", 0},
		{"[::1]x", "follows the bracket", 0},
		{"[host]:1", "not an IPv6 address", 0},
		{"a/app/", "chroot: it must not end", 5},
		{"a/app//x", "chroot: empty component", 6},
		{"a/x/../y", "chroot: relative component", 4},
		{"dns-srv://name", "not supported", 0},
	} {
		_, err := ParseConnectString(c.text)
		e, ok := errors.AsType[*ConnectStringError](err)
		if !ok || e.Offset != c.offset || !strings.Contains(err.Error(), c.reason) {
			t.Errorf("%q: %v, want %q at byte %d", c.text, err, c.reason, c.offset)
		}
	}
}

// A round returns each server once, and reports when it is complete.
func TestServerListRounds(t *testing.T) {
	t.Parallel()
	l := newServerList([]string{"a", "b", "c"}, mathrand.New(mathrand.NewPCG(1, 2)))
	first := []string{}
	for range 3 {
		s, round := l.next()
		if round {
			t.Errorf("a round is full at %s", s)
		}
		first = append(first, s)
	}
	l.connected() // to first[2]
	for i := range 6 {
		if s, round := l.next(); s != first[i%3] || round != (i%3 == 2) {
			t.Errorf("step %d: %s, %v", i, s, round)
		}
	}
	l.prefer(first[1])
	if s, _ := l.next(); s != first[1] {
		t.Errorf("preferred %s, got %s", first[1], s)
	}
	one := newServerList([]string{"a"}, l.rand)
	one.next()
	if _, round := one.next(); !round {
		t.Error("a list of one server never fills a round")
	}
}

// Clients that were evenly spread still are after each has decided independently, and no more of them move than
// necessary.
func TestRebalancing(t *testing.T) {
	t.Parallel()
	list := func(s string) []string { return strings.Split(s, "") }
	for _, c := range []struct {
		before, after string
		moved         float64 // the share of clients that moves
	}{
		{"abc", "abcd", 1. / 4},
		{"abc", "abcdef", 1. / 2},
		{"abcd", "abc", 1. / 4},
		{"abcde", "abc", 2. / 5},
		{"abc", "abc", 0},
		{"abc", "def", 1},
		{"abc", "abd", 1. / 3},
		{"abcd", "abx", 1. / 2},
		{"a", "b", 1},
	} {
		const clients = 30000
		r := mathrand.New(mathrand.NewPCG(3, uint64(len(c.before)+10*len(c.after))))
		load, moved := map[string]int{}, 0
		for range clients {
			l := newServerList(list(c.before), r)
			mine, _ := l.next()
			l.connected()
			if l.update(list(c.after), mine) {
				moved++
				mine, _ = l.next()
				l.connected()
			}
			load[mine]++
		}
		if got := float64(moved) / clients; math.Abs(got-c.moved) > 0.02 {
			t.Errorf("%s to %s: %.3f of the clients moved, want %.3f", c.before, c.after, got, c.moved)
		}
		for _, s := range list(c.after) {
			want := 1 / float64(len(c.after))
			if got := float64(load[s]) / clients; math.Abs(got-want) > 0.02 {
				t.Errorf("%s to %s: %s has %.3f of the clients, want %.3f", c.before, c.after, s, got, want)
			}
		}
		if len(load) != len(c.after) {
			t.Errorf("%s to %s: clients on %v", c.before, c.after, load)
		}
	}
}

// During a move, a client tries every server before it starts over.
func TestRebalancingTriesAll(t *testing.T) {
	t.Parallel()
	for seed := range uint64(50) {
		l := newServerList([]string{"a", "b", "c", "d"}, mathrand.New(mathrand.NewPCG(seed, 1)))
		l.next()
		l.connected()
		if !l.update([]string{"b", "x", "y"}, "a") {
			t.Fatal("the client's server left and the client stayed")
		}
		var tried []string
		for range 3 {
			s, _ := l.next()
			tried = append(tried, s)
		}
		slices.Sort(tried)
		if strings.Join(tried, "") != "bxy" {
			t.Errorf("seed %d: tried %v", seed, tried)
		}
		if s, _ := l.next(); !slices.Contains(l.servers, s) {
			t.Errorf("seed %d: then %s", seed, s)
		}
	}
}

func TestTLSIsReadAtEachDial(t *testing.T) {
	t.Parallel()
	certificate, pool := selfSigned(t)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{certificate}})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for first := true; ; first = false {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				p := (&peer{t: t, conn: conn}).accept()
				if first {
					p.next() // and cut
					return
				}
				p.serve()
			}()
		}
	}()
	var asked atomic.Int32
	c, err := Open(t.Context(), listener.Addr().String(), Options{GetTLSConfig: func() (*tls.Config, error) {
		if asked.Add(1) == 2 {
			return nil, errors.New("certificate being renewed")
		}
		return &tls.Config{RootCAs: pool}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	get(t, c, "/a")
	if asked.Load() != 3 {
		t.Errorf("TLS was read %d times, want 3", asked.Load())
	}
}

// selfSigned returns a certificate for 127.0.0.1 and a pool that trusts it.
func selfSigned(t *testing.T) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true,
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	leaf, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(leaf)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

// TestWaitError: the error has each server's last failure, as an error.
func TestWaitError(t *testing.T) {
	t.Parallel()
	c, err := New("127.0.0.1:1", Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	err = c.Wait(ctx)
	waited, ok := errors.AsType[*WaitError](err)
	for ok && waited.Failures["127.0.0.1:1"] == nil { // the machine is slow
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		waited, ok = errors.AsType[*WaitError](c.Wait(ctx))
		cancel()
	}
	if !ok || !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(waited.Error(), "refused") {
		t.Errorf("got %v", err)
	}
}
