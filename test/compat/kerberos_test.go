package compat

import (
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/test/compat/kdc"
)

// kdcPrincipal is the servers'.
const kdcPrincipal = "zookeeper/localhost@" + kdc.Realm

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
	argv func(k *kdc.KDC, by ticketOf, addr string) []string
}

// kerberosClients are Java's, Zooid's, kazoo, and the C client.
func kerberosClients(t *testing.T, reference, subject Program) []kerberosClient {
	t.Helper()
	inC, library := filepath.Join(t.TempDir(), "kerberos"), filepath.Join(cacheFolder(t), "cclient")
	if out, err := exec.Command("gcc",
		"-std=gnu11", "-Wall", "-Wextra", "-DTHREADED", "-DHAVE_CYRUS_SASL_H", "-I", library, "-o", inC,
		filepath.Join("testdata", "kerberos.c"), filepath.Join(library, "libzookeeper.a"), "-lsasl2", "-lpthread", "-lm").
		CombinedOutput(); err != nil {
		t.Fatalf("compiling the C client: %v; run test/compat/install.sh\n%s", err, out)
	}
	script, err := filepath.Abs(filepath.Join("testdata", "kazoologin.py"))
	if err != nil {
		t.Fatal(err)
	}
	return []kerberosClient{
		{"Java's client", func(k *kdc.KDC, by ticketOf, addr string) []string {
			return append(append([]string{reference.java}, jvmOptions...),
				"-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Djava.security.krb5.conf="+k.File("krb5.conf"),
				"-Djava.security.auth.login.config="+by.jaas, "-Dzookeeper.server.principal="+kdcPrincipal,
				"-cp", reference.classPath, shellMain, "-server", addr, "-waitforconnection", "whoami")
		}},
		{"Zooid's client", func(k *kdc.KDC, by ticketOf, addr string) []string {
			return []string{
				subject.zooid, "cli", "-Djava.security.auth.login.config=" + by.jaas,
				"-Dzookeeper.server.principal=" + kdcPrincipal, "-server", addr, "whoami",
			}
		}},
		{"kazoo", func(_ *kdc.KDC, _ ticketOf, addr string) []string {
			// The server's principal comes from the name that is connected to.
			return []string{
				filepath.Join(cacheFolder(t), "kazoo", "bin", "python"), script,
				"localhost" + addr[strings.LastIndexByte(addr, ':'):],
			}
		}},
		{"the C client", func(_ *kdc.KDC, _ ticketOf, addr string) []string { return []string{inC, addr} }},
	}
}

// TestKerberos has clients log in by tickets of a real KDC, at Apache and at Zooid, and compares what the servers call
// them.
func TestKerberos(t *testing.T) {
	reference, subject := programs(t)
	k := kdc.Start(t, "zookeeper/localhost", "ann", "bob/box")
	k.Run(t, "kinit", "-k", "-t", k.Keytab("ann"), "ann@"+kdc.Realm)
	jaas := func(name, options string) string {
		return k.Write(t, name+".jaas",
			fmt.Sprintf("%s { com.sun.security.auth.module.Krb5LoginModule required %s; };\n", name[:6], options))
	}
	byKeytab := func(principal string) string {
		return fmt.Sprintf(`useKeyTab=true storeKey=true useTicketCache=false keyTab="%s" principal="%s@%s"`,
			k.Keytab(principal), principal, kdc.Realm)
	}
	keytabOf := func(principal string) []string {
		return []string{"KRB5_CLIENT_KTNAME=FILE:" + k.Keytab(principal), "KRB5CCNAME=MEMORY:" + principal}
	}
	tickets := map[string]ticketOf{
		"ann by keytab": {jaas("Client1", byKeytab("ann")), keytabOf("ann")},
		"bob by keytab": {jaas("Client2", byKeytab("bob/box")), keytabOf("bob/box")},
		"ann by kinit": {
			jaas("Client3", fmt.Sprintf(`useTicketCache=true doNotPrompt=true ticketCache="%s"`, k.File("cache"))), nil,
		},
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
				"java.security.auth.login.config": jaas("Server", byKeytab("zookeeper/localhost")),
				"java.security.krb5.conf":         k.File("krb5.conf"),
			}})
			for who, by := range tickets {
				for _, client := range clients {
					ctx, cancel := context.WithTimeout(t.Context(), shellPatience)
					out, err := runGroup(ctx, k.Folder, append(slices.Clone(k.Env), by.env...), client.argv(k, by, s.Addr))
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
