package moving

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/test/compat/kdc"
)

// requireLogins has Apache's servers log in at each other, and take no others.
const requireLogins = "quorum.auth.enableSasl=true\nquorum.auth.learnerRequireSasl=true\nquorum.auth.serverRequireSasl=true\n"

// A wrongLogin is what zooid migrate back says to observers that can't log in.
type wrongLogin struct {
	says  string
	flags []string
}

// TestWayBackWithLogins leads observers that log in by DIGEST-MD5 and take no leader that doesn't prove that it knows
// the password. Zooid migrate back without logins, with another password or another user gets none of them. With the
// right ones they follow, and have everything in the end.
func TestWayBackWithLogins(t *testing.T) {
	need(t)
	for _, version := range tried([]string{"3.8.4", "3.9.5"}, "3.9.5") {
		t.Run(version, func(t *testing.T) {
			w, dir := newWayBack(t, version), t.TempDir()
			write := func(name, text string) string {
				t.Helper()
				path := filepath.Join(dir, name)
				if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
					t.Fatal(err)
				}
				return path
			}
			jaas := write("jaas", `QuorumServer { org.apache.zookeeper.server.auth.DigestLoginModule required user_peer="se cret"; };
QuorumLearner { org.apache.zookeeper.server.auth.DigestLoginModule required username="peer" password="se cret"; };`)
			w.apache.options = append(w.apache.options, "-Djava.security.auth.login.config="+jaas, "-Dzookeeper.fips-mode=false")
			if version == "3.9.5" {
				w.apache.options = append(w.apache.options, "-cp", javaClient(t)) // with netty, which logins need
			}
			right := []string{"-peer-sasl-user", "peer", "-peer-sasl-password-file", write("password", "se cret\n")}
			w.loggedIn(right, []wrongLogin{
				{"logs in by SASL, for which the", nil},
				{`wrong password for user "peer"`, []string{
					"-peer-sasl-user", "peer", "-peer-sasl-password-file", write("another", "secret\n"),
				}},
				{`there is no user "peer"`, []string{"-peer-sasl-user", "other", "-peer-sasl-password-file", right[3]}},
			})
			// Observers that don't log in aren't led.
			w.lines = ""
			w.configure(true)
			w.apache.start(0)
			w.startZooid(quietly)
			w.startLead(right...)
			if !awaited(func() bool { return strings.Contains(w.lead.output.String(), "observer 1 doesn't log in") }) {
				t.Errorf("of an observer that doesn't log in it says:\n%s", w.lead.output)
			}
			if text := w.lead.output.String(); strings.Contains(text, "follows in epoch") {
				t.Errorf("it follows:\n%s", text)
			}
		})
	}
}

// TestWayBackWithTickets is TestWayBackWithLogins by Kerberos.
func TestWayBackWithTickets(t *testing.T) {
	need(t)
	const host = "127.0.0.1"
	zooid, observer, stranger := "zkquorum/"+host, "observer/"+host, "stranger/"+host
	k := kdc.Start(t, zooid, observer, stranger)
	options := func(principal string) string {
		return fmt.Sprintf(`{ com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true storeKey=true useTicketCache=false keyTab="%s" principal="%s@%s"; };`,
			k.Keytab(principal), principal, kdc.Realm)
	}
	w := newWayBack(t, "3.9.5")
	jaas := k.Write(t, "jaas", "QuorumServer "+options(zooid)+"\nQuorumLearner "+options(observer))
	w.apache.options = append(w.apache.options, "-cp", javaClient(t), "-Djava.security.auth.login.config="+jaas,
		"-Djava.security.krb5.conf="+k.File("krb5.conf"))
	flags := func(keytab, observers string) []string {
		return []string{
			"-peer-sasl-keytab", k.Keytab(keytab), "-peer-sasl-principal", keytab + "@" + kdc.Realm, "-peer-sasl-observers",
			observers + "@" + kdc.Realm,
		}
	}
	w.lines = "quorum.auth.kerberos.servicePrincipal=zkquorum/_HOST\n"
	w.loggedIn(flags(zooid, observer), []wrongLogin{
		{"isn't one of the observers", flags(zooid, stranger)},
		{"log in by GSSAPI", flags(stranger, observer)},
	})
}

// loggedIn has observers log in: none follows with the wrong flags, both do with the right ones, and have everything
// when Zooid has stopped.
func (w *wayBack) loggedIn(right []string, wrong []wrongLogin) {
	t := w.t
	t.Helper()
	w.lines += requireLogins
	w.startZooid(quietly)
	l := startLoad(w.zooid.addr, *firstSeed, true)
	l.goOn(t, 500)
	w.configure(true)
	w.apache.start(0)
	w.apache.start(1)
	for _, one := range wrong {
		w.startLead(one.flags...)
		if !awaited(func() bool { return strings.Contains(w.lead.output.String(), one.says) }) {
			t.Errorf("%q: it doesn't say %q:\n%s", one.flags, one.says, w.lead.output)
		}
		w.lead.kill()
		if text := w.lead.output.String(); strings.Contains(text, "follows in epoch") || strings.Contains(text, "se cret") {
			t.Errorf("%q:\n%s", one.flags, text)
		}
	}
	w.startLead(right...)
	if !awaited(func() bool { return zxidOf(w.apache.servers[0]) != "" && zxidOf(w.apache.servers[1]) != "" }) {
		t.Fatalf("an observer doesn't serve:\n%s\n%.3000s", w.lead.output, w.apache.servers[0].output)
	}
	l.goOn(t, 500)
	l.end()
	w.caughtUp()
	w.stopAll()
	for _, s := range w.apache.servers {
		s.kill()
		if out, err := exec.Command(w.program, "migrate", "compare", w.zooid.dir, s.dir).CombinedOutput(); err != nil {
			t.Errorf("%v\n%s", err, out)
		}
	}
}
