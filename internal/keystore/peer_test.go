package keystore

import (
	"crypto/tls"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// TestDialled: a server dials another of the same stores, by the name in the
// certificate or, if that isn't asked for, by any; never one of another issuer.
func TestDialled(t *testing.T) {
	t.Parallel()
	ours, err := NewPort(options())
	if err != nil {
		t.Fatal(err)
	}
	foreign := options()
	foreign.Trust = stored("odd.pem") // a certificate that issued none
	others, err := NewPort(foreign)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		dialler *Port
		host    string
		verify  bool
		ok      bool
	}{
		{ours, "localhost", true, true},
		{ours, "127.0.0.1", true, true},
		{ours, "zk9.example", true, false},
		{ours, "zk9.example", false, true},
		{others, "localhost", true, false},
		{others, "localhost", false, false},
	} {
		state, clientErr, serverErr := connect(t, ours, c.dialler.Dialled(c.host, c.verify))
		if ok := clientErr == nil && serverErr == nil; ok != c.ok || ok && len(state.PeerCertificates) == 0 {
			t.Errorf("host %s, verified %v, other issuer %v: client %v, server %v", c.host, c.verify, c.dialler == others,
				clientErr, serverErr)
		}
	}
}

// TestDialledFollowsTheFiles: what is shown is what the file holds.
func TestDialledFollowsTheFiles(t *testing.T) {
	t.Parallel()
	o := options()
	o.Keys = Store{Location: filepath.Join(t.TempDir(), "key.pem")}
	put := func(name string, when time.Time) {
		t.Helper()
		data, err := os.ReadFile(filepath.Join("testdata", name))
		if err == nil {
			err = os.WriteFile(o.Keys.Location, data, 0o600)
		}
		if err == nil {
			err = os.Chtimes(o.Keys.Location, when, when)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	put("server.pem", time.Now())
	p, err := NewPort(o)
	if err != nil {
		t.Fatal(err)
	}
	p.checkEvery = 0
	shown := func() string {
		t.Helper()
		cert, err := p.Dialled("localhost", true).GetClientCertificate(&tls.CertificateRequestInfo{})
		if err != nil {
			t.Fatal(err)
		}
		return string(cert.Certificate[0])
	}
	before := shown()
	if shown() != before {
		t.Error("the certificate changes by itself")
	}
	put("client.pem", time.Now().Add(time.Second))
	if shown() == before {
		t.Error("the new certificate is not shown")
	}
}

// TestVerifyPeer: a certificate is valid for the hosts that it names, whatever address it comes from, and only if it is
// a server's.
func TestVerifyPeer(t *testing.T) {
	t.Parallel()
	p, err := NewPort(options())
	if err != nil {
		t.Fatal(err)
	}
	state, clientErr, serverErr := connect(t, p, p.Dialled("localhost", true))
	if clientErr != nil || serverErr != nil {
		t.Fatal(clientErr, serverErr)
	}
	for _, c := range []struct {
		state tls.ConnectionState
		hosts []string
		ok    bool
	}{
		{state, nil, true},
		{state, []string{"127.0.0.1"}, true},
		{state, []string{"192.0.2.1"}, false},
		{state, []string{"zk9.example", "localhost"}, true},
		{state, []string{"zk9.example"}, false},
		{tls.ConnectionState{}, nil, true},
	} {
		if err := p.VerifyPeer(t.Context(), c.state, c.hosts); (err == nil) != c.ok {
			t.Errorf("hosts %q: %v", c.hosts, err)
		}
	}
}
