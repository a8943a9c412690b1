package setup

import (
	"bytes"
	"crypto/x509"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// TestNeverOver: if one of the folders is there nothing is written at all, and nothing is changed.
func TestNeverOver(t *testing.T) {
	t.Parallel()
	for _, there := range []string{"1", "3", "ca", "client"} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, there), []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := Write(Options{Dir: dir, Hosts: []string{"a", "b", "c"}, TLS: true, Now: time.Now()})
		if err == nil || !strings.Contains(err.Error(), "already exists") {
			t.Errorf("%s is there: %v", there, err)
		}
		list, _ := os.ReadDir(dir)
		if b, _ := os.ReadFile(filepath.Join(dir, there)); len(list) != 1 || string(b) != "mine" {
			t.Errorf("%s was there; now there are %v, and it holds %q", there, list, b)
		}
	}
}

// TestSecretsAreTheirs: secrets and keys are their owner's alone, the same secret is on all servers, and each
// certificate names its host.
func TestSecretsAreTheirs(t *testing.T) {
	t.Parallel()
	dir, now := t.TempDir(), time.Now()
	if _, err := Write(Options{
		Dir: dir, Hosts: []string{"zk1.example", "10.0.0.2:3000", "[fd00::3]:3000:3001"}, TLS: true, Now: now,
	}); err != nil {
		t.Fatal(err)
	}
	for name, mode := range map[string]os.FileMode{
		"1": 0o700, "1/data": 0o700, "1/secret": 0o600, "1/server.pem": 0o600, "ca/ca.key": 0o600, "client/client.pem": 0o600,
		"ca": 0o700,
	} {
		if st, err := os.Stat(filepath.Join(dir, name)); err != nil || st.Mode().Perm() != mode {
			t.Errorf("%s: %v, %v", name, st.Mode(), err)
		}
	}
	one, _ := os.ReadFile(filepath.Join(dir, "1", "secret"))
	two, _ := os.ReadFile(filepath.Join(dir, "2", "secret"))
	if len(one) < 100 || !bytes.Equal(one, two) {
		t.Errorf("the secrets are %q and %q", one, two)
	}
	issuer, _ := os.ReadFile(filepath.Join(dir, "1", "ca.pem"))
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(issuer)
	for id, host := range map[string]string{"1": "zk1.example", "2": "10.0.0.2", "3": "fd00::3"} {
		text, _ := os.ReadFile(filepath.Join(dir, id, "server.pem"))
		_, rest := pem.Decode(text)
		block, _ := pem.Decode(rest)
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			t.Fatal(err)
		}
		for _, usage := range []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth} {
			if _, err := cert.Verify(x509.VerifyOptions{
				Roots: pool, DNSName: host, KeyUsages: []x509.ExtKeyUsage{usage},
			}); err != nil {
				t.Errorf("server %s: %v", id, err)
			}
		}
	}
	third, _ := os.ReadFile(filepath.Join(dir, "3", "zoo.cfg"))
	for _, line := range []string{
		"server.1=zk1.example:2888:3888;;2281\n",
		"server.2=10.0.0.2:3000:3888;;2281\n", "server.3=[fd00::3]:3000:3001;;2281\n",
		"secureClientPort=2281\n", "sslQuorum=true\n", "quorum.secretFile=./secret\n",
		"relativePaths=file\n", "security.profile=strict\n", "admin.needClientAuth=true\n",
	} {
		if !strings.Contains(string(third), line) {
			t.Errorf("no line %q in\n%s", line, third)
		}
	}
	for line := range strings.Lines(string(third)) {
		if len(line) > 101 {
			t.Errorf("a line has more than 100 columns: %s", line)
		}
	}
}

// TestRefused: what can't be a server is refused before anything is written.
func TestRefused(t *testing.T) {
	t.Parallel()
	for what, o := range map[string]Options{
		"no host":      {Hosts: []string{"a", ""}},
		"a bad host":   {Hosts: []string{"a b"}},
		"a new line":   {Hosts: []string{"a\nskipACL=yes"}},
		"a bad port":   {Hosts: []string{"a:x"}},
		"bracket":      {Hosts: []string{"[fd00::1"}},
		"client port":  {ClientPort: 70000},
		"too many":     {Hosts: strings.Split(strings.Repeat("a,", ServersMax)+"a", ",")},
		"ports":        {Hosts: []string{"a", "b"}, Ports: []Ports{{1, 2, 3}}},
		"a flag":       {Hosts: []string{"a", "-tls"}},
		"twice":        {Hosts: []string{"a", "A"}},
		"a port twice": {Hosts: []string{"a:3000", "a:3000:4000"}},
	} {
		o.Dir, o.Now = filepath.Join(t.TempDir(), "new"), time.Now()
		if _, err := Write(o); err == nil {
			t.Errorf("%s: written", what)
		}
		if _, err := os.Stat(o.Dir); err == nil {
			t.Errorf("%s: something was written", what)
		}
	}
}

// TestSeveralOnAHost: servers on one host get ports of their own.
func TestSeveralOnAHost(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if _, err := Write(Options{Dir: dir, Hosts: []string{"a:2888", "b", "a:2889"}, Now: time.Now()}); err != nil {
		t.Fatal(err)
	}
	text, _ := os.ReadFile(filepath.Join(dir, "3", "zoo.cfg"))
	for _, line := range []string{
		"server.1=a:2888:3888;2181\n", "server.2=b:2888:3888;2181\n", "server.3=a:2889:3889;2182\n",
		"admin.serverPort=8081\n",
	} {
		if !strings.Contains(string(text), line) {
			t.Errorf("no line %q in\n%s", line, text)
		}
	}
}
