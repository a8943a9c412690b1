package moving

import (
	"fmt"
	"net"
	"os/exec"
	"strings"
	"testing"
)

// TestWayBackEncrypted leads observers that talk TLS among themselves and ask for certificates (sslQuorum): zooid
// migrate back in plain text, with another issuer's certificate, or for observers of another issuer gets none of them.
// With the right ones they follow, and have everything in the end.
func TestWayBackEncrypted(t *testing.T) {
	need(t)
	w, folder := newWayBack(t, "3.9.5"), t.TempDir()
	ours, others := newIssuer(t, folder, "ours"), newIssuer(t, folder, "others")
	here := net.IPv4(127, 0, 0, 1)
	w.lines = fmt.Sprintf("sslQuorum=true\nssl.quorum.keyStore.location=%s\nssl.quorum.keyStore.type=PEM\nssl.quorum.trustStore.location=%s\nssl.quorum.trustStore.type=PEM\n",
		ours.issue(t, "observers", here), ours.file)
	w.apache.options = append(w.apache.options, "-cp", javaClient(t)) // with netty, which TLS needs
	w.startZooid(quietly)
	l := startLoad(w.zooid.addr, *firstSeed, true)
	l.goOn(t, 500)
	w.configure(true)
	w.apache.start(0)
	w.apache.start(1)
	mine := ours.issue(t, "zooid", here)
	for _, wrong := range []struct {
		says  string
		flags []string
	}{
		{"on the election port: the first message isn't from Apache", nil},
		{"remote error: tls", []string{"-peer-tls-cert", others.issue(t, "stranger", here), "-peer-tls-ca", ours.file}},
		{"client didn't provide a certificate", []string{"-peer-tls-cert", mine, "-peer-tls-ca", others.file}},
	} {
		w.startLead(wrong.flags...)
		if !awaited(func() bool { return strings.Contains(w.lead.output.String(), wrong.says) }) {
			t.Errorf("%q: it doesn't say %q:\n%s", wrong.flags, wrong.says, w.lead.output)
		}
		w.lead.kill()
		if text := w.lead.output.String(); strings.Contains(text, "follows in epoch") {
			t.Errorf("%q: an observer follows:\n%s", wrong.flags, text)
		}
	}

	w.startLead("-peer-tls-cert", mine, "-peer-tls-ca", ours.file)
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
	// Half of the files is refused before anything is listened at.
	said, err := exec.Command(w.program, "migrate", "back", "-quorum", w.quorum, "-election", w.election, "-from",
		"127.0.0.1", "-peer-tls-cert", mine, w.config).CombinedOutput()
	if err == nil || !strings.Contains(string(said), "needs both -peer-tls-cert and -peer-tls-ca") {
		t.Errorf("without an authority: %v\n%s", err, said)
	}
}
