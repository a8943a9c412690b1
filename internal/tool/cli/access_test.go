package cli

import (
	"bytes"
	"crypto/rand"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/keystore"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/scram"
	"github.com/zooid-project/zooid/internal/server"
)

// stores holds keys and certificates of nobody; their password is "apassword".
var stores = filepath.Join("..", "..", "keystore", "testdata")

func store(name string) string { return filepath.Join(stores, name) }

// textFile writes a file and returns its name.
func textFile(t *testing.T, lines ...string) string {
	t.Helper()
	f, err := os.CreateTemp(t.TempDir(), "text")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteString(strings.Join(lines, "\n")); err != nil {
		t.Fatal(err)
	}
	return f.Name()
}

// startSecure runs a server that takes TLS connections only, with client
// certificates, at 127.0.0.1, which its certificate names, and at 127.0.0.2, which
// it does not.
func startSecure(t *testing.T) (named, unnamed string) {
	port, err := keystore.NewPort(keystore.Options{
		Keys: keystore.Store{Location: store("server.pem")}, Trust: keystore.Store{Location: store("trust.pem")},
	})
	if err != nil {
		t.Fatal(err)
	}
	addresses := startServer(t, func(o *server.Options) {
		o.Listen, o.Secure = nil, server.SecureOptions{Listen: []string{"127.0.0.1:0", "127.0.0.2:0"}, TLS: port.Config()}
	})
	return addresses[0], addresses[1]
}

// TestSecureFlags reaches a TLS port by every way to say how.
func TestSecureFlags(t *testing.T) {
	t.Parallel()
	named, unnamed := startSecure(t)
	client, err := os.ReadFile(store("client.pem"))
	if err != nil {
		t.Fatal(err)
	}
	at := bytes.Index(client, []byte("-----BEGIN PRIVATE KEY"))
	certificate, key := textFile(t, string(client[:at])), textFile(t, string(client[at:]))
	password := textFile(t, "apassword", "")
	java := []string{"# as for zkCli", "zookeeper.client.secure = true",
		"zookeeper.clientCnxnSocket=org.apache.zookeeper.ClientCnxnSocketNetty",
		"zookeeper.ssl.keyStore.location=" + store("server.jks"), "zookeeper.ssl.keyStore.password=apassword",
		"zookeeper.ssl.trustStore.location=" + store("trust.jks"), "zookeeper.ssl.trustStore.passwordPath=" + password,
		"zookeeper.ssl.protocol=TLSv1.2"}
	defines := []string{"-server", named}
	for _, line := range java[1:] {
		defines = append(defines, "-D"+strings.ReplaceAll(line, " ", ""))
	}
	pem := []string{"--tls-ca", store("trust.pem"), "--tls-cert=" + store("client.pem")}
	for name, c := range map[string]struct {
		flags     []string
		code      int
		out, errs string
	}{
		"PEM": {append([]string{"-server", named}, pem...), 0, "x509: CN=client", ""},
		"two files": {
			[]string{"-server", named, "--tls-ca", store("trust.pem"), "--tls-cert", certificate, "--tls-key", key}, 0,
			"x509: CN=client", "",
		},
		"stores": {
			[]string{
				"-server", named, "--tls-ca", store("trust.p12"), "--tls-cert", store("server.p12"),
				"--tls-password-file", password,
			}, 0, "x509: CN=localhost", "",
		},
		"properties": {
			[]string{"-server", named, "-client-configuration", textFile(t, java...)}, 0, "x509: CN=localhost", "",
		},
		"defines": {defines, 0, "x509: CN=localhost", ""},
		"host": {
			append([]string{"-server", unnamed, "-timeout", "8000"}, pem...), exitNotConnected, "", "-tls-any-host",
		},
		"any host": {append([]string{"-server", unnamed, "--tls-any-host"}, pem...), 0, "x509: CN=client", ""},
		"any host, Java": {
			append([]string{"-server", unnamed, "-D", "zookeeper.ssl.hostnameVerification=false"}, pem...), 0, "x509: CN=client",
			"",
		},
		"stranger": {[]string{"-server", named, "-timeout", "8000", "--tls"}, exitNotConnected, "", "-tls-ca names"},
		"any host's CA": {
			[]string{"-server", named, "-timeout", "8000", "--tls-any-host"}, exitNotConnected, "", "certificate",
		},
		"no TLS": {[]string{"-server", named, "-timeout", "8000"}, exitNotConnected, "", "add -tls"},
		"no certificate": {
			[]string{"-server", named, "-timeout", "8000", "--tls-ca", store("trust.pem")}, exitNotConnected, "", "-tls-cert",
		},
		"missing":   {[]string{"--tls-ca", "none.pem"}, exitUsage, "", "none.pem"},
		"key alone": {[]string{"--tls-key", key}, exitUsage, "", "-tls-cert"},
		"wrong key": {
			[]string{"--tls-cert", store("server.pem"), "--tls-key", key}, exitUsage, "", "private key does not match",
		},
		"wrong password":  {[]string{"--tls-cert", store("server.p12")}, exitUsage, "", "password is wrong"},
		"revocation":      {[]string{"--tls", "-Dzookeeper.ssl.crl=true"}, exitUsage, "", "revocation"},
		"no such setting": {[]string{"-Dzookeeper.client.secur=true"}, exitUsage, "", `no setting "zookeeper.client.secur"`},
		"neither":         {[]string{"-Dzookeeper.client.secure=yes"}, exitUsage, "", "want true or false"},
		"no value":        {[]string{"-D", "jute.maxbuffer"}, exitUsage, "", "want name=value"},
		"no number":       {[]string{"-D", "jute.maxbuffer=4M"}, exitUsage, "", "want a number of bytes"},
		"no file":         {[]string{"-client-configuration", "none"}, exitUsage, "", "no such file"},
		"bad file":        {[]string{"-client-configuration", textFile(t, "x=1")}, exitUsage, "", `no setting "x"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, code := once("", append(c.flags, "whoami")...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
				t.Errorf("code %d, want %d; printed %q and %q, want %q and %q", code, c.code, out, errs, c.out, c.errs)
			}
			if strings.Contains(errs, "apassword") {
				t.Error("it tells a password")
			}
		})
	}
}

// TestSecureEverywhere shows that four-letter words and the other ensemble of a
// copy take the same way.
func TestSecureEverywhere(t *testing.T) {
	t.Parallel()
	named, _ := startSecure(t)
	other, _ := startSecure(t)
	script := strings.Join([]string{
		"create /a x", "session list", "top", "cp /a " + other + "/b", "diff /a " + other + "/b", "connect " + other,
		"get /b",
	}, "\n")
	out, errs, code := once(script, "-server", named, "--tls-ca", store("trust.pem"), "--tls-cert", store("client.pem"))
	for _, part := range []string{"0x", "standalone", "copied 1 znode", "\nx\n"} {
		if !strings.Contains(out, part) {
			t.Errorf("%q is missing", part)
		}
	}
	if code != 0 || t.Failed() {
		t.Errorf("code %d: %s\n%s", code, out, errs)
	}
}

// TestIdentities takes identities and logins from flags and files.
func TestIdentities(t *testing.T) {
	t.Parallel()
	address := startServer(t, func(o *server.Options) {
		users := map[string]string{"bob": "secret:1"}
		m, err := scram.New(users, []byte("salts"))
		if err != nil {
			t.Fatal(err)
		}
		o.SASL.Mechanism = sasl.Several{sasl.NewDigestMD5(users, "", rand.Reader), m}
	})[0]
	section := `Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="secret:1"; };
Kerberos { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab="nosuch.keytab" principal="a@B"; };
Nobody { org.apache.zookeeper.server.auth.DigestLoginModule required; };`
	jaas := "-Djava.security.auth.login.config=" + textFile(t, section)
	const refused = "hint: check the scheme, the user and the password" // before the first request and after it
	for name, c := range map[string]struct {
		flags     []string
		code      int
		out, errs string
	}{
		"digest": {[]string{"--auth", "digest:u:secret:1", "--auth=digest:v:secret:1"}, 0, "digest: u\ndigest: v\n", ""},
		"file":   {[]string{"--auth-file", textFile(t, "# mine", "", "digest:u:secret:1")}, 0, "digest: u\n", ""},
		"sasl":   {[]string{"--sasl", "bob:secret:1"}, 0, "sasl: bob\n", ""},
		"scram":  {[]string{"--sasl", "bob:secret:1", "-sasl-mechanism", "SCRAM-SHA-256"}, 0, "sasl: bob\n", ""},
		"scram wrong": {
			[]string{"--sasl", "bob:secret:2", "-Dzookeeper.sasl.mechanism=SCRAM-SHA-256"}, exitFailed,
			"", refused,
		},
		"mechanism":  {[]string{"--sasl", "bob:secret:1", "-sasl-mechanism", "PLAIN"}, exitUsage, "", "a mechanism"},
		"sasl file":  {[]string{"--sasl-file", textFile(t, "bob:secret:1\r", "")}, 0, "sasl: bob\n", ""},
		"login file": {[]string{jaas}, 0, "sasl: bob\n", ""},
		"config": {
			[]string{
				"-client-configuration", textFile(t, jaas[2:], "zookeeper.sasl.client=true", "zookeeper.sasl.clientconfig=Client"),
			}, 0, "sasl: bob\n", "",
		},
		"off":         {[]string{jaas, "-Dzookeeper.sasl.client=false"}, 0, "ip: 127.0.0.1\n", ""},
		"refused":     {[]string{"--sasl", "bob:secret:2"}, exitFailed, "", refused},
		"no section":  {[]string{jaas, "-Dzookeeper.sasl.clientconfig=Other"}, exitUsage, "", `no section "Other"`},
		"kerberos":    {[]string{jaas, "-Dzookeeper.sasl.clientconfig=Kerberos"}, exitUsage, "", "nosuch.keytab"},
		"no user":     {[]string{jaas, "-Dzookeeper.sasl.clientconfig=Nobody"}, exitUsage, "", "no username"},
		"no scheme":   {[]string{"--auth", "secret:"}, exitUsage, "", "want scheme:credentials"},
		"no password": {[]string{"--sasl", "secret"}, exitUsage, "", "want user:password"},
		"bad line":    {[]string{"--auth-file", textFile(t, "", "secret")}, exitUsage, "", "line 2: want scheme:credentials"},
		"bad scheme":  {[]string{"--auth", "nosuch:secret"}, exitFailed, "", refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			out, errs, code := once("", append(append([]string{"-server", address}, c.flags...), "whoami")...)
			if code != c.code || !strings.Contains(out, c.out) || !strings.Contains(errs, c.errs) {
				t.Errorf("code %d, want %d; printed %q and %q, want %q and %q", code, c.code, out, errs, c.out, c.errs)
			}
			if strings.Contains(out+errs, "secret") {
				t.Errorf("it tells a password: %s%s", out, errs)
			}
		})
	}
}

// TestProfileReaches: a profile, and the environment alone, say all that a flag can, to the shell and to tools that
// take its flags.
func TestProfileReaches(t *testing.T) {
	named, _ := startSecure(t)
	there := func(name string) string {
		path, err := filepath.Abs(store(name))
		if err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Setenv("ZOOID_CONFIG", textFile(t, "p.server="+named+"/app", "p.tls.ca="+there("trust.pem"),
		"p.tls.cert="+there("client.pem"), "s.server="+named, "s.tls.ca="+there("trust.pem"),
		"s.tls.cert="+there("client.pem")))
	who := func(flags ...string) (int, string) {
		out, errs, code := once("", append(flags, "whoami")...)
		return code, out + errs
	}
	if code, text := who("-profile", "p"); code != 0 || !strings.Contains(text, "x509: CN=client") {
		t.Errorf("by the profile: %d, %s", code, text)
	}
	for _, line := range [][]string{
		{"whoami", "-profile", "p"}, {"limits", "list", "--profile=s"}, {"ls", "-profile", "s", "/"},
		{"whoami", "-server", named, "-tls-ca", store("trust.pem"), "-tls-cert", store("client.pem")},
	} {
		if out, errs, code := once("", line...); code != 0 {
			t.Errorf("flags behind the command, %q: %d, %s%s", line, code, out, errs)
		}
	}
	out, errs, code := once("", "ls", "/", "-profile", "p")
	if code != exitFailed || !strings.Contains(errs, "the chroot of") {
		t.Errorf("a chroot that doesn't exist: %d, %s%s", code, out, errs)
	}
	// The values of a command's own flags, and what follows --, are its.
	if out, errs, code := once("", "find", "-profile", "s", "-name", "-profile"); code != exitDiffers {
		t.Errorf("a value that looks like a flag: %d, %s%s", code, out, errs)
	}
	out, errs, code = once("", "ls", "-profile", "s", "--", "-profile")
	if code == 0 || !strings.Contains(errs, "-profile") {
		t.Errorf("an argument that looks like a flag: %d, %s%s", code, out, errs)
	}
	if code, text := who("-profile", "q"); code != exitUsage || !strings.Contains(text, "has no profile q; it has p") {
		t.Errorf("by a profile that isn't there: %d, %s", code, text)
	}
	if code, text := who("-profile", "p", "-profile", "q"); code != exitUsage {
		t.Errorf("by two profiles: %d, %s", code, text)
	}
	var tool Access
	rest, ok, err := tool.Take([]string{"--profile=p", "zoo.cfg"})
	servers, bad := tool.Servers()
	if !ok || err != nil || bad != nil || len(rest) != 1 || servers != named || !tool.Secure() {
		t.Errorf("a tool takes %t, %v, %v, %q, %q, %t", ok, err, bad, rest, servers, tool.Secure())
	}
	t.Setenv("ZOOID_SERVER", named)
	t.Setenv("ZOOID_TLS_CA", store("trust.pem"))
	t.Setenv("ZOOID_TLS_CERT", store("server.pem"))
	if code, text := who(); code != 0 || !strings.Contains(text, "x509: CN=localhost") {
		t.Errorf("by the environment: %d, %s", code, text)
	}
	if code, text := who("-profile", "p"); code != 0 || !strings.Contains(text, "x509: CN=client") {
		t.Errorf("by the profile before the environment: %d, %s", code, text)
	}
	if code, text := who("-tls-cert", store("client.pem")); code != 0 || !strings.Contains(text, "x509: CN=client") {
		t.Errorf("by the flag before the environment: %d, %s", code, text)
	}
}
