package setup

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// written returns a directory that init has written.
func written(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "new[1]*") // no pattern
	if _, err := Write(Options{Dir: dir, Hosts: []string{"zk1.example", "zk2.example", "10.0.0.3"}, TLS: true,
		Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	return dir
}

// listed returns the register's certificates, each as its name, usage and whether it is revoked.
func listed(t *testing.T, dir string) (rows []string) {
	t.Helper()
	all, err := List(dir, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range all {
		rows = append(rows, fmt.Sprintf("%s %s %t", strings.Join(append([]string{c.Name}, c.Hosts...), ","), c.Usage,
			!c.Revoked.IsZero()))
	}
	return rows
}

func certOf(t *testing.T, file string) *x509.Certificate {
	t.Helper()
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	certs, err := certificates(text)
	if err != nil || len(certs) != 1 {
		t.Fatalf("%s has %d certificates, %v", file, len(certs), err)
	}
	return certs[0]
}

// TestCertificatesOfLoopback: a server on loopback is trusted by each of its names, also by the one that Java's clients
// look up for the address.
func TestCertificatesOfLoopback(t *testing.T) {
	t.Parallel()
	for _, hosts := range [][]string{nil, {"127.0.0.1"}, {"Localhost"}, {"::1"}, {"127.0.0.1:3001", "127.0.0.1:3002"}} {
		dir := filepath.Join(t.TempDir(), "new")
		if _, err := Write(Options{Dir: dir, Hosts: hosts, TLS: true, Now: time.Now()}); err != nil {
			t.Fatal(err)
		}
		cert := certOf(t, filepath.Join(dir, "1", "server.pem"))
		for _, name := range []string{"localhost", "127.0.0.1", "::1"} {
			if err := cert.VerifyHostname(name); err != nil {
				t.Errorf("%q: %v", hosts, err)
			}
		}
	}
}

// TestCertificatesOfOneLife issues, renews and revokes, and holds the list against what is written.
func TestCertificatesOfOneLife(t *testing.T) {
	t.Parallel()
	dir, now := written(t), time.Now()
	first := []string{
		"client superuser false", "zk1.example,zk1.example server false", "zk2.example,zk2.example server false",
		"10.0.0.3,10.0.0.3 server false",
	}
	if got := listed(t, dir); !slices.Equal(got, first) {
		t.Fatalf("after init: %q", got)
	}
	app, err := Issue(Request{Dir: dir, App: "orders", Days: 7, Now: now})
	if err != nil || app.Folder != filepath.Join(dir, "apps", "orders") ||
		app.Until.Sub(now) > 7*24*time.Hour+2*time.Hour {
		t.Fatalf("%+v, %v", app, err)
	}
	for name, mode := range map[string]os.FileMode{"app.pem": 0o600, "ca.pem": 0o644, "client.properties": 0o644,
		"profile": 0o644, ".": 0o700} {
		if st, err := os.Stat(filepath.Join(app.Folder, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, st, err)
		}
	}
	if text, _ := os.ReadFile(filepath.Join(app.Folder, "profile")); !bytes.Contains(text,
		[]byte("\nensemble.server=zk1.example:2281,zk2.example:2281,10.0.0.3:2281\nensemble.tls.ca=ca.pem\nensemble.tls.cert=app.pem\n")) {
		t.Errorf("the profile is\n%s", text)
	}
	cert := certOf(t, filepath.Join(app.Folder, "app.pem"))
	if !slices.Equal(cert.ExtKeyUsage, []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}) || cert.IsCA ||
		len(hostsOf(cert)) > 0 ||
		cert.Subject.String() != "CN=orders" {
		t.Errorf("the application's certificate is for %v, %v, %q, %s", cert.ExtKeyUsage, cert.IsCA, hostsOf(cert),
			cert.Subject)
	}
	if _, err := Issue(Request{Dir: dir, App: "orders", Now: now}); err == nil || !strings.Contains(err.Error(),
		"cert renew") {
		t.Errorf("issued twice: %v", err)
	}
	renewed, last, err := Renew(Request{Dir: dir, Now: now}, "orders")
	if err != nil || renewed.Folder != filepath.Join(dir, "apps", "orders.2") || last.Serial != app.Serial ||
		renewed.Serial == app.Serial ||
		renewed.Subject != app.Subject {
		t.Fatalf("renewed %+v, %+v, %v", renewed, last, err)
	}
	if fresh := certOf(t, filepath.Join(renewed.Folder, "app.pem")); fresh.PublicKeyAlgorithm != x509.ECDSA ||
		bytes.Equal(fresh.RawSubjectPublicKeyInfo, cert.RawSubjectPublicKeyInfo) || !slices.Equal(fresh.ExtKeyUsage,
		cert.ExtKeyUsage) {
		t.Error("the renewed certificate has the same key, or other uses")
	}
	server, last, err := Renew(Request{Dir: dir, Now: now}, "ZK1.example")
	if got := certOf(t, filepath.Join(dir, "servers", "zk1.example", "server.pem")); err != nil ||
		got.Subject.CommonName != "server 1" ||
		server.Usage != "server" || last.Usage != "server" || !slices.Equal(hostsOf(got), []string{"zk1.example"}) {
		t.Errorf("renewed %s with %q, %v", got.Subject, hostsOf(got), err)
	}
	revoked, list, err := Revoke(dir, "orders", now)
	if err != nil || len(revoked) != 2 || revoked[0].Revoked.IsZero() {
		t.Fatalf("revoked %+v, %v", revoked, err)
	}
	text, _ := os.ReadFile(list)
	block, _ := pem.Decode(text)
	crl, err := x509.ParseRevocationList(block.Bytes)
	if issuer := certOf(t, filepath.Join(dir, "ca", "ca.pem")); err != nil || crl.CheckSignatureFrom(issuer) != nil ||
		len(crl.RevokedCertificateEntries) != 2 || crl.NextUpdate != issuer.NotAfter {
		t.Errorf("the list is %+v, %v", crl, err)
	}
	if _, _, err := Revoke(dir, "orders", now); err == nil || !strings.Contains(err.Error(), "have been revoked") {
		t.Errorf("revoked twice: %v", err)
	}
	if _, _, err := Renew(Request{Dir: dir, Now: now}, "orders"); err == nil || !strings.Contains(err.Error(),
		"was revoked") {
		t.Errorf("renewed although revoked: %v", err)
	}
	again, err := Issue(Request{Dir: dir, App: "orders", Now: now})
	if err != nil || again.Folder != filepath.Join(dir, "apps", "orders.3") {
		t.Errorf("issued again: %+v, %v", again, err)
	}
	second, err := Issue(Request{Dir: dir, App: "client", Superuser: true, Now: now})
	if err != nil || second.Usage != "superuser" {
		t.Errorf("a second superuser: %+v, %v", second, err)
	}
	want := append(first, "orders application true", "orders application true", "zk1.example,zk1.example server false",
		"orders application false", "client superuser false")
	if got := listed(t, dir); !slices.Equal(got, want) {
		t.Errorf("listed %q\nwant %q", got, want)
	}
}

// TestNamesOfCertificates: names that are no name, or somebody else's, get no certificate.
func TestNamesOfCertificates(t *testing.T) {
	t.Parallel()
	dir := written(t)
	cfg := filepath.Join(dir, "2", "zoo.cfg")
	text, _ := os.ReadFile(cfg)
	if err := os.WriteFile(cfg, append(text, "zookeeper.X509AuthenticationProvider.superUser=CN=ops\n"...),
		0o600); err != nil {
		t.Fatal(err)
	}
	before := listed(t, dir)
	for _, name := range []string{
		"", " ", "-x", ".", "..", "../x", "a/b", "a b", "a,CN=client", "CN=client", "a=b", "a+b", "a\nb", "a\x00", "ä",
		"сlient",
		strings.Repeat("a", nameBytesMax+1), strings.Repeat("0",
			32), "client", "Client", "ops", "OPS", "server 1", "zk1.example",
	} {
		if _, err := Issue(Request{Dir: dir, App: name, Now: time.Now()}); err == nil {
			t.Errorf("the application %q gets a certificate", name)
		}
	}
	for _, name := range []string{"orders", "Client", "OPS"} {
		if _, err := Issue(Request{Dir: dir, App: name, Superuser: true, Now: time.Now()}); err == nil {
			t.Errorf("%q gets a superuser's certificate", name)
		}
	}
	long := strings.Repeat("a", 63)
	for _, hosts := range [][]string{
		{}, {""}, {"*.example"}, {"a:2888"}, {"[::1]"}, {"1.2.3.400"}, {"a..b"}, {"a."}, {"-a"}, {"a b"}, {"a\n"}, {"a", "A"},
		{"::1", "0:0:0:0:0:0:0:1"}, {long + "a"}, {long + "." + long + "." + long + "." + long}, {"zk1.EXAMPLE"}, {"x",
			"10.0.0.3"},
		slices.Repeat([]string{"a"}, hostsMax+1),
	} {
		if _, err := Issue(Request{Dir: dir, Hosts: hosts, Now: time.Now()}); err == nil {
			t.Errorf("the server %q gets a certificate", hosts)
		}
	}
	for _, who := range []string{"", "nobody", "orders/", "../x", "zk1"} {
		if _, _, err := Revoke(dir, who, time.Now()); err == nil {
			t.Errorf("%q is revoked", who)
		}
	}
	if got := listed(t, dir); !slices.Equal(got, before) {
		t.Errorf("refused, and recorded: %q", got)
	}
	most := make([]string, hostsMax)
	for i := range most {
		most[i] = fmt.Sprintf("h%d.example", i)
	}
	for _, q := range []Request{
		{App: strings.Repeat("a",
			nameBytesMax)}, {Hosts: []string{long + "." + long + "." + long + "." + long[:61]}}, {Hosts: most},
		{App: "ops", Superuser: true}, {Hosts: []string{"fd00::1"}}, {App: "a..b"},
	} {
		q.Dir, q.Now = dir, time.Now()
		c, err := Issue(q)
		if err != nil {
			t.Errorf("at the limit: %+v: %v", q, err)
		} else if cert := certOf(t, filepath.Join(c.Folder, map[bool]string{true: "app.pem",
			false: "server.pem"}[q.App != ""])); len(cert.Subject.CommonName) > nameBytesMax {
			t.Errorf("the name %q is too long", cert.Subject.CommonName)
		}
	}
}

// TestDaysOfCertificates: a certificate lasts as long as is asked for, within bounds, and never longer than its
// authority.
func TestDaysOfCertificates(t *testing.T) {
	t.Parallel()
	dir := written(t)
	now := time.Now()
	for _, days := range []int{-1, DaysMax + 1} {
		if _, err := Issue(Request{Dir: dir, App: "app", Days: days, Now: now}); err == nil {
			t.Errorf("issued for %d days", days)
		}
	}
	late := now.AddDate(authorityYears, 0, -10)
	if _, err := Issue(Request{Dir: dir, App: "app", Days: 11, Now: late}); err == nil {
		t.Error("issued beyond the authority's end")
	}
	end := certOf(t, filepath.Join(dir, "ca", "ca.pem")).NotAfter
	if c, err := Issue(Request{Dir: dir, App: "app", Now: late}); err != nil || c.Until != end {
		t.Errorf("until %v, want %v, %v", c.Until, end, err)
	}
	for _, at := range []time.Time{end.Add(time.Second), now.Add(-2 * clockSlack)} {
		if _, err := Issue(Request{Dir: dir, App: "app2", Now: at}); err == nil || !strings.Contains(err.Error(), "clock") {
			t.Errorf("issued at %v, when the authority isn't valid: %v", at, err)
		}
	}
}

// TestIssuedAtOnce: of commands at once none loses another's certificate, and of two for one name one alone succeeds.
func TestIssuedAtOnce(t *testing.T) {
	t.Parallel()
	dir := written(t)
	const apps, each = 8, 4
	errs := make(chan error, apps*each)
	var all sync.WaitGroup
	for i := range apps * each {
		all.Go(func() {
			_, err := Issue(Request{Dir: dir, App: fmt.Sprintf("app%d", i%apps), Now: time.Now()})
			errs <- err
		})
	}
	all.Wait()
	close(errs)
	succeeded := 0
	for err := range errs {
		if err == nil {
			succeeded++
		} else if !strings.Contains(err.Error(), "there is one until") {
			t.Error(err)
		}
	}
	list, err := List(dir, time.Now())
	serials := map[string]bool{}
	for _, c := range list {
		serials[c.Serial] = true
	}
	if err != nil || succeeded != apps || len(list) != 4+apps || len(serials) != len(list) {
		t.Errorf("%d succeeded; %d are listed with %d serial numbers, %v", succeeded, len(list), len(serials), err)
	}
	if left, _ := filepath.Glob(filepath.Join(literal(dir), "ca", "*.tmp*")); len(left) > 0 {
		t.Errorf("left behind: %q", left)
	}
}

// TestDamagedRegister: what has been damaged, exchanged or lost is refused, and stays as it is.
func TestDamagedRegister(t *testing.T) {
	t.Parallel()
	other := filepath.Join(written(t), "ca")
	copied := func(name string) func(ca string) error {
		return func(ca string) error {
			text, err := os.ReadFile(filepath.Join(other, name))
			return errors.Join(err, os.WriteFile(filepath.Join(ca, name), text, 0o600))
		}
	}
	cut := func(name string, keep int) func(ca string) error {
		return func(ca string) error { return os.Truncate(filepath.Join(ca, name), int64(keep)) }
	}
	for what, c := range map[string]struct {
		harm func(ca string) error
		says string
	}{
		"key others may read": {func(ca string) error { return os.Chmod(filepath.Join(ca, "ca.key"), 0o640) }, "chmod 600"},
		"another's key":       {copied("ca.key"), "isn't the key"},
		"no key":              {func(ca string) error { return os.Remove(filepath.Join(ca, "ca.key")) }, "no such file"},
		"another's list":      {copied(listFile), "crl.pem"},
		"no list":             {func(ca string) error { return os.Remove(filepath.Join(ca, listFile)) }, "server's copy"},
		"half a list":         {cut(listFile, 200), "every server has a copy"},
		"another's issued":    {copied(issuedFile), "isn't this authority's"},
		"another authority":   {copied("ca.pem"), "crl.pem"},
		"no certificate":      {cut("ca.pem", 0), "there are 0"},
		"not an authority": {func(ca string) error {
			text, err := os.ReadFile(filepath.Join(ca, "..", "client", "client.pem"))
			return errors.Join(err, os.WriteFile(filepath.Join(ca, "ca.pem"), text, 0o600))
		}, "isn't an authority's"},
		"too large": {func(ca string) error { return os.Truncate(filepath.Join(ca, issuedFile), registerBytesMax+1) },
			"more than"},
	} {
		dir := written(t)
		ca := filepath.Join(dir, "ca")
		if err := c.harm(ca); err != nil {
			t.Fatal(err)
		}
		before, _ := os.ReadFile(filepath.Join(ca, issuedFile))
		_, err := Issue(Request{Dir: dir, App: "orders", Now: time.Now()})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v, want %q", what, err, c.says)
		}
		if _, _, err := Revoke(dir, "zk1.example", time.Now()); err == nil {
			t.Errorf("%s: revoked", what)
		}
		if after, _ := os.ReadFile(filepath.Join(ca, issuedFile)); !bytes.Equal(before, after) {
			t.Errorf("%s: it was written over", what)
		}
	}
	full := filepath.Join(t.TempDir(), "full")
	if err := replaceFile(full, make([]byte, registerBytesMax)); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if err := replaceFile(full, make([]byte, registerBytesMax+1)); err == nil {
		t.Error("a file beyond the limit is written")
	}
}

// TestCertificatesBefore: an authority without a register, as earlier versions made it, takes the certificates that are
// there, and others by their file.
func TestCertificatesBefore(t *testing.T) {
	t.Parallel()
	dir := written(t)
	stray := filepath.Join(dir, "stray.pem")
	if err := errors.Join(os.Remove(filepath.Join(dir, "ca", issuedFile)), os.Remove(filepath.Join(dir, "ca", listFile)),
		os.Rename(filepath.Join(dir, "2", "server.pem"), stray)); err != nil {
		t.Fatal(err)
	}
	if got := listed(t, dir); len(got) != 3 {
		t.Errorf("listed %q", got)
	}
	if _, _, err := Revoke(dir, "zk1.example", time.Now()); err != nil {
		t.Error(err)
	}
	if revoked, _, err := Revoke(dir, stray, time.Now()); err != nil || revoked[0].Name != "zk2.example" {
		t.Errorf("%+v, %v", revoked, err)
	}
	if _, _, err := Revoke(dir, filepath.Join(written(t), "client", "client.pem"), time.Now()); err == nil {
		t.Error("another authority's certificate is revoked")
	}
	if _, _, err := Revoke(dir, filepath.Join(dir, "ca", "ca.pem"), time.Now()); err == nil {
		t.Error("the authority's own certificate is revoked")
	}
	want := []string{
		"zk1.example,zk1.example server true", "10.0.0.3,10.0.0.3 server false", "client superuser false",
		"zk2.example,zk2.example server true",
	}
	if got := listed(t, dir); !slices.Equal(got, want) {
		t.Errorf("listed %q", got)
	}
}

// TestSeveralOfOneHost: servers that share a host have certificates with the same name, so it doesn't say whose is
// meant.
func TestSeveralOfOneHost(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "new")
	if _, err := Write(Options{Dir: dir, Hosts: []string{"h:1:2", "h:3:4"}, TLS: true, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	list, err := List(dir, time.Now())
	if err != nil || len(list) != 3 {
		t.Fatalf("%+v, %v", list, err)
	}
	if _, _, err := Revoke(dir, "h", time.Now()); err == nil || !strings.Contains(err.Error(),
		list[2].Serial+" (server 2)") {
		t.Errorf("whose? %v", err)
	}
	if revoked, _, err := Revoke(dir, list[2].Serial, time.Now()); err != nil || len(revoked) != 1 ||
		revoked[0].Serial != list[2].Serial {
		t.Errorf("%+v, %v", revoked, err)
	}
}

// TestFoldersOfOneName: each certificate of a name gets a folder of its own, up to a limit, and none is written over.
func TestFoldersOfOneName(t *testing.T) {
	t.Parallel()
	dir := written(t)
	apps := filepath.Join(dir, "apps")
	last := fmt.Sprintf("orders.%d", foldersMax)
	for n := 2; n < foldersMax; n++ {
		if err := os.MkdirAll(filepath.Join(apps, fmt.Sprintf("orders.%d", n)), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(apps, "orders"), []byte("mine"), 0o600); err != nil {
		t.Fatal(err)
	}
	c, err := Issue(Request{Dir: dir, App: "orders", Now: time.Now()})
	if err != nil || c.Folder != filepath.Join(apps, last) {
		t.Errorf("the last folder: %+v, %v", c, err)
	}
	if _, _, err := Renew(Request{Dir: dir, Now: time.Now()}, "orders"); err == nil || !strings.Contains(err.Error(),
		"1000 folders") ||
		!strings.Contains(err.Error(), "revoke it") {
		t.Errorf("beyond the limit: %v", err)
	}
}
