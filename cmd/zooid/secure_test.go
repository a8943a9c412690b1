package main

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/config"
)

// TestLoginMechanism: which login files give a mechanism, none, or an error.
func TestLoginMechanism(t *testing.T) {
	t.Parallel()
	const digest = `{ org.apache.zookeeper.server.auth.DigestLoginModule required user_a="b"; };`
	for name, c := range map[string]struct {
		text, section string
		some          bool
		err           string
	}{
		"empty file":        {"", "Server", false, ""},
		"other section":     {"Client " + digest, "Server", false, ""},
		"section":           {"Server " + digest, "Server", true, ""},
		"named section":     {"Server { }; Mine " + digest, "Mine", true, ""},
		"named and missing": {"Server " + digest, "Mine", false, `no section "Mine"`},
		"malformed":         {"Server {", "Server", false, "jaas.conf:1:"},
		"Kerberos":          {"Server { com.sun.security.auth.module.Krb5LoginModule required; };", "Server", false, "Kerberos"},
	} {
		file := filepath.Join(t.TempDir(), "jaas.conf")
		if err := os.WriteFile(file, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		m, err := loginMechanism(&config.Auth{LoginConfig: file, SASLSection: c.section})
		if (m != nil) != c.some || (err == nil) != (c.err == "") || err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: mechanism %v, %v; want %v, %q", name, m != nil, err, c.some, c.err)
		}
	}
	if _, err := loginMechanism(&config.Auth{
		LoginConfig: filepath.Join(t.TempDir(), "missing"), SASLSection: "Server",
	}); err == nil {
		t.Error("a login file that does not exist is no error")
	}
}

// TestSecureOptions: what a configuration opens.
func TestSecureOptions(t *testing.T) {
	t.Parallel()
	stores := filepath.Join("..", "..", "internal", "keystore", "testdata")
	tls := []string{"zookeeper.ssl.keyStore.location=" + filepath.Join(stores, "server.jks"),
		"zookeeper.ssl.keyStore.password=apassword",
		"zookeeper.ssl.trustStore.location=" + filepath.Join(stores, "trust.jks"),
		"zookeeper.ssl.trustStore.password=apassword"}
	for name, c := range map[string]struct {
		cfg    string
		defs   []string
		listen string // of plain, then of TLS
		unify  bool
		err    string
	}{
		"plain":          {"clientPort=2181\n", nil, "0.0.0.0:2181 ", false, ""},
		"both":           {"clientPort=2181\nsecureClientPort=2281\n", tls, "0.0.0.0:2181 0.0.0.0:2281", false, ""},
		"secure":         {"secureClientPort=2281\nsecureClientPortAddress=127.0.0.1\n", tls, " 127.0.0.1:2281", false, ""},
		"unified":        {"clientPort=2181\nclient.portUnification=true\n", tls, "0.0.0.0:2181 ", true, ""},
		"no stores":      {"secureClientPort=2281\n", nil, "", false, "there is no key store"},
		"no trust store": {"secureClientPort=2281\n", tls[:2], " 0.0.0.0:2281", false, ""},
		"strict, no trust store": {
			"secureClientPort=2281\nsecurity.profile=strict\nX509AuthenticationProvider.superUser=CN=a\n", tls[:2], "", false,
			"there is no trust store",
		},
		"wrong word": {
			"secureClientPort=2281\n", append(tls[:3:3], "zookeeper.ssl.trustStore.password=guess"), "", false, "trust.jks",
		},
	} {
		file := filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(file, []byte("dataDir=/nowhere\n"+c.cfg), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, c.defs)
		if err != nil {
			t.Fatal(err)
		}
		o, err := serverOptions(cfg, slog.New(slog.DiscardHandler))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "guess") {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		if got := strings.Join(o.Listen, " ") + " " + strings.Join(o.Secure.Listen, " "); err != nil || got != c.listen ||
			o.Secure.Unify != c.unify {
			t.Errorf("%s: %q, unified %v, %v; want %q, %v", name, got, o.Secure.Unify, err, c.listen, c.unify)
		}
		if !o.Auth.X509 && name != "plain" {
			t.Errorf("%s: certificates give no identity", name)
		}
	}
}

// TestPeerTLS: what the keys of TLS between servers ask for.
func TestPeerTLS(t *testing.T) {
	t.Parallel()
	stores := filepath.Join("..", "..", "internal", "keystore", "testdata")
	keys := "ssl.quorum.keyStore.location=" + filepath.Join(stores, "server.jks") +
		"\nssl.quorum.keyStore.password=apassword\n"
	trust := "ssl.quorum.trustStore.location=" + filepath.Join(stores, "trust.p12") +
		"\nssl.quorum.trustStore.password=apassword\n"
	for name, c := range map[string]struct {
		cfg                         string
		dials, accepts, plain, asks bool
		err                         string
	}{
		"plain":       {"", false, false, false, false, ""},
		"keys alone":  {keys + trust, false, false, false, false, ""},
		"first step":  {keys + trust + "portUnification=true\n", false, true, true, true, ""},
		"second step": {keys + trust + "portUnification=true\nsslQuorum=true\n", true, true, true, true, ""},
		"last step":   {keys + trust + "sslQuorum=true\n", true, true, false, true, ""},
		"any host": {
			keys + trust + "sslQuorum=true\nssl.quorum.hostnameVerification=false\n", true, true, false, false, "",
		},
		"any dialler": {
			keys + trust + "sslQuorum=true\nssl.quorum.clientHostnameVerification=false\n", true, true, false, false, "",
		},
		"one-way":  {keys + trust + "sslQuorum=true\nssl.quorum.clientAuth=none\n", true, true, false, true, ""},
		"no keys":  {trust + "sslQuorum=true\n", false, false, false, false, "no key store"},
		"no trust": {keys + "sslQuorum=true\nssl.quorum.clientAuth=none\n", false, false, false, false, "no trust store"},
		"no lists": {
			keys + trust + "sslQuorum=true\nssl.quorum.crlFile=missing\n", false, false, false, false, "revocation",
		},
		"old protocol": {
			keys + trust + "sslQuorum=true\nssl.quorum.enabledProtocols=TLSv1\n", false, false, false, false, "broken",
		},
		"wrong word": {
			strings.ReplaceAll(keys, "=apassword", "=guess") + trust + "sslQuorum=true\n", false, false, false, false,
			"server.jks",
		},
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		text := "dataDir=" + dir + "\nclientPort=0\ninitLimit=5\nsyncLimit=2\nserver.1=h1:1:2\nserver.2=h2:1:2\nserver.3=h3:1:2\n" +
			c.cfg
		if err := errors.Join(os.WriteFile(filepath.Join(dir, "myid"), []byte("1\n"), 0o600),
			os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, nil)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		o, err := serverOptions(cfg, slog.New(slog.DiscardHandler))
		if c.err != "" {
			if err == nil || !strings.Contains(err.Error(), c.err) || strings.Contains(err.Error(), "guess") {
				t.Errorf("%s: %v, want %q", name, err, c.err)
			}
			continue
		}
		p := o.PeerTLS
		if err != nil || (p.Client != nil) != c.dials || (p.Server != nil) != c.accepts || p.Plain != c.plain ||
			(p.Verify != nil) != c.accepts || p.Named != c.asks {
			t.Errorf("%s: %+v, %v", name, p, err)
		}
	}
}

// TestClientHostVerification: the names in clients' certificates are checked if that is asked for, and not where
// ssl.hostnameVerification=false switches off all checks of names.
func TestClientHostVerification(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": false, "ssl.clientHostnameVerification=true\n": true, "ssl.hostnameVerification=false\n": false,
		"ssl.clientHostnameVerification=true\nssl.hostnameVerification=false\n": false,
	} {
		file := filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(file, []byte("dataDir=/nowhere\nclientPort=0\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.Load(file, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := portOptions(&cfg.TLS, "port", slog.New(slog.DiscardHandler)).VerifyClientHost; got != want {
			t.Errorf("%q: names are checked: %v", text, got)
		}
	}
}
