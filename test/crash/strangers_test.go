package crash

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	wire "encoding/binary"
	"encoding/hex"
	"encoding/pem"
	"fmt"
	"io"
	"math/big"
	mathrand "math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// The kinds of connection of a peer, and the frames, that strangers try (internal/quorum/peer/wire.go).
const (
	strangeMessages, strangeSnapshot, strangeJoin, strangePing = 1, 2, 3, 4
	strangeLife, strangeMeet, strangeGuest, strangeClaim       = 5, 6, 7, 8
	strangeForward, strangeMembers                             = 2, 4
)

// strangePatience is how long a stranger waits for an answer. One that stays out for longer is no answer.
const strangePatience = 2 * time.Second

// A stranger reaches the peer ports, and has nothing by which the servers of an ensemble know each other.
type stranger struct {
	what string
	tls  *tls.Config // nil for plain text
	from string      // its address
}

// issueFor makes a certificate that names hosts, as zooid init -tls makes them: one without hosts is a client's.
func (i *issuer) issueFor(t *testing.T, hosts ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), NotAfter: time.Now().Add(24 * time.Hour),
		Subject: pkix.Name{CommonName: strings.Join(hosts, " ")}, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
	}
	for _, host := range hosts {
		template.IPAddresses = append(template.IPAddresses, net.ParseIP(host))
	}
	if len(hosts) > 0 {
		template.ExtKeyUsage = append(template.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, i.cert, &key.PublicKey, i.key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// keyStore writes a certificate with its key to a file.
func keyStore(t *testing.T, file string, cert tls.Certificate) {
	t.Helper()
	private, err := x509.MarshalPKCS8PrivateKey(cert.PrivateKey)
	if err == nil {
		err = os.WriteFile(file, slices.Concat(
			pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}),
			pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// showing is how somebody dials who has a certificate.
func showing(cert tls.Certificate) *tls.Config {
	return &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}}
}

// dial connects to a peer port.
func (s *stranger) dial(addr string) (net.Conn, error) {
	d := &net.Dialer{Timeout: strangePatience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(s.from)}}
	c, err := d.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	c.SetDeadline(time.Now().Add(strangePatience))
	if s.tls == nil {
		return c, nil
	}
	over := tls.Client(c, s.tls)
	return over, over.Handshake()
}

// say says hello as an older version does, which proves nothing, and reads the answer.
func (s *stranger) say(addr string, kind byte, cluster uint64, from, to int) (c net.Conn, answer []byte,
	accepted bool) {
	c, err := s.dial(addr)
	if err != nil {
		return nil, nil, false
	}
	b := append([]byte("ZOOIDPEER"), 1, kind)
	for _, v := range []uint64{cluster, uint64(from), uint64(to)} {
		b = wire.BigEndian.AppendUint64(b, v)
	}
	var n [4]byte
	if _, err = c.Write(b); err == nil {
		_, err = io.ReadFull(c, n[:])
	}
	if err != nil {
		c.Close()
		return nil, nil, false
	}
	answer = make([]byte, min(wire.BigEndian.Uint32(n[:]), 1<<10))
	io.ReadFull(c, answer)
	return c, answer, len(answer) == 0
}

// rest reads what else comes.
func rest(c net.Conn) []byte {
	b, _ := io.ReadAll(io.LimitReader(c, 1<<10))
	return b
}

// TestStrangers has two of three servers up, and the third not yet, so that an ensemble without a configured secret
// hasn't agreed on one. A stranger speaks as the third, as the others and as a guest, as servers of older versions do,
// which prove nothing. He isn't told which cluster this is, nor accepted; no znode changes and no disk fills.
func TestStrangers(t *testing.T) {
	hurtful(t)
	hosts := []string{"127.0.0.1", "127.0.0.2", "127.0.0.3"}
	for _, kind := range []string{"tls", "tls and secret", "secret", "neither"} {
		t.Run(kind, func(t *testing.T) {
			settings := map[string]string{"4lw.commands.whitelist": "*", "DigestAuthenticationProvider.superDigest": superDigest}
			if kind == "tls" || kind == "neither" {
				settings["quorum.secret"] = ""
			}
			encrypted := strings.HasPrefix(kind, "tls")
			if encrypted {
				settings["sslQuorum"] = "true"
				settings["ssl.quorum.keyStore.location"], settings["ssl.quorum.trustStore.location"] = "own.pem", "trust.pem"
			}
			e := layOutOnly(t, Options{Servers: 3, Hosts: hosts, Config: settings})
			ca := newIssuer(t)
			for i, s := range e.Servers {
				s.withoutEmpty(t)
				s.edit(t, func(string) bool { return true })
				if !encrypted {
					continue
				}
				keyStore(t, filepath.Join(s.Folder, "own.pem"), ca.issueFor(t, hosts[i]))
				trust := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: ca.cert.Raw})
				if err := os.WriteFile(filepath.Join(s.Folder, "trust.pem"), trust, 0o600); err != nil {
					t.Fatal(err)
				}
				s.change(t, map[string]string{
					"ssl.quorum.keyStore.location":   filepath.Join(s.Folder, "own.pem"),
					"ssl.quorum.trustStore.location": filepath.Join(s.Folder, "trust.pem"),
				})
			}
			startThem(t, e.Servers[:2]...)
			for _, s := range e.Servers[:2] {
				if _, err := s.Ready(); err != nil {
					t.Fatal(err)
				}
			}
			victim := protect(t, e.Servers[0].Addr)
			strangers := []stranger{{what: "plain", from: "127.0.0.9"}}
			if encrypted {
				strangers = []stranger{
					{"a client's certificate", showing(ca.issueFor(t)), "127.0.0.9"},
					{"a certificate of its own address", showing(ca.issueFor(t, "127.0.0.9")), "127.0.0.9"},
				}
			}
			cluster := clusterOf(t, e.Servers[0])
			tried, accepted := 0, 0
			for _, s := range strangers {
				for to := range 2 {
					for from := 1; from <= 4; from++ {
						tried += 8
						accepted += intrude(t, s, e.Servers[to], cluster, from, victim)
					}
				}
			}
			t.Logf("%d connections of strangers, %d accepted", tried, accepted)
			for _, s := range strangers {
				c, err := s.dial(e.Servers[0].Peer)
				if err != nil {
					t.Fatalf("%s doesn't get as far as to say hello: %v", s.what, err)
				}
				c.Close()
			}
			victim.check(t)
			for _, s := range e.Servers[:2] {
				if tmp, _ := filepath.Glob(filepath.Join(s.Folder, "*", "snapshot-*.tmp")); len(tmp) > 0 {
					t.Errorf("server %d keeps what a stranger sent: %v", s.ID, tmp)
				}
			}
			// The third is let in without anybody's help.
			startThem(t, e.Servers[2])
			oneTree(t, nil, e.Servers...)
		})
	}
}

// superDigest is for the password "strong".
const superDigest = "super:" + "yWEm8MdCuQeq9wDhVQYgPZj9qy0="

// clusterOf returns the cluster id of a server's directory as it is sent.
func clusterOf(t *testing.T, s *Server) uint64 {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(s.LogDir(), "IDENTITY"))
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range strings.Fields(string(text)) {
		if b, err := hex.DecodeString(word); err == nil && len(b) == 8 {
			return wire.BigEndian.Uint64(b)
		}
	}
	t.Fatalf("no cluster id in %q", text)
	return 0
}

// A protected znode, and the session in which a stranger pretends to be its owner.
type protected struct {
	addr    string
	session int64
	client  *zk.Client
}

// protect creates a znode that only one who can't log in may change.
func protect(t *testing.T, addr string) *protected {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	c, err := zk.Open(ctx, addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	acl := []zk.ACL{
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "digest", ID: "nobody:x"}},
		{Perms: zk.PermRead, ID: zk.ID{Scheme: "world", ID: "anyone"}},
	}
	if _, err := c.Create(ctx, "/protected", []byte("as it was"), zk.ModePersistent, acl); err != nil {
		t.Fatal(err)
	}
	return &protected{addr, c.Session().ID, c}
}

func (p *protected) check(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startPatience)
	defer cancel()
	if data, _, err := p.client.Get(ctx, "/protected"); err != nil || string(data) != "as it was" {
		t.Errorf("the protected znode holds %q, %v", data, err)
	}
}

// overwrite returns a frame with a write of the znode by a superuser of some other server.
func (p *protected) overwrite() []byte {
	q := tree.Request{
		Op: jute.OpSetData, Session: p.session, Cnx: 1 << 40, Seq: 1, Xid: 1,
		Identities: []jute.ID{{Scheme: "super", ID: ""}},
		Body:       (&jute.SetDataRequest{Path: "/protected", Data: []byte("overwritten"), Version: -1}).Append(nil),
	}
	return strangeFrame(strangeForward, tree.AppendRecord(nil, &q))
}

func strangeFrame(kind byte, payload []byte) []byte {
	return append(append(wire.BigEndian.AppendUint32(nil, uint32(len(payload)+1)), kind), payload...)
}

// intrude tries each kind of connection as server from, and returns how many were accepted that must not be.
func intrude(t *testing.T, s stranger, to *Server, cluster uint64, from int, victim *protected) (accepted int) {
	t.Helper()
	secret := wire.BigEndian.AppendUint64(nil, cluster)
	for kind := byte(strangeMessages); kind <= strangeClaim; kind++ {
		asks := kind == strangeJoin || kind == strangePing
		given := cluster
		if asks || kind == strangeClaim {
			given = 0
		}
		c, answer, ok := s.say(to.Peer, kind, given, from, to.ID)
		if c == nil {
			continue
		}
		if ok {
			switch kind {
			case strangeMessages:
				c.Write(victim.overwrite())
				for i := range 20 {
					c.Write(strangeFrame(strangeMembers, manyMembers(i)))
				}
			case strangeSnapshot:
				c.Write(append(wire.BigEndian.AppendUint32(nil, 0), 0, 0, 1, 0, 0, 0, 0, 0)) // a terabyte
				c.Write(make([]byte, 16<<20))
			case strangeGuest:
				b := wire.BigEndian.AppendUint64(nil, uint64(from))
				b = append(wire.BigEndian.AppendUint16(append(b, 1), uint16(len("127.0.0.9:1"))), "127.0.0.9:1"...)
				c.Write(append(wire.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
			}
			answer = rest(c)
			if kind == strangeGuest && len(answer) > 4 { // refused once it is known who asks
				ok = false
			}
		}
		c.Close()
		if bytes.Contains(answer, secret) || strings.Contains(string(answer), fmt.Sprintf("%016x", cluster)) {
			t.Errorf("%s, as server %d to server %d, kind %d: is told the cluster id: %q", s.what, from, to.ID, kind, answer)
		}
		if ok && !asks {
			accepted++
			t.Errorf("%s, as server %d to server %d: a connection of kind %d is accepted", s.what, from, to.ID, kind)
		}
	}
	return accepted
}

// manyMembers is a list of a thousand servers.
func manyMembers(n int) (b []byte) {
	for i := range 1000 {
		addr := fmt.Sprintf("127.0.%d.%d:9", 100+n, i%250)
		b = append(wire.BigEndian.AppendUint64(b, uint64(1000+1000*n+i)), 1)
		b = append(wire.BigEndian.AppendUint16(b, uint16(len(addr))), addr...)
	}
	return b
}

// silentMax is how many connections strangers may make before a restarted server gets its own. It makes a handful of
// attempts; they make some thousand meanwhile, however busy the machine is.
const silentMax = 15_000

// TestSilentAddresses holds connections that say nothing to a peer port, one from each of 400 addresses, and makes each
// again when it is closed. A server that was restarted gets through all the same, each time.
func TestSilentAddresses(t *testing.T) {
	seed, _ := hurtful(t)
	e := Start(t, Options{Servers: 3})
	leader, err := e.Leader()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer wg.Wait()
	defer cancel()
	var made atomic.Int64
	for i := range 400 {
		s := stranger{from: fmt.Sprintf("127.0.%d.%d", 10+i/200, 1+i%200)}
		rng := mathrand.New(mathrand.NewPCG(seed, uint64(i)))
		wg.Go(func() {
			for ctx.Err() == nil {
				if c, err := s.dial(e.Servers[leader].Peer); err == nil {
					made.Add(1)
					c.Read(make([]byte, 1))
					c.Close()
				}
				moment(rng, 10*time.Millisecond)
			}
		})
	}
	other := e.Servers[(leader+2)%3]
	for i := range 5 {
		before := made.Load()
		if code := other.Stop(); code != 0 {
			t.Fatalf("server %d ends with %d", other.ID, code)
		}
		began := time.Now()
		restart(t, other)
		write(t, other.Addr, fmt.Sprintf("/through-%d", i)) // the leader gets it over the connection that is made to it
		n := made.Load() - before
		t.Logf("restarted, and a write went through it, within %v, beside %d connections of strangers",
			time.Since(began).Round(time.Millisecond), n)
		if n > silentMax {
			t.Errorf("strangers got %d connections before a server got one; at most %d", n, silentMax)
		}
	}
}
