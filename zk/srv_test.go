package zk

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// A zone is a Resolver whose records a test changes.
type zone struct {
	mu      sync.Mutex
	records []*net.SRV
	err     error
	hang    bool
	asked   int
}

func (z *zone) LookupHost(context.Context, string) ([]string, error) {
	return []string{"10.0.0.1"}, nil
}

func (z *zone) LookupSRV(ctx context.Context, service, proto, name string) (string, []*net.SRV, error) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.asked++
	if service != "" || proto != "" || name != srvName {
		panic(fmt.Sprintf("asked for %q %q %q", service, proto, name))
	}
	if z.hang {
		z.mu.Unlock()
		<-ctx.Done()
		z.mu.Lock()
		return "", nil, ctx.Err()
	}
	return name, z.records, z.err
}

func (z *zone) set(err error, records ...*net.SRV) {
	z.mu.Lock()
	defer z.mu.Unlock()
	z.records, z.err = records, err
}

const srvName = "_zookeeper._tcp.example.com"

func record(priority uint16, host string) *net.SRV {
	return &net.SRV{Target: host + ".example.com.", Port: 2181, Priority: priority}
}

// lost serves until the test sends to lose, and then closes the connection.
func lost(lose chan struct{}) func(*peer) {
	return func(p *peer) {
		go accepting(p)
		<-lose
	}
}

// bySRV runs test in a bubble with a client whose servers z names. scripts may use lose, which ends those made by lost.
func bySRV(t *testing.T, z *zone, scripts func(lose chan struct{}) []func(*peer),
	test func(t *testing.T, c *Client, n *network, lose chan struct{})) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		lose := make(chan struct{}) // of the bubble, so that its clock goes on while somebody waits for it
		n := &network{t: t, scripts: scripts(lose), over: make(chan struct{})}
		defer close(n.over)
		c, err := New("", Options{SRV: srvName, Resolver: z, Dial: n.dial, SessionTimeout: peerTimeout})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		test(t, c, n, lose)
	})
}

// dialled returns the hosts dialled since the last call.
func (n *network) dialled() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	var hosts []string
	for _, d := range n.dials {
		host, _, _ := strings.Cut(d, ".")
		hosts = append(hosts, host)
	}
	n.dials = nil
	return strings.Join(hosts, " ")
}

func alwaysAccepting(chan struct{}) []func(*peer) { return []func(*peer){accepting} }

// Names that don't exist yet are looked up again, and the error of Wait has them.
func TestSRVIsAwaited(t *testing.T) {
	t.Parallel()
	z := &zone{err: errors.New("no such host")}
	bySRV(t, z, alwaysAccepting, func(t *testing.T, c *Client, n *network, _ chan struct{}) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		err := c.Wait(ctx)
		failed, ok := errors.AsType[*WaitError](err)
		if !ok || !strings.Contains(err.Error(), srvName) || !strings.Contains(err.Error(), "no such host") ||
			failed.Failures[srvName] == nil {
			t.Errorf("error %v", err)
		}
		z.mu.Lock()
		if z.asked < 5 || z.asked > 20 {
			t.Errorf("asked %d times in 10 s", z.asked)
		}
		z.mu.Unlock()
		z.set(nil, record(1, "a"))
		get(t, c, "/x")
		if got := n.dialled(); got != "a" {
			t.Errorf("dialled %s", got)
		}
	})
}

// A client that is closed before it has found servers ends.
func TestSRVClosedBeforeTheFirstAnswer(t *testing.T) {
	t.Parallel()
	bySRV(t, &zone{hang: true}, alwaysAccepting, func(t *testing.T, c *Client, n *network, _ chan struct{}) {
		synctest.Wait()
		c.Close()
		if c.State().State != StateClosed {
			t.Error(c.State())
		}
	})
}

// Servers are tried by priority. After a loss the client starts again from the front, with the lost server last.
func TestSRVPriorities(t *testing.T) {
	t.Parallel()
	z := &zone{records: []*net.SRV{record(1, "a"), record(2, "b"), record(3, "c")}}
	bySRV(t, z, func(lose chan struct{}) []func(*peer) {
		return []func(*peer){nil, lost(lose), nil, lost(lose), accepting}
	}, func(t *testing.T, c *Client, n *network, lose chan struct{}) {
		get(t, c, "/x")
		if got := n.dialled(); got != "a b" {
			t.Errorf("dialled %s, want a b", got)
		}
		lose <- struct{}{}
		time.Sleep(time.Second)
		get(t, c, "/x")
		if got := n.dialled(); got != "a c" {
			t.Errorf("dialled %s after b was lost, want a c", got)
		}
		lose <- struct{}{}
		time.Sleep(time.Second)
		get(t, c, "/x")
		if got := n.dialled(); got != "a" {
			t.Errorf("dialled %s after c was lost, want a", got)
		}
	})
}

// A changed record is followed at the next loss, and after rounds without success.
func TestSRVChangesAreFollowed(t *testing.T) {
	t.Parallel()
	z := &zone{records: []*net.SRV{record(1, "a")}}
	bySRV(t, z, func(lose chan struct{}) []func(*peer) {
		return []func(*peer){lost(lose), func(p *peer) {
			if strings.HasPrefix(p.server, "d.") {
				accepting(p)
			}
		}}
	}, func(t *testing.T, c *Client, n *network, lose chan struct{}) {
		get(t, c, "/x")
		z.set(nil, record(1, "b"), record(1, "c"))
		lose <- struct{}{}
		time.Sleep(3 * time.Second) // b and c close each connection
		z.set(nil, record(1, "d"))
		time.Sleep(3 * time.Second)
		get(t, c, "/x")
		got := n.dialled()
		for _, host := range []string{"a", "b", "c", "d"} {
			if !strings.Contains(got, host) {
				t.Errorf("dialled %s, without %s", got, host)
			}
		}
		if !strings.HasSuffix(got, " d") || strings.Contains(got, "c a") || strings.Contains(got, "b a") {
			t.Errorf("dialled %s, want d last, and no a after the change", got)
		}
	})
}

// DNS is also asked at a loss: a client doesn't stay with a server that the records no longer have, even if that server
// works.
func TestSRVIsAskedAtALoss(t *testing.T) {
	t.Parallel()
	z := &zone{records: []*net.SRV{record(1, "a"), record(2, "b")}}
	bySRV(t, z, func(lose chan struct{}) []func(*peer) {
		return []func(*peer){lost(lose), accepting}
	}, func(t *testing.T, c *Client, n *network, lose chan struct{}) {
		get(t, c, "/x")
		z.set(nil, record(1, "c"))
		lose <- struct{}{}
		time.Sleep(5 * time.Second)
		get(t, c, "/x")
		if server := c.State().Server; server != "c.example.com:2181" {
			t.Errorf("connected to %s", server)
		}
	})
}

// If DNS fails or hangs, the client keeps the known servers and reconnects to them without delay.
func TestSRVWithoutDNS(t *testing.T) {
	t.Parallel()
	for _, broken := range []*zone{{err: errors.New("server misbehaving")}, {hang: true}} {
		z := &zone{records: []*net.SRV{record(1, "a"), record(2, "b")}}
		bySRV(t, z, func(lose chan struct{}) []func(*peer) {
			return []func(*peer){lost(lose), accepting}
		}, func(t *testing.T, c *Client, n *network, lose chan struct{}) {
			get(t, c, "/x")
			z.mu.Lock()
			z.err, z.hang, z.records = broken.err, broken.hang, nil
			z.mu.Unlock()
			lose <- struct{}{}
			began := time.Now()
			synctest.Wait()
			get(t, c, "/x")
			if took := time.Since(began); took > moveSpread {
				t.Errorf("it took %v to find the other server", took)
			}
			if got := n.dialled(); got != "a b" {
				t.Errorf("dialled %s", got)
			}
		})
	}
}

// TestSRVAnswers: DNS answers are bounded, and records without a valid server are dropped with a reason.
func TestSRVAnswers(t *testing.T) {
	t.Parallel()
	many := make([]*net.SRV, 1000)
	for i := range many {
		many[i] = record(1, fmt.Sprint("h", i/2)) // each twice
	}
	for _, test := range []struct {
		records []*net.SRV
		err     error
		want    []string
		reason  string
	}{
		{many, nil, nil, ""},
		{[]*net.SRV{record(1, "a"), record(1, "a"), {Target: "b.example.com.", Port: 0}, {Target: "fe80::1", Port: 5}}, nil,
			[]string{"a.example.com:2181", "[fe80::1]:5"}, ""},
		{[]*net.SRV{record(1, "a")}, errors.New("some were dropped"), []string{"a.example.com:2181"}, ""},
		{[]*net.SRV{{Target: ".", Port: 2181}}, nil, nil, "no such service"},
		{[]*net.SRV{{Target: "a b", Port: 2181}}, nil, nil, "no proper host name"},
		{[]*net.SRV{{Target: "b.example.com.", Port: 0}}, nil, nil, "port 0"},
		{nil, nil, nil, "none of 0"},
		{nil, errors.New("no such host"), nil, "no such host"},
	} {
		s := &session{ctx: t.Context(), opt: Options{SRV: srvName, Resolver: &zone{records: test.records, err: test.err}}}
		servers, key, err := s.srvServers()
		switch {
		case test.reason != "":
			if err == nil || !strings.Contains(err.Error(), test.reason) || !strings.Contains(err.Error(), srvName) {
				t.Errorf("error %v, want %q and the name", err, test.reason)
			}
		case err != nil:
			t.Error(err)
		case test.want == nil && (len(servers) != srvServersMax || servers[0] != "h0.example.com:2181" ||
			servers[63] != "h63.example.com:2181"):
			t.Errorf("%d servers: %v", len(servers), servers)
		case test.want != nil && (!slices.Equal(servers, test.want) || strings.Count(key, ",") != len(servers)-1):
			t.Errorf("servers %q, key %q, want %q", servers, key, test.want)
		}
	}
	// Another order within one priority isn't a change; another priority is.
	keyOf := func(records ...*net.SRV) string {
		s := &session{ctx: t.Context(), opt: Options{SRV: srvName, Resolver: &zone{records: records}}}
		_, key, _ := s.srvServers()
		return key
	}
	if a, b := record(1, "a"), record(1, "b"); keyOf(a, b) != keyOf(b, a) || keyOf(a, b) == keyOf(a, record(2, "b")) {
		t.Error("changes are not told from new draws")
	}
}

// TestSRVHostsOfAnotherDomain: TLS is refused for a host that only DNS names, since its certificate would prove
// nothing.
func TestSRVHostsOfAnotherDomain(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		srv, host string
		ok        bool
	}{
		{srvName, "zk1.example.com", true},
		{srvName, "ZK1.dc.Example.com", true},
		{srvName + ".", "example.com", true},
		{srvName, "evil.com", false},
		{srvName, "evilexample.com", false},
		{srvName, "example.com.evil.com", false},
		{"_client._tcp.zk.default.svc.cluster.local", "zk-0.zk.default.svc.cluster.local", true},
		{"_zookeeper._tcp", "zk1.example.com", false},
		{"", "anything", true},
	} {
		if err := checkSRVHost(test.srv, test.host); (err == nil) != test.ok {
			t.Errorf("%s by %s: %v", test.host, test.srv, err)
		}
	}
	sent := func(config *tls.Config) (n int, err error) {
		ours, theirs := net.Pipe()
		done := make(chan int, 1)
		go func() {
			defer theirs.Close() // the handshake fails after its first bytes
			n, _ := theirs.Read(make([]byte, 100))
			done <- n
		}()
		opt := Options{SRV: srvName, TLSConfig: config, Dial: func(context.Context, string, string) (net.Conn, error) {
			return ours, nil
		}}
		_, err = dial(t.Context(), &opt, "evil.com:2281", "evil.com:2281")
		return <-done, err
	}
	if n, err := sent(&tls.Config{}); err == nil || !strings.Contains(err.Error(), srvName) || n != 0 {
		t.Errorf("%d bytes sent, error %v", n, err)
	}
	if n, _ := sent(&tls.Config{ServerName: "zk.example.com"}); n == 0 {
		t.Error("a server whose certificate's name is configured was not asked")
	}
}

// TestSRVOptions: invalid options are refused.
func TestSRVOptions(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ connect, srv, want string }{
		{"zk1:2181", srvName, "it names servers, and Options.SRV does too"},
		{"/app/", srvName, "chroot"},
		{"", "a b", "isn't a name of SRV records"},
		{"", "a..b", "isn't a name of SRV records"},
		{"", "x:2181", "isn't a name of SRV records"},
		{"", strings.Repeat("abc.", 70) + "d", "longer than DNS permits"},
		{"", strings.Repeat("a", 64), "isn't a name of SRV records"},
		{"", "", "names no server"},
	} {
		c, err := New(test.connect, Options{SRV: test.srv, Resolver: &zone{}})
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q by %q: error %v, want %q", test.connect, test.srv, err, test.want)
		}
		if c != nil {
			c.Close()
		}
	}
	c, err := New("/app", Options{SRV: srvName, Resolver: &zone{}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if err := c.UpdateServers("zk1"); err == nil || !strings.Contains(err.Error(), srvName) {
		t.Errorf("UpdateServers: %v", err)
	}
}
