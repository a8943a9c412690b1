package replica

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// TestSuperusersReplacedMeanwhile: a credential that was judged by superusers who aren't in force any more gives
// nothing, though a recheck of all clients may have come before it.
func TestSuperusersReplacedMeanwhile(t *testing.T) {
	t.Parallel()
	s := newStage(t, Options{})
	s.lead(1)
	hash, err := auth.Digest("", "super:test")
	if err != nil {
		t.Fatal(err)
	}
	s.r.auth.SetSuperusers(auth.Superusers{Digest: hash, X509: "CN=root"})
	address := jute.ID{Scheme: "ip", ID: "127.0.0.1"}
	packet := &jute.AuthPacket{Scheme: "digest", Auth: []byte("super:test")}
	proof, err := s.r.auth.Authenticate([]jute.ID{address}, address, packet, nil)
	if err != nil {
		t.Fatal(err)
	}
	shown, err := s.r.auth.AddX509([]jute.ID{address}, "CN=root")
	if err != nil {
		t.Fatal(err)
	}
	early := NewClient(s.ids(), "early", address, Woken(func() {}))
	if !s.r.logins.proved(early, &proof) || early.Ending() != "" {
		t.Errorf("before they were replaced: %q", early.Ending())
	}
	s.r.auth.SetSuperusers(auth.Superusers{})
	late := NewClient(s.ids(), "late", address, Woken(func() {}))
	if s.r.logins.proved(late, &proof) || late.Ending() != supersReplaced {
		t.Errorf("after they were replaced: %q", late.Ending())
	}
	certified := NewClient(s.ids(), "certified", address, Woken(func() {}))
	certified.Prove(&shown)
	err = s.r.Connect(certified, &jute.ConnectRequest{Timeout: 10_000}, s.ids)
	if err == nil || !strings.Contains(err.Error(), supersReplaced) {
		t.Errorf("a certificate from before connects: %v", err)
	}
	s.r.readOnlyMode, s.r.cutOff = true, true
	err = s.r.Connect(certified, &jute.ConnectRequest{Timeout: 10_000, ReadOnly: true}, s.ids)
	if err == nil || !strings.Contains(err.Error(), supersReplaced) {
		t.Errorf("a certificate from before connects read-only: %v", err)
	}
}
