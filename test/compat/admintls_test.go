package compat

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// adminForms are the ways in which an admin server takes TLS.
var adminForms = map[string]map[string]string{
	"both on one port":                {"admin.portUnification": "true"},
	"both, certificates are needed":   {"admin.portUnification": "true", "admin.needClientAuth": "true"},
	"TLS alone":                       {"admin.forceHttps": "true"},
	"TLS alone, certificates needed":  {"admin.forceHttps": "true", "admin.needClientAuth": "true"},
	"both, and TLS alone":             {"admin.portUnification": "true", "admin.forceHttps": "true"},
	"certificates needed without TLS": {"admin.needClientAuth": "true"},
}

// An adminCaller is who asks an admin server, and how.
type adminCaller struct {
	name   string
	scheme string
	client *http.Client
}

// adminCallers are one by plain HTTP and others by TLS: without a certificate, with one of the issuer that the server
// trusts, and with one that it doesn't know.
func adminCallers(t *testing.T) []adminCaller {
	t.Helper()
	issuer, err := os.ReadFile(storeFile(t, "trust.pem"))
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(issuer)
	known, err := tls.LoadX509KeyPair(storeFile(t, "client.pem"), storeFile(t, "client.pem"))
	if err != nil {
		t.Fatal(err)
	}
	f := &faulty{T: t, dir: t.TempDir()}
	f.certificate(30)
	stranger, err := tls.LoadX509KeyPair(filepath.Join(f.dir, "server.pem"), filepath.Join(f.dir, "server.pem"))
	if err != nil {
		t.Fatal(err)
	}
	by := func(certs ...tls.Certificate) *http.Client {
		// Each is shown whatever issuers the server names, and each request has a connection of its own.
		c := &tls.Config{RootCAs: pool, GetClientCertificate: func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
			if len(certs) == 0 {
				return &tls.Certificate{}, nil
			}
			return &certs[0], nil
		}}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	}
	plain := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	return []adminCaller{
		{"plain", "http", plain}, {"no certificate", "https", by()}, {"a certificate", "https", by(known)},
		{"a stranger's certificate", "https", by(stranger)},
	}
}

// ask returns the status and the JSON fields of an answer that tell who may do what, or that there was none.
func (a adminCaller) ask(t *testing.T, s *Server, path, auth string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, a.scheme+"://"+s.Admin+"/commands/"+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	res, err := a.client.Do(req)
	if errors.Is(err, context.DeadlineExceeded) {
		t.Fatalf("%s of %s by %s: %v", path, s.Program.Name, a.name, err)
	}
	if err != nil {
		return "no answer"
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return "no answer"
	}
	if kind := res.Header.Get("Content-Type"); kind != "application/json" {
		return fmt.Sprint(res.StatusCode)
	}
	var told []string
	for line := range strings.Lines(string(body)) {
		if line = strings.TrimRight(strings.TrimSpace(line), ","); strings.HasPrefix(line, `"command"`) ||
			strings.HasPrefix(line, `"error"`) {
			told = append(told, strings.ReplaceAll(line, " : ", ": "))
		}
	}
	slices.Sort(told)
	return fmt.Sprintf("%d %s", res.StatusCode, strings.Join(told, " "))
}

// TestAdminTLS asks Apache's admin server and Zooid's the same by plain HTTP and TLS, with and without certificates, in
// each form of TLS that the keys give, and compares who gets an answer, and which.
func TestAdminTLS(t *testing.T) {
	reference, subject := programs(t)
	reference.classPath += string(filepath.ListSeparator) + filepath.Join(cacheFolder(t), "apache-admin", "*")
	needFile(t, filepath.Join(cacheFolder(t), "apache-admin", "stamp"))
	callers := adminCallers(t)
	count, kinds := 0, map[string]int{}
	for _, form := range slices.Sorted(maps.Keys(adminForms)) {
		config := maps.Clone(adminForms[form])
		maps.Copy(config, map[string]string{
			"admin.rateLimiterIntervalInMS": "0",
			"ssl.quorum.keyStore.location":  storeFile(t, "server.p12"), "ssl.quorum.keyStore.password": "apassword",
			"ssl.quorum.keyStore.type":       "PKCS12",
			"ssl.quorum.trustStore.location": storeFile(t, "trust.jks"), "ssl.quorum.trustStore.password": "apassword",
			"ssl.quorum.trustStore.type": "JKS",
			// Apache's provider of x509 reads these.
			"authProvider.1":        "org.apache.zookeeper.server.auth.X509AuthenticationProvider",
			"ssl.keyStore.location": storeFile(t, "server.p12"), "ssl.keyStore.password": "apassword",
			"ssl.keyStore.type":       "PKCS12",
			"ssl.trustStore.location": storeFile(t, "trust.jks"), "ssl.trustStore.password": "apassword",
			"ssl.trustStore.type": "JKS",
		})
		answers := map[string][2]string{}
		for i, p := range []Program{reference, subject} {
			s := StartEnsemble(t, p, 1, Options{Admin: true, Config: config})[0]
			closedTo(t, s)
			for _, a := range callers {
				for _, request := range []string{
					"ruok", "nosuch", "snapshot?streaming=false ip", "snapshot?streaming=false x509",
					"snapshot?streaming=false digest a:b",
				} {
					path, auth, _ := strings.Cut(request, " ")
					key := a.name + ", " + request
					both := answers[key]
					both[i] = a.ask(t, s, path, auth)
					answers[key] = both
				}
			}
		}
		for _, key := range slices.Sorted(maps.Keys(answers)) {
			a := answers[key]
			count++
			kind, _, _ := strings.Cut(a[0], " ")
			kinds[kind]++
			if strings.HasPrefix(key, "plain, ") && a == [2]string{"no answer", "400"} {
				continue // docs/protocol.md names it
			}
			if a[0] != a[1] {
				t.Errorf("%s: %s: Apache says %q, Zooid %q", form, key, a[0], a[1])
			}
		}
	}
	for _, kind := range []string{"200", "401", "403", "no"} {
		if kinds[kind] == 0 {
			t.Errorf("Apache's answers are of the kinds %v, none is %s", kinds, kind)
		}
	}
	fmt.Printf("\n%s: %d answers in %d forms compared, Apache's by status %v\n", t.Name(), count, len(adminForms), kinds)
}

// closedTo gives all permissions on / to the certificate and to a password, and none to addresses.
func closedTo(t *testing.T, s *Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, s.Addr, zk.Options{Auth: []zk.Auth{{Scheme: "digest", Auth: []byte("a:b")}}})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	subjects, err := os.ReadFile(storeFile(t, "subjects.txt"))
	if err != nil {
		t.Fatal(err)
	}
	var client string
	for line := range strings.Lines(string(subjects)) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), "client.pem "); ok {
			client = rest
		}
	}
	acl := []zk.ACL{
		{Perms: zk.PermAll, ID: zk.ID{Scheme: "x509", ID: client}}, {Perms: zk.PermAll, ID: zk.ID{Scheme: "auth"}},
	}
	if _, err := c.SetACL(ctx, "/", acl, -1); err != nil {
		t.Fatal(err)
	}
}
