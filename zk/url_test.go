package zk

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"math/big"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestParseURL parses valid URLs.
func TestParseURL(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		url, connect, srv string
		opt               Options // SessionTimeout, ReadOnly and the bounds
		tls               bool
	}{
		{url: "zk://zk1", connect: "zk1:2181"},
		{url: "ZK://zk1:2182/", connect: "zk1:2182"},
		{url: "zk://zk1,zk2:2182,/app/x?", connect: "zk1:2181,zk2:2182/app/x"},
		{url: "zk://[2001:db8::1]:2182,[fe80::1%25eth0]/app", connect: "[2001:db8::1]:2182,[fe80::1%eth0]:2181/app"},
		{url: "zk://zk1/a%20b%40c%2525", connect: "zk1:2181/a b@c%25"},
		{url: "zk://zk1?session_timeout=1m30s&read_only=true", connect: "zk1:2181",
			opt: Options{SessionTimeout: 90 * time.Second, ReadOnly: true}},
		{url: "zk://zk1?read_only=false&max_outstanding=1&max_request_bytes=2&max_response_bytes=3&max_unread_events=2147483647",
			connect: "zk1:2181",
			opt:     Options{MaxOutstanding: 1, MaxRequestBytes: 2, MaxResponseBytes: 3, MaxUnreadEvents: 1<<31 - 1}},
		{url: "zks://zk1:2281?tls_server_name=zk.example.com", connect: "zk1:2281", tls: true},
		{url: "zk+srv://example.com", srv: "_zookeeper._tcp.example.com"},
		{url: "zk+srv://example.com./app", srv: "_zookeeper._tcp.example.com.", connect: "/app"},
		{url: "zks+srv://_client._tcp.zk.default.svc/", srv: "_client._tcp.zk.default.svc", tls: true},
	} {
		connect, opt, err := ParseURL(test.url)
		if err != nil || connect != test.connect || opt.SRV != test.srv || (opt.GetTLSConfig != nil) != test.tls ||
			opt.SessionTimeout != test.opt.SessionTimeout || opt.ReadOnly != test.opt.ReadOnly ||
			opt.MaxOutstanding != test.opt.MaxOutstanding || opt.MaxRequestBytes != test.opt.MaxRequestBytes ||
			opt.MaxResponseBytes != test.opt.MaxResponseBytes || opt.MaxUnreadEvents != test.opt.MaxUnreadEvents {
			t.Errorf("%s: %q, %q, %+v, %v", test.url, connect, opt.SRV, opt, err)
		}
	}
}

// TestParseURLRefuses: each mistake has an error that explains it, and no error has a password, wherever in the URL it
// is.
func TestParseURLRefuses(t *testing.T) {
	t.Parallel()
	const secret = "geheim"
	for _, test := range []struct{ url, want string }{
		{"zk1:2181/app", "begins with none of zk://"},
		{"http://zk1", "begins with none of zk://"},
		{"", "begins with none of zk://"},
		{"zk://", "names no server"},
		{"zk:///app", "two slashes come before the first"},
		{"zk://,,", "names no server"},
		{"zk://zk1:0", "port"},
		{"zk://zk1:99999", "port"},
		{"zk://zk1/app/", "chroot"},
		{"zk://zk1/app//b", "chroot"},
		{"zk://zk1/a%2", "%25"},
		{"zk://zk1/a%00b", "chroot"},
		{"zk://zk1%2C", "escape"},
		{"zk://[::1", "bracket"},
		{"zk://zk 1", "blank"},
		{"zk://zk1/app\n", "blank or control character"},
		{"zk://zk1/app#x", "fragment"},
		{"zk://user:" + secret + "@zk1", "Options.Auth"},
		{"zk://user:a/" + secret + "@zk1", "Options.Auth"},
		{"zk://user:a?" + secret + "@zk1", "Options.Auth"},
		{"zk://user:a#" + secret + "@zk1", "Options.Auth"},
		{"zk://user:a b" + secret + "@zk1", "Options.Auth"},
		{"user:" + secret + "@zk1:2181", "Options.Auth"},
		{"zk://zk1?password=" + secret, "parameter 1 of the URL is unknown; there are session_timeout,"},
		{"zk://zk1?read_only=true&password=my&" + secret, "parameter 2 of the URL is unknown"},
		{"zk://zk1?" + secret, "unknown"},
		{"zk://zk1?Read_Only=true", "unknown"},
		{"zk://zk1?read_only=true&read_only=true", "parameter read_only: it is given twice"},
		{"zk://zk1?read_only", "parameter read_only: it has no value"},
		{"zk://zk1?read_only=", "it has no value"},
		{"zk://zk1?read_only=yes", "neither true nor false"},
		{"zk://zk1?session_timeout=10", "isn't a duration"},
		{"zk://zk1?session_timeout=-1s", "isn't a duration"},
		{"zk://zk1?session_timeout=1us", "isn't a duration"},
		{"zk://zk1?session_timeout=9999h", "isn't a duration"},
		{"zk://zk1?session_timeout=1%2", "%25"},
		{"zk://zk1?max_outstanding=0", "isn't a number from 1"},
		{"zk://zk1?max_outstanding=2147483648", "isn't a number from 1"},
		{"zk://zk1?max_outstanding=1&&read_only=true", "parameter 2 of the URL is unknown"},
		{"zk://zk1?tls_ca=/ca.pem", "begin the URL with zks://"},
		{"zks://zk1?tls_cert=/a.pem", "go together"},
		{"zks://zk1?tls_ca=/no/such/file", "tls_ca: open /no/such/file"},
		{"zks://zk1?tls_ca=/a%00b", "zero byte"},
		{"zk+srv://a.example.com,b.example.com", "one domain name"},
		{"zk+srv://example.com:2181", "one domain name"},
		{"zk+srv://[::1]", "one domain name"},
		{"zk+srv://", "names no server"},
		{"zk+srv://exa$mple.com", "isn't a name of SRV records"},
		{"zk+srv://example.com/app/", "chroot"},
		{"zk://" + strings.Repeat("a", urlBytesMax), "at most 65536"},
	} {
		connect, opt, err := ParseURL(test.url)
		if err == nil || !strings.Contains(err.Error(), test.want) || strings.Contains(err.Error(), secret) {
			t.Errorf("%.60s: error %v, want %q", test.url, err, test.want)
		}
		if connect != "" || opt.SRV != "" || opt.GetTLSConfig != nil {
			t.Errorf("%.60s: %q and options beside an error", test.url, connect)
		}
	}
	if _, err := Dial(t.Context(), "zk://user:"+secret+"@zk1"); err == nil || strings.Contains(err.Error(), secret) {
		t.Errorf("Dial: %v", err)
	}
	if connect, _, err := ParseURL("zk://" + strings.Repeat("a", urlBytesMax-len("zk://"))); err != nil || connect == "" {
		t.Errorf("a URL of the largest size: %v", err)
	}
}

// FuzzParseURL: New accepts what ParseURL accepts, and no error repeats text with an @.
func FuzzParseURL(f *testing.F) {
	for _, seed := range []string{
		"zk://zk1:2181,[::1%25eth0]/app%20x?session_timeout=10s&read_only=true", "zks+srv://_a._tcp.b/c?tls_server_name=d",
		"zk://user:password@zk1", "zk+srv://example.com.", "zk://::%25]", "zk://zk1?max_outstanding=%31", "zk://a,,b/%2e%2e",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		if strings.Contains(text, "tls_") {
			return // it would open files
		}
		connect, opt, err := ParseURL(text)
		if err != nil {
			bad, isURL := errors.AsType[*URLError](err)
			if _, isConnect := errors.AsType[*ConnectStringError](err); !isURL && !isConnect {
				t.Errorf("%q: error %T %v", text, err, err)
			}
			if strings.Contains(text, "@") && (bad == nil || !strings.Contains(bad.Reason, "Options.Auth")) &&
				len(text) <= urlBytesMax {
				t.Errorf("%q: error %v, which may show a password", text, err)
			}
			return
		}
		if _, err := parsePlace(connect, opt.SRV); err != nil {
			t.Errorf("%q: New refuses %q: %v", text, connect, err)
		}
		if _, err := opt.complete(); err != nil {
			t.Errorf("%q: New refuses the options: %v", text, err)
		}
	})
}

// writeCertificate makes an authority and its certificate for name, whose files are in dir.
func writeCertificate(t *testing.T, dir, name string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), DNSNames: []string{name}, NotAfter: time.Now().Add(time.Hour), IsCA: true,
		BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	keyDER, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	cert := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
	secret := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: keyDER})
	for file, content := range map[string][]byte{"cert+1.pem": cert, "key.pem": secret} {
		if err := os.WriteFile(filepath.Join(dir, file), content, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pair, err := tls.X509KeyPair(cert, secret)
	if err != nil {
		t.Fatal(err)
	}
	return pair
}

// TestDialOverTLS logs in to a server by the files that a URL names, which are read for each connection.
func TestDialOverTLS(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	pair := writeCertificate(t, dir, "zk.example.com")
	roots := x509.NewCertPool()
	roots.AddCert(pair.Leaf)
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{
		Certificates: []tls.Certificate{pair}, ClientCAs: roots, ClientAuth: tls.RequireAndVerifyClientCert,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer conn.Close()
				answerCanned(conn) // until the client goes
			}()
		}
	}()
	file := func(name string) string { return url.PathEscape(filepath.Join(dir, name)) }
	where := "zks://" + listener.Addr().String() + "/app?session_timeout=20s&tls_server_name=zk.example.com&tls_ca=" +
		file("cert+1.pem") + "&tls_cert=" + file("cert+1.pem") + "&tls_key=" + file("key.pem")
	c, err := Dial(t.Context(), where)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Get(t.Context(), "/a"); err != nil {
		t.Error(err)
	}
	if c.root != "/app" {
		t.Errorf("the chroot is %q", c.root)
	}

	// Files that are wrong are told by their names at once.
	for name, content := range map[string]string{"empty.pem": "", "large.pem": strings.Repeat("x", pemBytesMax+1)} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, test := range []struct{ parameters, want string }{
		{"tls_ca=" + file("empty.pem"), "empty.pem has no certificate"},
		{"tls_ca=" + file("large.pem"), "large.pem has more than 4194304 bytes"},
		{"tls_cert=" + file("key.pem") + "&tls_key=" + file("cert+1.pem"), "tls_cert"},
		{"tls_cert=" + file("cert+1.pem") + "&tls_key=" + file("none.pem"), "none.pem"},
	} {
		_, err := Dial(t.Context(), "zks://zk1?"+test.parameters)
		if err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want %q", test.parameters, err, test.want)
		}
	}
}
