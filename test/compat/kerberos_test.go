package compat

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

const (
	kdcRealm     = "ZOOID.TEST"
	kdcPrincipal = "zookeeper/localhost@" + kdcRealm
)

// kdc is a running Kerberos KDC, with files that say how to reach it.
type kdc struct {
	folder  string
	address string
	env     []string
}

// startKDC runs MIT's KDC on loopback, with principals whose keys are in NAME.keytab, "/"
// being "-".
func startKDC(t *testing.T, principals ...string) *kdc {
	t.Helper()
	k := &kdc{folder: t.TempDir()}
	k.env = []string{"KRB5_CONFIG=" + k.file("krb5.conf"), "KRB5_KDC_PROFILE=" + k.file("kdc.conf"), "KRB5CCNAME=FILE:" + k.file("cache")}
	for attempt := 1; ; attempt++ {
		k.configure(t)
		if attempt == 1 {
			k.run(t, "kdb5_util", "create", "-s", "-P", "of this test", "-r", kdcRealm)
			for _, p := range principals {
				k.run(t, "kadmin.local", "-r", kdcRealm, "addprinc", "-randkey", p)
				k.run(t, "kadmin.local", "-r", kdcRealm, "ktadd", "-k", k.keytab(p), p)
			}
		}
		err := k.start(t)
		if err == nil {
			return k
		}
		if attempt == startAttempts { // another process took the port
			t.Fatal(err)
		}
	}
}

// configure writes the files, with a port that is free. The KDC can't listen at one that
// package freeport holds.
func (k *kdc) configure(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	k.address = l.Addr().String()
	l.Close()
	k.write(t, "krb5.conf", fmt.Sprintf(`[libdefaults]
 default_realm = %s
 dns_lookup_kdc = false
 dns_lookup_realm = false
 rdns = false
 udp_preference_limit = 1
[realms]
 %s = {
  kdc = %s
 }
`, kdcRealm, kdcRealm, k.address))
	k.write(t, "kdc.conf", fmt.Sprintf(`[kdcdefaults]
 kdc_listen = %s
 kdc_tcp_listen = %s
[realms]
 %s = {
  database_name = %s
  key_stash_file = %s
  supported_enctypes = aes256-cts-hmac-sha1-96:normal
 }
`, k.address, k.address, kdcRealm, k.file("principal"), k.file("stash")))
}

// start runs the KDC until the test ends.
func (k *kdc) start(t *testing.T) error {
	t.Helper()
	process := exec.Command(sbin(t, "krb5kdc"), "-n", "-r", kdcRealm, "-P", k.file("pid"))
	process.Env = append(os.Environ(), k.env...)
	var out bytes.Buffer
	process.Stdout, process.Stderr = &out, &out
	if err := process.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- process.Wait() }()
	stop := func() { process.Process.Kill(); ended <- <-ended }
	for end := time.Now().Add(startPatience); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		if conn, err := net.Dial("tcp", k.address); err == nil {
			conn.Close()
			t.Cleanup(stop)
			return nil
		}
		select {
		case err := <-ended:
			return fmt.Errorf("the KDC has ended: %w\n%s", err, out.String())
		default:
		}
	}
	stop()
	return fmt.Errorf("the KDC doesn't answer:\n%s", out.String())
}

func (k *kdc) file(name string) string { return filepath.Join(k.folder, name) }

func (k *kdc) keytab(principal string) string {
	return k.file(strings.ReplaceAll(principal, "/", "-") + ".keytab")
}

func (k *kdc) write(t *testing.T, name, text string) string {
	t.Helper()
	if err := os.WriteFile(k.file(name), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return k.file(name)
}

func (k *kdc) run(t *testing.T, name string, args ...string) {
	t.Helper()
	command := exec.Command(sbin(t, name), args...)
	command.Env = append(os.Environ(), k.env...)
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}

// sbin finds a program that is not on every user's path.
func sbin(t *testing.T, name string) string {
	t.Helper()
	for _, folder := range []string{"/usr/sbin", "/usr/bin"} {
		if _, err := os.Stat(filepath.Join(folder, name)); err == nil {
			return filepath.Join(folder, name)
		}
	}
	t.Fatalf("%s isn't installed; run test/compat/install.sh", name)
	return ""
}

var loggedInAs = regexp.MustCompile(`(?m)^sasl: *(\S+)`)

// A ticketOf is how a client comes by its ticket: by a login file for Java's client and Zooid's, by the environment for
// those that use MIT's library.
type ticketOf struct {
	jaas string
	env  []string
}

// kerberosClient is a command that logs in at a server and prints who it is.
type kerberosClient struct {
	name string
	argv func(k *kdc, by ticketOf, addr string) []string
}

// kerberosClients are Java's, Zooid's, kazoo, and the C client.
func kerberosClients(t *testing.T, reference, subject Program) []kerberosClient {
	t.Helper()
	inC, library := filepath.Join(t.TempDir(), "kerberos"), filepath.Join(cacheFolder(t), "cclient")
	if out, err := exec.Command("gcc", "-std=gnu11", "-Wall", "-Wextra", "-DTHREADED", "-DHAVE_CYRUS_SASL_H", "-I", library, "-o", inC,
		filepath.Join("testdata", "kerberos.c"), filepath.Join(library, "libzookeeper.a"), "-lsasl2", "-lpthread", "-lm").CombinedOutput(); err != nil {
		t.Fatalf("compiling the C client: %v; run test/compat/install.sh\n%s", err, out)
	}
	script, err := filepath.Abs(filepath.Join("testdata", "kazoologin.py"))
	if err != nil {
		t.Fatal(err)
	}
	return []kerberosClient{
		{"Java's client", func(k *kdc, by ticketOf, addr string) []string {
			return append(append([]string{reference.java}, jvmOptions...), "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.security.krb5.conf="+k.file("krb5.conf"),
				"-Djava.security.auth.login.config="+by.jaas, "-Dzookeeper.server.principal="+kdcPrincipal, "-cp", reference.classPath, shellMain, "-server", addr, "-waitforconnection", "whoami")
		}},
		{"Zooid's client", func(k *kdc, by ticketOf, addr string) []string {
			return []string{subject.zooid, "cli", "-Djava.security.auth.login.config=" + by.jaas, "-Dzookeeper.server.principal=" + kdcPrincipal, "-server", addr, "whoami"}
		}},
		{"kazoo", func(_ *kdc, _ ticketOf, addr string) []string {
			// The server's principal comes from the name that is connected to.
			return []string{filepath.Join(cacheFolder(t), "kazoo", "bin", "python"), script, "localhost" + addr[strings.LastIndexByte(addr, ':'):]}
		}},
		{"the C client", func(_ *kdc, _ ticketOf, addr string) []string { return []string{inC, addr} }},
	}
}

// TestKerberos has clients log in by tickets of a real KDC, at Apache and at Zooid, and compares what the servers call
// them.
func TestKerberos(t *testing.T) {
	reference, subject := programs(t)
	k := startKDC(t, "zookeeper/localhost", "ann", "bob/box")
	k.run(t, "kinit", "-k", "-t", k.keytab("ann"), "ann@"+kdcRealm)
	jaas := func(name, options string) string {
		return k.write(t, name+".jaas", fmt.Sprintf("%s { com.sun.security.auth.module.Krb5LoginModule required %s; };\n", name[:6], options))
	}
	byKeytab := func(principal string) string {
		return fmt.Sprintf(`useKeyTab=true storeKey=true useTicketCache=false keyTab="%s" principal="%s@%s"`, k.keytab(principal), principal, kdcRealm)
	}
	keytabOf := func(principal string) []string {
		return []string{"KRB5_CLIENT_KTNAME=FILE:" + k.keytab(principal), "KRB5CCNAME=MEMORY:" + principal}
	}
	tickets := map[string]ticketOf{
		"ann by keytab": {jaas("Client1", byKeytab("ann")), keytabOf("ann")},
		"bob by keytab": {jaas("Client2", byKeytab("bob/box")), keytabOf("bob/box")},
		"ann by kinit":  {jaas("Client3", fmt.Sprintf(`useTicketCache=true doNotPrompt=true ticketCache="%s"`, k.file("cache"))), nil},
	}
	clients := kerberosClients(t, reference, subject)
	for setting, config := range map[string]map[string]string{
		"default":  {},
		"removing": {"kerberos.removeHostFromPrincipal": "true", "kerberos.removeRealmFromPrincipal": "true"},
		"rules":    {"security.auth_to_local": "RULE:[2:$1;$2](.*;box)s/;box$// RULE:[1:$1](a.*)s/ann/anna/ DEFAULT", "kerberos.removeRealmFromPrincipal": "true"},
	} {
		seen := map[string]string{}
		for _, server := range []Program{reference, subject} {
			settings := map[string]string{"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}
			for name, value := range config {
				settings[name] = value
			}
			s := Start(t, server, Options{Config: settings, Properties: map[string]string{
				"java.security.auth.login.config": jaas("Server", byKeytab("zookeeper/localhost")), "java.security.krb5.conf": k.file("krb5.conf"),
			}})
			for who, by := range tickets {
				for _, client := range clients {
					ctx, cancel := context.WithTimeout(t.Context(), shellPatience)
					out, err := runGroup(ctx, k.folder, append(slices.Clone(k.env), by.env...), client.argv(k, by, s.Addr))
					cancel()
					name := ""
					if m := loggedInAs.FindStringSubmatch(out); m != nil {
						name = m[1]
					}
					switch want, known := seen[who]; { // by whichever client
					case name == "":
						t.Errorf("%s: %s by %s at %s isn't logged in: %v\n%s", setting, who, client.name, server.Name, err, out)
					case !known:
						seen[who] = name
					case want != name:
						t.Errorf("%s: %s by %s at %s is %s, and was %s", setting, who, client.name, server.Name, name, want)
					}
				}
			}
			s.Stop()
		}
		fmt.Printf("%s: %s: %v\n", t.Name(), setting, seen)
	}
}
