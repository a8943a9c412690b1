package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestRisks: what is open to other hosts is told, and nothing else.
func TestRisks(t *testing.T) {
	t.Parallel()
	const three = "initLimit=10\nsyncLimit=5\nserver.1=h1:1:2\nserver.2=h2:1:2\nserver.3=h3:1:2\n"
	for text, want := range map[string]string{
		"clientPort=2181\nclientPortAddress=127.0.0.1\n": "",
		"secureClientPort=2281\n":                        "",
		"clientPort=2181\n":                              "clientPort, until its ACL",
		"clientPort=2181\nenforce.auth.enabled=true\nenforce.auth.schemes=digest\n":                         "clientPort, until its ACL",
		"clientPort=2181\nenforce.auth.enabled=true\nenforce.auth.schemes=x509,ip\nsecureClientPort=2281\n": "clientPort, until its ACL",
		"clientPort=2181\nenforce.auth.enabled=true\nenforce.auth.schemes=x509\nsecureClientPort=2281\n":    "clientPort",
		"secureClientPort=2281\nsession.apachePasswords=true\n":                                             "session.apachePasswords",
		"secureClientPort=2281\nskipACL=yes\n":                                                              "skipACL",
		"secureClientPort=2281\nadmin.enableServer=true\nadmin.plainRemote=true\n":                          "admin.plainRemote",
		"secureClientPort=2281\n" + three:                                                                   "peers, readable",
		"secureClientPort=2281\nsslQuorum=true\n" + three:                                                   "",
		"secureClientPort=2281\nquorum.secretFile=/secret\n" + three:                                        "readable",
		"secureClientPort=2281\n" +
			strings.NewReplacer("h1", "127.0.0.1", "h2", "127.0.0.2", "h3", "localhost").Replace(three): "",
	} {
		dir := t.TempDir()
		file := filepath.Join(dir, "zoo.cfg")
		if err := os.WriteFile(filepath.Join(dir, "myid"), []byte("1\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte("dataDir="+dir+"\n"+text), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(file, nil)
		if err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		told := strings.Join(c.Risks(), "; ")
		if c.PeersUnproved() {
			told += "peers"
		}
		if c.PeersReadable() {
			told += "readable"
		}
		if open := "until its ACL"; strings.Contains(told, open) != strings.Contains(want, open) {
			t.Errorf("%q: %s; want %q", text, told, want)
		}
		parts := strings.Split(want, ", ")
		if (told == "") != (want == "") {
			t.Errorf("%q: %s; want %q", text, told, want)
		}
		for _, part := range parts {
			if !strings.Contains(told, part) {
				t.Errorf("%q: %s; want %q", text, told, want)
			}
		}
	}
}

// TestStrictCommonNames: under the strict profile a common name is no host's, and can't be made one.
func TestStrictCommonNames(t *testing.T) {
	t.Parallel()
	base := "dataDir=/d\nsecureClientPort=2281\nsecurity.profile=strict\nX509AuthenticationProvider.superUser=CN=a\n"
	for line, want := range map[string]string{
		"": "", "ssl.hostnameInCommonName=false": "", "ssl.hostnameInCommonName=true": "ssl.hostnameInCommonName",
		"ssl.quorum.hostnameInCommonName=true": "ssl.quorum.hostnameInCommonName",
	} {
		props, bad := parseProperties([]byte(base + line + "\n"))
		if bad != nil {
			t.Fatal(bad)
		}
		c, err := newLoader("").run(props, nil)
		if want == "" && (err != nil || c.TLS.CommonName || c.Quorum.TLS.CommonName) {
			t.Errorf("%s: %v", line, err)
		}
		if want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", line, err)
		}
	}
	c, err := Default(nil)
	if err != nil || !c.TLS.CommonName || !c.Quorum.TLS.CommonName {
		t.Errorf("the default: %v", err)
	}
}
