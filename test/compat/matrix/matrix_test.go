package matrix

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"fmt"
	"maps"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/test/compat"
)

func TestMain(m *testing.M) { compat.Main(m) }

// batch is how many cells are on their way at once.
const batch = 5000

// shown is how many differences of a kind are printed.
const shown = 3

// A pair is a server of each kind: Apache and Zooid.
type pair struct {
	t       *testing.T
	places  [2]place
	players [2]*player

	cells     int
	answers   map[string]int // what Apache said first, without what it has shown
	different map[string]int // by the beginning of the cells' names
	excused   map[string]int
}

// startPair starts both, alone or as ensembles, with all schemes of authentication.
func startPair(t *testing.T, servers int) *pair {
	t.Helper()
	if os.Getenv("ZOOID_COMPAT") != "1" {
		t.Skip("needs a real Apache ZooKeeper: see test/compat/README.md")
	}
	folder := t.TempDir()
	ann := certificate(t, filepath.Join(folder, "ann.pem"), "ann")
	certificate(t, filepath.Join(folder, "server.pem"), "localhost")
	jaas := filepath.Join(folder, "jaas.conf")
	text := `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_ann="secret" user_root="secret"; };`
	if err := os.WriteFile(jaas, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	p := &pair{t: t, answers: map[string]int{}, different: map[string]int{}, excused: map[string]int{}}
	config := map[string]string{
		"minSessionTimeout": fmt.Sprint(sessionTimeout), "maxSessionTimeout": fmt.Sprint(sessionTimeout),
		"reconfigEnabled": "true",
		"authProvider.1":  "org.apache.zookeeper.server.auth.SASLAuthenticationProvider",
	}
	if servers == 1 {
		secure := freeport.Take(t, 2)
		maps.Copy(config, map[string]string{
			"serverCnxnFactory":     "org.apache.zookeeper.server.NettyServerCnxnFactory",
			"ssl.keyStore.location": filepath.Join(folder, "server.pem"), "ssl.trustStore.location": filepath.Join(folder,
				"ann.pem"),
			"ssl.hostnameVerification": "false", "ssl.clientHostnameVerification": "false", "secureClientPortAddress": loopback,
		})
		for i, port := range secure {
			p.places[i] = place{secure: fmt.Sprintf("%s:%d", loopback, port), certificate: ann}
		}
	}
	for i, name := range []string{
		named("ZOOID_COMPAT_REFERENCE", compat.Apache39), named("ZOOID_COMPAT_SUBJECT", compat.Zooid),
	} {
		if _, port, found := strings.Cut(p.places[i].secure, ":"); found {
			config["secureClientPort"] = port
		}
		started := compat.StartEnsemble(t, compat.Find(t, name), servers, compat.Options{
			Config: maps.Clone(config),
			Properties: map[string]string{
				"zookeeper.extendedTypesEnabled": "true", "znode.container.checkIntervalMs": "86400000",
				"zookeeper.fips-mode":                                "false",
				"zookeeper.DigestAuthenticationProvider.superDigest": digestOf(superUser), "zookeeper.superUser": "root",
				"java.security.auth.login.config": jaas,
			},
		})
		p.places[i].plain = started[0].Addr
	}
	if err := p.both(func(i int) (err error) {
		p.players[i], err = newPlayer(p.places[i])
		return err
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.players[0].close(); p.players[1].close() })
	return p
}

func named(variable, otherwise string) string {
	if name := os.Getenv(variable); name != "" {
		return name
	}
	return otherwise
}

// certificate makes a self-signed certificate and writes it with its key.
func certificate(t *testing.T, file, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := x509.Certificate{
		SerialNumber: big.NewInt(time.Now().UnixNano()), Subject: pkix.Name{CommonName: name},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(time.Hour),
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		IPAddresses: []net.IP{net.ParseIP(loopback)},
	}
	der, err := x509.CreateCertificate(rand.Reader, &template, &template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := slices.Concat(pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private}),
		pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// both does something with both servers at once.
func (p *pair) both(f func(i int) error) error {
	var errs [2]error
	var running sync.WaitGroup
	for i := range errs {
		running.Go(func() { errs[i] = f(i) })
	}
	running.Wait()
	for i, err := range errs {
		if err != nil {
			return fmt.Errorf("at %s: %w", []string{"the reference", "the subject"}[i], err)
		}
	}
	return nil
}

// compare asks both about the cells and compares the answers.
func (p *pair) compare(cells []cell) {
	p.t.Helper()
	for len(cells) > 0 {
		n := min(batch, len(cells))
		var answers [2][]answer
		if err := p.both(func(i int) (err error) {
			answers[i], err = p.players[i].play(cells[:n])
			return err
		}); err != nil {
			p.t.Fatal(err)
		}
		for i := range n {
			p.judge(&cells[i], answers[0][i].String(), answers[1][i].String())
		}
		cells = cells[n:]
	}
}

// firstAnswer finds "ok" or a code.
var firstAnswer = regexp.MustCompile(`^(ok\b|[^;,]*)`)

// judge compares the two answers to one cell.
func (p *pair) judge(c *cell, apache, zooid string) {
	p.cells++
	p.answers[firstAnswer.FindString(apache)]++
	if apache == zooid {
		return
	}
	if row := excused(c, apache, zooid); row != "" {
		p.excused[row]++
		return
	}
	kind, _, _ := strings.Cut(c.name, " with ")
	if p.different[kind]++; p.different[kind] <= shown {
		p.t.Errorf("%s:\n  Apache %.600s\n  Zooid  %.600s", c.name, apache, zooid)
	}
}

// finish reports, and requires that the cells were there to tell something.
func (p *pair) finish(since time.Time) {
	p.t.Helper()
	fmt.Printf("%s: %d cells in %v; Apache said %v; known differences %v; different %v\n",
		p.t.Name(), p.cells, time.Since(since).Round(time.Second), p.answers, p.excused, p.different)
	for _, kind := range slices.Sorted(maps.Keys(p.different)) {
		if n := p.different[kind]; n > shown {
			p.t.Errorf("%s: %d cells differ", kind, n)
		}
	}
}

// TestMatrix compares a server alone with Apache's, cell by cell.
func TestMatrix(t *testing.T) {
	p := startPair(t, 1)
	began := time.Now()
	for _, cells := range ownCells() {
		p.compare(cells)
	}
	p.compare(eventCells())
	p.compare(listCells())
	p.compare(requestCells())
	all := logins()
	for i, l := range all {
		var answers [2]string
		if err := p.both(func(side int) (err error) {
			answers[side], err = l.play(p.places[side], fmt.Sprintf("%s/login%d", cellsRoot, i))
			return err
		}); err != nil {
			t.Fatalf("%s: %v", l.name, err)
		}
		p.judge(&cell{name: l.name}, answers[0], answers[1])
	}
	p.finish(began)
	for _, code := range []jute.Code{jute.OK, jute.ErrNoAuth, jute.ErrInvalidACL, jute.ErrBadVersion, jute.ErrNoNode,
		jute.ErrNodeExists, jute.ErrNotEmpty,
		jute.ErrNoWatcher, jute.ErrBadArguments, jute.ErrAuthFailed} {
		if p.answers[code.String()] == 0 {
			t.Errorf("no cell had the answer %v", code)
		}
	}
	for _, k := range knownDifferences() {
		if p.excused[k.row] == 0 {
			t.Errorf("known difference %q was never seen", k.row)
		}
	}
}

// TestReconfigMatrix compares who may change the membership of three servers.
func TestReconfigMatrix(t *testing.T) {
	p := startPair(t, 3)
	began := time.Now()
	for _, c := range reconfigCells("server.1=127.0.0.1:1:2;3") {
		var answers [2]string
		if err := p.both(func(i int) (err error) {
			answers[i], err = c.play(p.players[i].clients)
			return err
		}); err != nil {
			t.Fatalf("%s: %v", c.name, err)
		}
		p.judge(&cell{name: c.name}, answers[0], answers[1])
	}
	p.finish(began)
}

// TestKnownDifferencesAreDocumented holds the table to docs/protocol.md.
func TestKnownDifferencesAreDocumented(t *testing.T) {
	page, err := os.ReadFile(filepath.Join("..", "..", "..", "docs", "protocol.md"))
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range knownDifferences() {
		if !strings.Contains(string(page), "| "+k.row+" |") {
			t.Errorf("docs/protocol.md has no row %q", k.row)
		}
	}
}

// TestCellsAreDifferent holds that no two cells ask the same, and that there are as many as there should be.
func TestCellsAreDifferent(t *testing.T) {
	seen := map[string]bool{}
	all := slices.Concat(requestCells(), listCells(), eventCells(), slices.Concat(ownCells()...))
	for i := range all {
		if seen[all[i].name] {
			t.Fatalf("there are two cells %q", all[i].name)
		}
		seen[all[i].name] = true
	}
	const least = 50_000
	if len(all) < least {
		t.Errorf("there are %d cells, want %d at least", len(all), least)
	}
	t.Logf("%d cells", len(all))
}
