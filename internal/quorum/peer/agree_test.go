package peer

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

type ctx = context.Context

// An ensemble of transports that know no secret, with their directories.
type strangers struct {
	t       *testing.T
	members []quorum.Member
	lists   []net.Listener
	dirs    []string
	trs     []*transport
}

func newStrangers(t *testing.T, n int) *strangers {
	t.Helper()
	s := &strangers{t: t}
	for i := range n {
		l := listenLocal(t)
		s.lists = append(s.lists, l)
		s.dirs = append(s.dirs, t.TempDir())
		s.members = append(s.members, quorum.Member{ID: uint64(i + 1), Addrs: []string{l.Addr().String()}})
	}
	s.trs = make([]*transport, n)
	return s
}

// start runs server i+1.
func (s *strangers) start(i int) *transport {
	s.t.Helper()
	tr := newTransport(uint64(i+1), 7, Secure{Keys: keyring(s.t, s.dirs[i])}, slog.New(slog.DiscardHandler))
	tr.snapshot = func(c net.Conn, _ uint64) { c.Close() }
	tr.setMembers(s.members)
	tr.listen(s.lists[i])
	tr.wg.Go(tr.agree)
	go func() {
		for {
			select {
			case <-tr.events:
			case <-tr.ctx.Done():
				return
			}
		}
	}()
	s.t.Cleanup(tr.close)
	s.trs[i] = tr
	return tr
}

// agreed waits until the servers know one secret, and returns it.
func (s *strangers) agreed(which ...int) Secret {
	s.t.Helper()
	var one Secret
	for n, i := range which {
		for deadline := time.Now().Add(patience); !s.trs[i].keys.Secured(); time.Sleep(10 * time.Millisecond) {
			if time.Now().After(deadline) {
				s.t.Fatalf("server %d knows no secret", i+1)
			}
		}
		secret := s.trs[i].keys.Secrets()[0]
		if n > 0 && secret != one {
			s.t.Fatalf("server %d has another secret", i+1)
		}
		one = secret
	}
	return one
}

// TestAgreement: servers that start together come to one secret, keep it, and talk
// from then on; while one of them is missing there is none.
func TestAgreement(t *testing.T) {
	t.Parallel()
	s := newStrangers(t, 5)
	for i := range 4 {
		s.start(i)
	}
	time.Sleep(4 * agreePause)
	for i := range 4 {
		if s.trs[i].keys.Secured() {
			t.Fatalf("server %d has adopted a secret that server 5 never saw", i+1)
		}
	}
	s.start(4)
	one := s.agreed(0, 1, 2, 3, 4)
	for i, dir := range s.dirs {
		k := keyring(t, dir)
		if list := k.Secrets(); len(list) != 1 || list[0] != one || len(k.Offers()) != 0 {
			t.Errorf("server %d keeps %d secrets and %d candidates", i+1, len(list), len(k.Offers()))
		}
	}
	for i := range s.trs {
		for j := range s.trs {
			for deadline := time.Now().Add(patience); i != j && !s.trs[i].connected(uint64(j+1)); time.Sleep(
				10 * time.Millisecond) {
				if time.Now().After(deadline) {
					t.Fatalf("server %d isn't connected to server %d", i+1, j+1)
				}
			}
		}
	}
}

// TestAgreementOfOneVersion: a server that learns the secret from a member that has adopted it says of no one that it
// is of an older version.
func TestAgreementOfOneVersion(t *testing.T) {
	t.Parallel()
	s := newStrangers(t, 3)
	secret, _ := keyring(t, s.dirs[0]).Choice()
	for _, dir := range s.dirs[1:] {
		k := keyring(t, dir)
		if _, err := k.Merge(secret); err != nil {
			t.Fatal(err)
		}
		if err := k.Adopt(secret); err != nil {
			t.Fatal(err)
		}
	}
	s.start(1)
	s.start(2)
	tr := newTransport(1, 7, Secure{Keys: keyring(t, s.dirs[0])}, slog.New(slog.DiscardHandler))
	t.Cleanup(tr.close)
	tr.members = s.members // no connections besides those of the round
	waiting, err := tr.meetAll()
	if len(waiting) > 0 || err != nil || !tr.keys.Secured() {
		t.Errorf("after the first round it waits for %q (%v); it knows the secret: %t", waiting, err, tr.keys.Secured())
	}
}

// TestAgreementIsFinished: one server that stops when it alone has adopted the secret
// brings the others to it when it is back.
func TestAgreementIsFinished(t *testing.T) {
	t.Parallel()
	s := newStrangers(t, 3)
	least, _ := keyring(t, s.dirs[0]).Choice()
	for _, dir := range s.dirs[1:] { // all hold it, and the second has adopted it
		k := keyring(t, dir)
		if _, err := k.Merge(least); err != nil {
			t.Fatal(err)
		}
		least = min2(least, k.Offers()[0])
	}
	for _, dir := range s.dirs {
		if _, err := keyring(t, dir).Merge(least); err != nil {
			t.Fatal(err)
		}
	}
	if err := keyring(t, s.dirs[1]).Adopt(least); err != nil {
		t.Fatal(err)
	}
	for i := range 3 {
		s.start(i)
	}
	if one := s.agreed(0, 1, 2); one != least {
		t.Error("they have agreed on another secret than the one adopted")
	}
}

func min2(a, b Secret) Secret {
	if string(a[:]) < string(b[:]) {
		return a
	}
	return b
}

// TestLetIn: a server that knows no secret gets it where reconfig added it or an
// operator allowed it, once, and only at its address.
func TestLetIn(t *testing.T) {
	t.Parallel()
	s := newStrangers(t, 3)
	for i := range 2 {
		if err := keyring(t, s.dirs[i]).Adopt(SecretOf("agreed")); err != nil {
			t.Fatal(err)
		}
		s.start(i)
	}
	late := s.start(2)
	time.Sleep(4 * agreePause)
	if late.keys.Secured() {
		t.Fatal("a server was let in that nobody allowed in")
	}
	// Another process, elsewhere, that says it is server 3.
	thief := newTransport(3, 7, Secure{Keys: keyring(t, "")}, slog.New(slog.DiscardHandler))
	if _, err := AllowJoin(s.dirs[0], 3, ""); err != nil {
		t.Fatal(err)
	}
	for range 3 {
		if c, err := thief.greet(t.Context(), s.members[0].Addrs[0], hello{connJoin, 0, 3, 1}, true); err == nil {
			c.Close()
			t.Error("a process at another address was let in")
		}
	}
	if thief.keys.Secured() {
		t.Fatal("a process at another address was given the secret")
	}
	s.agreed(0, 1, 2)
	if _, err := os.Stat(filepath.Join(s.dirs[0], "allow-join-3")); !os.IsNotExist(err) {
		t.Errorf("the permission is still there: %v", err)
	}
}

// newcomer runs two servers that have agreed on a secret, and a third one that only its own configuration names.
func newcomer(t *testing.T) (s *strangers, third *transport) {
	t.Helper()
	s = newStrangers(t, 3)
	all := s.members
	for i := range 2 {
		if err := keyring(t, s.dirs[i]).Adopt(SecretOf("agreed")); err != nil {
			t.Fatal(err)
		}
	}
	s.members = all[:2]
	s.start(0)
	s.start(1)
	s.members = all
	return s, s.start(2)
}

// TestAddedServerIsLetIn: a server that a change of membership adds gets the secret
// without more.
func TestAddedServerIsLetIn(t *testing.T) {
	t.Parallel()
	s, added := newcomer(t)
	time.Sleep(2 * agreePause)
	if added.keys.Secured() {
		t.Fatal("a server was let in before it was added")
	}
	s.trs[0].setMembers(s.members)
	s.agreed(0, 1, 2)
}

// TestLetInAtItsAddress: an operator lets a server in that is no member, at the address that
// the operator names and nowhere else.
func TestLetInAtItsAddress(t *testing.T) {
	t.Parallel()
	s, late := newcomer(t)
	for _, addr := range []string{"", "nowhere", strings.Repeat("x", 261) + ":2888"} {
		if _, err := AllowJoin(s.dirs[0], 3, addr); err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * agreePause)
		if late.keys.Secured() {
			t.Fatalf("a server was let in that was allowed at %.20q", addr)
		}
	}
	if _, err := AllowJoin(s.dirs[0], 3, s.members[2].Addrs[0]); err != nil {
		t.Fatal(err)
	}
	s.agreed(0, 1, 2)
}

// TestNoCandidateBesideASecret: a meeting that comes late changes nothing.
func TestNoCandidateBesideASecret(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	k := keyring(t, dir)
	if err := k.Adopt(SecretOf("agreed")); err != nil {
		t.Fatal(err)
	}
	if _, err := k.Merge(Secret{}); !errors.Is(err, handshake.ErrAgreed) {
		t.Errorf("a candidate beside the secret: %v", err)
	}
	if err := k.Adopt(SecretOf("another")); err != nil {
		t.Fatal(err)
	}
	for _, k := range []*Keyring{k, keyring(t, dir)} {
		if list := k.Secrets(); len(list) != 1 || list[0] != SecretOf("agreed") || len(k.Offers()) != 0 {
			t.Errorf("%d secrets, %d candidates", len(list), len(k.Offers()))
		}
	}
}

// TestCopyElsewhere: a second process under an id is refused while the first answers
// at its address, tries again less and less often, and stops when it asks there.
func TestCopyElsewhere(t *testing.T) {
	t.Parallel()
	s := newStrangers(t, 2)
	for i := range 2 {
		if err := keyring(t, s.dirs[i]).Adopt(SecretOf("agreed")); err != nil {
			t.Fatal(err)
		}
		s.start(i)
	}
	for !s.trs[0].connected(2) || !s.trs[1].connected(1) {
		time.Sleep(10 * time.Millisecond)
	}
	if err := os.CopyFS(t.TempDir(), os.DirFS(s.dirs[1])); err != nil {
		t.Fatal(err)
	}
	l := listenLocal(t)
	second := newTransport(2, 7, Secure{Keys: keyring(t, s.dirs[1])}, slog.New(slog.DiscardHandler))
	defer second.close()
	second.snapshot = func(c net.Conn, _ uint64) { c.Close() }
	second.listen(l)
	if c, err := second.greet(t.Context(), s.members[0].Addrs[0], hello{connMessages, 7, 2, 1}, true); err == nil {
		c.Close()
		t.Error("a second process under an id is heard")
	}
	if !s.trs[0].connected(2) {
		t.Error("the first is not connected any more")
	}
	// Its configuration says that it is at l; the membership of the ensemble says where
	// the first is.
	second.setMembers(s.members)
	found := make(chan error, 1)
	second.configured = []quorum.Member{{ID: 2, Addrs: []string{l.Addr().String()}}}
	second.wg.Go(func() { second.watchDuplicateID(func(err error) { found <- err }) })
	select {
	case <-found:
	case <-time.After(patience):
		t.Error("the copy doesn't find the first")
	}
}
