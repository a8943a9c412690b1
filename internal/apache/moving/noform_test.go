//go:build unix

package moving

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/jute"
)

// TestNoFormLater: each key that permits what has no form at Apache is told, and no other.
func TestNoFormLater(t *testing.T) {
	t.Parallel()
	quiet := []string{"clientPort=2181", "session.apachePasswords=true", "extendedTypesEnabled=false"}
	for _, c := range []struct{ line, says string }{
		{"", ""},
		{"session.apachePasswords=false", "sessions opened in Zooid end when you go back"},
		{"extendedTypesEnabled=true", "znodes with a TTL may be created"},
		{"DigestAuthenticationProvider.digestAlg=SHA-256", "hashed by SHA-256: Apache needs the same"},
		{"authProvider.badge=exec:/bin/true", "ACLs of these schemes admit nobody in Apache, unless it has a provider for them: badge"},
		{"localSessionsEnabled=true", "local sessions"},
	} {
		text, key := "dataDir="+t.TempDir()+"\n", strings.SplitAfter(c.line, "=")[0]
		for _, line := range quiet {
			if key == "" || !strings.HasPrefix(line, key) {
				text += line + "\n"
			}
		}
		file := filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(file, []byte(text+c.line+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		cfg, err := config.LoadAny(file, nil)
		if err != nil {
			t.Fatalf("%s: %v", c.line, err)
		}
		lines := noFormLater(cfg)
		if c.says == "" && len(lines) != 0 || c.says != "" && (len(lines) != 1 || !strings.Contains(lines[0], c.says)) {
			t.Errorf("%s: %q; want %q", c.line, lines, c.says)
		}
	}
}

// TestBackCheck: zooid migrate back -check tells what a server's data and configuration have that has no form at
// Apache, and that there is no port at which the server can be asked.
func TestBackCheck(t *testing.T) {
	t.Parallel()
	theirs, dir := t.TempDir(), t.TempDir()
	_, err := files.Write(theirs, &files.Content{
		Zxid: 0x500000007, Epoch: 5,
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, path := range []string{
				"/", "/zookeeper", "/zookeeper/config", "/zookeeper/limits", "/zookeeper/policy", "/zookeeper/quota",
			} {
				if err := visit(path, nil, jute.WorldACL(jute.PermAll), &files.Stat{}); err != nil {
					return err
				}
			}
			if err := visit("/large", make([]byte, 0xfffff+1), []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "bearer", ID: "x"}}},
				&files.Stat{}); err != nil {
				return err
			}
			return visit("/ttl", nil, nil, &files.Stat{Owner: files.Owner{TTL: 9}.Stored()})
		},
	})
	if err == nil {
		_, err = apache.Import(apache.ImportOptions{Apache: files.Options{Dir: theirs}, Dir: dir})
	}
	if err != nil {
		t.Fatal(err)
	}
	check := func(lines string) (int, string) {
		t.Helper()
		file := filepath.Join(t.TempDir(), "zoo.cfg")
		if err := os.WriteFile(file, fmt.Appendf(nil, "dataDir=%s\n%s", dir, lines), 0o600); err != nil {
			t.Fatal(err)
		}
		var out bytes.Buffer
		code := run([]string{"migrate", "back", "-check", file}, &out, &out)
		return code, out.String()
	}
	code, said := check("clientPort=2181\n")
	for _, want := range []string{
		"1 znodes have a TTL", "1 znodes have more than 1048575 bytes", "plain znodes: /zookeeper/limits /zookeeper/policy",
		"for them: bearer", "session.apachePasswords=true",
	} {
		if !strings.Contains(said, "the way back: ") || !strings.Contains(said, want) {
			t.Errorf("no %q in %q", want, said)
		}
	}
	if code != 0 || strings.Contains(said, "have passwords issued by Zooid") {
		t.Errorf("exit %d, %q", code, said)
	}
	if code, said := check("secureClientPort=2281\nssl.clientAuth=none\nssl.keyStore.location=x.pem\n"); code != 1 ||
		!strings.Contains(said, "plaintext client port, and there is none") {
		t.Errorf("without a plaintext port: exit %d, %q", code, said)
	}
	if code, said := check("clientPort=x\n"); code != 1 {
		t.Errorf("a broken zoo.cfg: exit %d, %q", code, said)
	}
}
