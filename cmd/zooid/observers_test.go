//go:build unix

package main

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
)

// observed opens a server on a configuration of these lines, and what observes it.
func observed(t *testing.T, lines ...string) *observers {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "zoo.cfg")
	text := strings.Join(append(lines, "dataDir="+dir+"/data", "clientPort=0", "clientPortAddress=127.0.0.1"), "\n")
	if err := os.WriteFile(file, []byte(strings.ReplaceAll(text, "DIR", dir)), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load(file, nil)
	if err != nil {
		t.Fatal(err)
	}
	o, err := serverOptions(cfg, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	seen, err := observe(cfg, &o, o.Log)
	if err != nil {
		t.Fatal(err)
	}
	if len(seen.listeners) > 0 && cfg.Metrics.SecurePort < 0 {
		if code, _ := get(t, seen, "/metrics", nil); code != http.StatusServiceUnavailable {
			t.Errorf("before the server runs, the endpoint answers %d", code)
		}
	}
	s, err := server.Open(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		seen.close()
	})
	seen.opened(s)
	return seen
}

// get asks the endpoint.
func get(t *testing.T, seen *observers, path string, header http.Header) (code int, body string) {
	t.Helper()
	if len(seen.listeners) == 0 {
		t.Fatal("there is no endpoint")
	}
	r, err := http.NewRequest(http.MethodGet, "http://"+seen.listeners[0].Addr().String()+path, nil)
	if err != nil {
		t.Fatal(err)
	}
	r.Header = header
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// TestMetricsHostNames: where admin.hostNames is set, the metrics are read by its names and those of the server lines,
// and not by those that a stranger may have, whose page a browser would let read them.
func TestMetricsHostNames(t *testing.T) {
	t.Parallel()
	plain := []string{prometheusLine, "metricsProvider.httpHost=127.0.0.1", "metricsProvider.httpPort=0"}
	if seen := observed(t, plain...); seen.hosts != nil {
		t.Errorf("without admin.hostNames other names than %q are refused", seen.hosts)
	}
	seen := observed(t, append(plain, "admin.hostNames=Zk1.example.com")...)
	for host, want := range map[string]int{
		"127.0.0.1:7000": http.StatusOK, "zk1.example.com:7000": http.StatusOK, "localhost": http.StatusOK,
		"zk1": http.StatusOK, "evil.example.com": http.StatusMisdirectedRequest,
		"zk1.example.com.evil.org:7000": http.StatusMisdirectedRequest,
	} {
		r, err := http.NewRequestWithContext(t.Context(), http.MethodGet,
			"http://"+seen.listeners[0].Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("as %s: status %d, want %d", host, answer.StatusCode, want)
		}
	}
}

const prometheusLine = "metricsProvider.className=" + config.PrometheusProvider

// TestEndpointKeys: Apache's class opens the endpoint on the address and port given; the others say what it shows.
func TestEndpointKeys(t *testing.T) {
	t.Parallel()
	if seen := observed(t); len(seen.listeners) > 0 {
		t.Error("without a key there is an endpoint")
	}
	seen := observed(t, prometheusLine, "metricsProvider.httpHost=127.0.0.1", "metricsProvider.httpPort=0")
	code, text := get(t, seen, "/metrics", nil)
	for _, line := range []string{
		"# TYPE znode_count gauge", "# TYPE op_count_create counter\nop_count_create 0", "go_goroutines ",
		"process_open_fds ",
	} {
		if code != http.StatusOK || !strings.Contains(text, line) {
			t.Errorf("status %d, and %q is missing", code, line)
		}
	}
	if host := seen.listeners[0].Addr().String(); !strings.HasPrefix(host, "127.0.0.1:") {
		t.Errorf("the endpoint is at %s", host)
	}
	if code, _ := get(t, seen, "/", nil); code != http.StatusNotFound {
		t.Errorf("status of another path: %d", code)
	}
	seen = observed(t, prometheusLine,
		"metricsProvider.httpHost=127.0.0.1", "metricsProvider.httpPort=0", "metricsProvider.exportJvmInfo=false",
		"metricsProvider.counterSuffix=true")
	if _, text = get(t, seen, "/metrics", nil); strings.Contains(text, "go_goroutines") ||
		!strings.Contains(text, "\nop_count_create_total 0") {
		t.Errorf("the keys have no effect:\n%s", text)
	}
}

// storesOfTests is where there are keys and certificates of nobody; their password is apassword.
const storesOfTests = "../../internal/keystore/testdata/"

// scrapers returns how one asks who trusts the servers' issuer: with the certificate of a client, and without one.
func scrapers(t *testing.T) (known, unknown *http.Client) {
	t.Helper()
	issuer, err := os.ReadFile(storesOfTests + "trust.pem")
	if err != nil {
		t.Fatal(err)
	}
	own, err := tls.LoadX509KeyPair(storesOfTests+"client.pem", storesOfTests+"client.pem")
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(issuer)
	client := func(certs ...tls.Certificate) *http.Client {
		c := &tls.Config{RootCAs: pool, Certificates: certs, ServerName: "localhost"}
		return &http.Client{Transport: &http.Transport{TLSClientConfig: c, DisableKeepAlives: true}}
	}
	return client(own), client()
}

// asks returns the status that a client gets of a page, 0 if there is none.
func asks(t *testing.T, c *http.Client, url string) (status int, shown *x509.Certificate) {
	t.Helper()
	answer, err := c.Get(url)
	if err != nil {
		return 0, nil
	}
	defer answer.Body.Close()
	if answer.TLS != nil {
		shown = answer.TLS.PeerCertificates[0]
	}
	return answer.StatusCode, shown
}

// TestEndpointOverTLS: the endpoint over TLS, with and without certificates of its callers, beside a plain port and on
// one with it; a store that changes counts for the next connection, and the metrics tell when its certificate ends.
func TestEndpointOverTLS(t *testing.T) {
	t.Parallel()
	known, unknown := scrapers(t)
	keys := filepath.Join(t.TempDir(), "keys.pem")
	put := func(name string) {
		t.Helper()
		text, err := os.ReadFile(storesOfTests + name)
		if err == nil {
			err = os.WriteFile(keys, text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("server.pem")
	secure := []string{prometheusLine,
		"metricsProvider.httpHost=127.0.0.1", "metricsProvider.httpsPort=0", "metricsProvider.ssl.keyStore.location=" + keys,
		"metricsProvider.ssl.trustStore.location=" + storesOfTests + "trust.jks",
		"metricsProvider.ssl.trustStore.password=apassword"}
	with := func(lines ...string) *observers { return observed(t, append(lines, secure...)...) }
	url := func(seen *observers, scheme string, port int) string {
		return scheme + "://" + seen.listeners[port].Addr().String() + metricsPath
	}

	seen := with()
	if len(seen.listeners) != 1 {
		t.Errorf("with httpsPort alone there are %d ports", len(seen.listeners))
	}
	status, shown := asks(t, known, url(seen, "https", 0))
	if none, _ := asks(t, unknown, url(seen, "https", 0)); status != http.StatusOK || none != 0 {
		t.Errorf("with a certificate: status %d, without one: %d", status, none)
	}
	if status, _ := asks(t, known, url(seen, "http", 0)); status == http.StatusOK {
		t.Error("the port for TLS answers without")
	}
	put("client.pem")
	for by := time.Now().Add(time.Minute); ; { // the files are looked at once a second
		if _, now := asks(t, known, url(seen, "https", 0)); now == nil { // its name is another one
			break
		}
		if time.Now().After(by) {
			t.Fatalf("the certificate of %s is shown a minute after the store has changed", shown.Subject)
		}
		time.Sleep(50 * time.Millisecond)
	}
	put("server.pem")

	seen = with("metricsProvider.ssl.need.client.auth=false")
	if status, _ := asks(t, unknown, url(seen, "https", 0)); status != http.StatusOK {
		t.Errorf("without a certificate, which is wanted only: status %d", status)
	}
	seen = with("metricsProvider.ssl.need.client.auth=false",
		"metricsProvider.ssl.want.client.auth=false", "metricsProvider.httpPort=0")
	for _, scheme := range []string{"http", "https"} {
		if status, _ := asks(t, unknown, url(seen, scheme, 0)); status != http.StatusOK || len(seen.listeners) != 1 {
			t.Errorf("%s on a port for both: status %d", scheme, status)
		}
	}
	other := strconv.Itoa(freeport.Take(t, 1)[0])
	seen = with("metricsProvider.httpPort=" + other)
	if status, _ := asks(t, unknown, "http://127.0.0.1:"+other+metricsPath); status != http.StatusOK ||
		len(seen.listeners) != 2 {
		t.Errorf("the plain port beside that for TLS: status %d", status)
	}
	if code, text := get(t, &observers{listeners: seen.listeners[1:]}, metricsPath, nil); code != http.StatusOK ||
		!strings.Contains(text, `zooid_certificate_ends_in_seconds{of="metrics endpoint"} 3`) ||
		!strings.Contains(text, `zooid_certificate_ends_in_seconds{of="issuers trusted by the metrics endpoint"} 3`) {
		t.Errorf("no end of the certificates: %s", text)
	}
}

// TestEndpointTLSKeys: the stores' types and passwords, and which protocol, ciphers and certificates the endpoint asks
// for.
func TestEndpointTLSKeys(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, as := range map[string]string{"server.pem": "keys", "trust.jks": "trusted"} { // which tell no type
		text, err := os.ReadFile(storesOfTests + name)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, as), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	both := []string{prometheusLine,
		"metricsProvider.httpHost=127.0.0.1", "metricsProvider.httpsPort=0",
		"metricsProvider.ssl.trustStore.location=" + filepath.Join(dir, "trusted"),
		"metricsProvider.ssl.trustStore.type=JKS", "metricsProvider.ssl.trustStore.password=apassword",
		"metricsProvider.ssl.need.client.auth=false", "metricsProvider.ssl.want.client.auth=false"}
	for _, keys := range [][]string{
		{"metricsProvider.ssl.keyStore.location=" + filepath.Join(dir, "keys"), "metricsProvider.ssl.keyStore.type=PEM",
			"metricsProvider.ssl.enabledProtocols=TLSv1.2"},
		{"metricsProvider.ssl.keyStore.location=" + storesOfTests + "server.jks",
			"metricsProvider.ssl.keyStore.password=apassword",
			"metricsProvider.ssl.ciphersuites=TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384"}, // which TLS 1.3 doesn't have
	} {
		seen := observed(t, append(keys, both...)...)
		known, _ := scrapers(t)
		asked := false
		known.Transport.(*http.Transport).TLSClientConfig.GetClientCertificate =
			func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
				asked = true
				return &tls.Certificate{}, nil
			}
		answer, err := known.Get("https://" + seen.listeners[0].Addr().String() + metricsPath)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if with := answer.TLS; with.Version != tls.VersionTLS12 || asked {
			t.Errorf("with %s: protocol %#x, asked for a certificate: %v", keys, with.Version, asked)
		}
	}
}

// TestMetricsOfTheAdminServer: the admin server has the metrics too, whatever metricsProvider.className is.
func TestMetricsOfTheAdminServer(t *testing.T) {
	t.Parallel()
	seen := observed(t)
	cfg, err := config.Default([]string{"zookeeper.admin.enableServer=true", "zookeeper.admin.serverPort=0"})
	if err != nil {
		t.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	adm, err := startAdmin(cfg, nil, newReloader(nil, cfg, &server.Options{}, log), &server.Options{}, log,
		map[string]http.Handler{metricsPath: &seen.metrics})
	if err != nil {
		t.Fatal(err)
	}
	defer adm.Close()
	answer, err := http.Get("http://" + adm.Addr().String() + metricsPath)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	if text, err := io.ReadAll(answer.Body); err != nil || answer.StatusCode != http.StatusOK ||
		!strings.Contains(string(text), "\nznode_count ") {
		t.Errorf("%v, status %d: %q", err, answer.StatusCode, text)
	}
}

// TestAuditKeys: a server says when it starts and stops, in the file and form that the keys name; one that can't open
// the file doesn't start.
func TestAuditKeys(t *testing.T) {
	dir := t.TempDir()
	cfg := &config.Config{Audit: config.Audit{
		Enabled: true, File: filepath.Join(dir, "audit.log"), FileMiB: 1, FilesKept: 1, Format: "json", Reads: true,
		Logins: true, Refusals: true, Hashes: true,
	}}
	o := server.Options{Audit: auditSettings(&cfg.Audit), Log: slog.New(slog.DiscardHandler)}
	if a := o.Audit; !a.Reads || !a.Logins || !a.Refusals || !a.Hashes {
		t.Errorf("%+v", a)
	}
	var stderr bytes.Buffer
	trail, err := beginTrail(cfg, &o, &stderr)
	if err != nil || trail.log == nil {
		t.Fatal("no audit log: ", err)
	}
	trail.opened(nil)
	trail.opened(nil) // it heals by itself
	trail.end()
	text, err := os.ReadFile(cfg.Audit.File)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(string(text)) {
		var entry struct{ Operation, Result string }
		if err := json.Unmarshal([]byte(line), &entry); err != nil {
			t.Errorf("%v: %s", err, line)
		}
		got = append(got, entry.Operation+" "+entry.Result)
	}
	if want := []string{"serverStart success", "serverStop invoked"}; !slices.Equal(got, want) {
		t.Errorf("%q", got)
	}
	cfg.Audit.File = filepath.Join(dir, "no", "audit.log")
	if _, err := beginTrail(cfg, &o, nil); runbook.Code(err) != "ZD-1125" {
		t.Errorf("%v", err)
	}
	if none, err := beginTrail(cfg, &server.Options{}, nil); err != nil || none.log != nil {
		t.Errorf("%v, %v", none, err)
	}
	cfg.Audit.File, cfg.Audit.Format = "", "text"
	failing, err := beginTrail(cfg, &o, &stderr)
	if err != nil {
		t.Fatal(err)
	}
	failing.opened(errors.New("no disk"))
	failing.end()
	if !strings.HasSuffix(stderr.String(), "operation=serverStart\tresult=failure\n") {
		t.Errorf("%q", stderr.String())
	}
}

// TestLogKeys: the log is text or JSON, from a level on that a signal changes.
func TestLogKeys(t *testing.T) {
	var text bytes.Buffer
	log, _ := newLog(&config.Log{Format: "text", Level: "warn"}, &text)
	log.Info("quiet")
	log.Warn("loud")
	if got := text.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "level=WARN msg=loud") {
		t.Errorf("%q", got)
	}
	text.Reset()
	log, level := newLog(&config.Log{Format: "json", Level: "error"}, &text)
	end := followLevel(level, slog.New(slog.DiscardHandler))
	defer end()
	for _, step := range []struct {
		signal syscall.Signal
		want   slog.Level
	}{{syscall.SIGUSR1, slog.LevelDebug}, {syscall.SIGUSR2, slog.LevelError}} {
		if err := syscall.Kill(os.Getpid(), step.signal); err != nil {
			t.Fatal(err)
		}
		for by := time.Now().Add(time.Minute); level.Level() != step.want; time.Sleep(time.Millisecond) {
			if time.Now().After(by) {
				t.Fatalf("%v leaves the level at %v", step.signal, level.Level())
			}
		}
	}
	log.Error("loud", "a", 1)
	var line map[string]any
	if err := json.Unmarshal(text.Bytes(), &line); err != nil || line["msg"] != "loud" || line["a"] != 1.0 {
		t.Errorf("%v: %q", err, text.String())
	}
	for name, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "warn": slog.LevelWarn, "error": slog.LevelError,
	} {
		if got := logLevel(name); got != want {
			t.Errorf("log.level=%s is %v", name, got)
		}
	}
}
