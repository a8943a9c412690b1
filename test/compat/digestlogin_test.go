package compat

import (
	"context"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// digestUsers is the servers' section of the login file.
const digestUsers = `user_super="secret" user_ann="swordfish" user_bob="päßwort" user_empty=""`

// digestLogins are the client's sections of the login file, and who each must be; "" is nobody.
var digestLogins = []struct{ name, options, who string }{
	{"none", "", ""},
	{"ann", `username="ann" password="swordfish"`, "ann"},
	{"super", `username="super" password="secret"`, "super"},
	{"wide", `username="bob" password="päßwort"`, "bob"},
	{"empty", `username="empty" password=""`, "empty"},
	{"wrong", `username="ann" password="Swordfish"`, ""},
	{"others", `username="ann" password="secret"`, ""},
	{"without", `username="ann" password=""`, ""},
	{"unknown", `username="eve" password="swordfish"`, ""},
	{"again", `username="ann" password="swordfish"`, "ann"}, // after all those refusals
}

// TestDigestLoginFromJava has Apache's Java client log in by SASL DIGEST-MD5 at Apache and at Zooid, which read the
// same login file, under each setting that decides about clients without a login, and compares who they are and what
// they may do.
func TestDigestLoginFromJava(t *testing.T) {
	reference, subject := programs(t)
	dir := t.TempDir()
	file, text := filepath.Join(dir, "jaas.conf"), ""
	section := func(name, options string) {
		text += fmt.Sprintf("%s {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n  %s;\n};\n", name, options)
	}
	section("Server", digestUsers)
	argv := slices.Concat([]string{reference.java}, jvmOptions, []string{
		"-Dorg.slf4j.simpleLogger.defaultLogLevel=off", "-Djava.security.auth.login.config=" + file,
		"-Dzookeeper.fips-mode=false", // in FIPS mode, the default, this client doesn't log in by DIGEST-MD5
		"-cp", reference.classPath + string(filepath.ListSeparator) + dir, "DigestLogins",
	})
	sections := []string{}
	for _, login := range digestLogins {
		section(login.name, login.options)
		sections = append(sections, login.name)
	}
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("javac", "-cp", reference.classPath, "-d", dir,
		filepath.Join("testdata", "DigestLogins.java")).CombinedOutput(); err != nil {
		t.Fatalf("compiling the client: %v; run test/compat/install.sh\n%s", err, out)
	}
	for setting, properties := range map[string]map[string]string{
		"offered":          {"zookeeper.requireClientAuthScheme": "sasl"}, // which no server reads
		"required":         {"zookeeper.sessionRequireClientSASLAuth": "true"},
		"enforced":         {"zookeeper.enforce.auth.enabled": "true", "zookeeper.enforce.auth.schemes": "sasl"},
		"failures allowed": {"zookeeper.allowSaslFailedClients": "true"},
	} {
		t.Run(setting, func(t *testing.T) {
			properties["java.security.auth.login.config"] = file
			opts := Options{
				Config:     map[string]string{"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
				Properties: properties,
			}
			said := [2]string{}
			for i, p := range []Program{reference, subject} {
				s := launched(t, p, opts)
				ctx, cancel := context.WithTimeout(t.Context(), shellPatience)
				defer cancel()
				args := slices.Concat(argv[1:], []string{s.Addr}, sections)
				out, err := exec.CommandContext(ctx, argv[0], args...).CombinedOutput()
				if said[i] = string(out); err != nil {
					t.Fatalf("the client at %s: %v\n%s\nthe server's log ends:\n%s", p.Name, err, out, s.logEnd())
				}
				s.Stop()
			}
			t.Log(said[1])
			if said[0] != said[1] {
				t.Error(difference(t, said[0], said[1]))
			}
			for _, login := range digestLogins { // so that both can't be wrong in the same way
				_, after, _ := strings.Cut(said[1], login.name+":\n")
				lines, _, _ := strings.Cut(after, ":\n") // to the next one's
				_, who, _ := strings.Cut(lines, "sasl: ")
				if who, _, _ = strings.Cut(who, "]"); who != login.who {
					t.Errorf("%s is logged in as %q, want %q:\n%s", login.name, who, login.who, lines)
				}
			}
		})
	}
}

// launched starts a server that may refuse every session without a login, and returns when it serves.
func launched(t *testing.T, p Program, opts Options) *Server {
	t.Helper()
	s := configure(t, p, 1, opts)[0]
	t.Cleanup(s.Stop)
	if err := s.launch(); err != nil {
		t.Fatal(err)
	}
	deadline := time.Now().Add(startPatience)
	for !answersWord(s.Addr) {
		select {
		case <-s.exited:
			t.Fatalf("%s ended; its log ends:\n%s", p.Name, s.logEnd())
		case <-time.After(50 * time.Millisecond):
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s doesn't answer; its log ends:\n%s", p.Name, s.logEnd())
		}
	}
	return s
}

// answersWord reports whether a server says by srvr that it serves.
func answersWord(addr string) bool {
	conn, err := net.DialTimeout("tcp", addr, sessionPatience)
	if err != nil {
		return false
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(sessionPatience))
	fmt.Fprint(conn, "srvr")
	answer, _ := io.ReadAll(conn)
	return strings.Contains(string(answer), "Mode: ")
}
