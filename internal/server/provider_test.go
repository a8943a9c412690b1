package server

import (
	"errors"
	"fmt"
	"net"
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/authprovider/key"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

func authPacket(scheme, credential string) func([]byte) []byte {
	return (&jute.AuthPacket{Scheme: scheme, Auth: []byte(credential)}).Append
}

// club is a provider of names, of which "nobody" may not stand in an ACL.
type club struct{}

func (club) Scheme() string         { return "club" }
func (club) IsValid(id string) bool { return id != "nobody" }
func (club) IsAuthenticated() bool  { return true }
func (club) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	return authprovider.Identities{IDs: []string{string(r.Auth), "all"}}, nil
}

// safe is a provider that nobody can open.
type safe struct{ club }

func (safe) Scheme() string { return "safe" }
func (safe) HandleAuthentication(authprovider.Request) (authprovider.Identities, error) {
	return authprovider.Identities{}, errors.New("wrong combination")
}

// TestProviders: identities of a provider count in ACLs as others do, and an ACL that it
// refuses is InvalidACL, alone and in a multi.
func TestProviders(t *testing.T) {
	t.Parallel()
	addr := open(t, Options{Auth: auth.Options{Providers: []authprovider.Provider{club{}, key.New()}}}).Addrs()[0].String()
	ann, eve := connect(t, addr, 0, nil), connect(t, addr, 0, nil)
	if h, _ := ann.call(jute.OpAuth, authPacket("club", "ann")); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	if got := whoAmI(ann); !slices.Equal(got, []string{"club:all", "club:ann", "ip:127.0.0.1"}) {
		t.Errorf("she is %q", got)
	}
	create := func(path string, ids ...jute.ID) func([]byte) []byte {
		r := jute.CreateRequest{Path: path}
		for _, id := range ids {
			r.ACL = append(r.ACL, jute.ACL{Perms: jute.PermAll, ID: id})
		}
		return r.Append
	}
	get := func(path string) func([]byte) []byte { return (&jute.PathWatchRequest{Path: path}).Append }
	for _, c := range []struct {
		path string
		ids  []jute.ID
		eve  jute.Code
	}{
		{"/ann", []jute.ID{{Scheme: "club", ID: "ann"}}, jute.ErrNoAuth},
		{"/all", []jute.ID{{Scheme: "club", ID: "all"}}, jute.ErrNoAuth},
		{"/auth", []jute.ID{{Scheme: "auth"}}, jute.ErrNoAuth},
		{"/open", []jute.ID{{Scheme: "club", ID: "bob"}, {Scheme: "world", ID: "anyone"}}, jute.OK},
	} {
		if h, _ := ann.call(jute.OpCreate, create(c.path, c.ids...)); h.Err != jute.OK {
			t.Errorf("create %s: %v", c.path, h.Err)
		}
		if h, _ := ann.call(jute.OpGetData, get(c.path)); h.Err != jute.OK {
			t.Errorf("she reads %s: %v", c.path, h.Err)
		}
		if h, _ := eve.call(jute.OpGetData, get(c.path)); h.Err != c.eve {
			t.Errorf("another reads %s: %v, want %v", c.path, h.Err, c.eve)
		}
	}
	nobody := jute.ID{Scheme: "club", ID: "nobody"}
	if h, _ := ann.call(jute.OpCreate, create("/nobody", nobody)); h.Err != jute.ErrInvalidACL {
		t.Errorf("create with an ACL that the provider refuses: %v", h.Err)
	}
	multi := func(b []byte) []byte {
		return jute.AppendMulti(b, []jute.MultiOp{
			{Op: jute.OpCreate, Path: "/m", ACL: jute.WorldACL(jute.PermAll)},
			{Op: jute.OpCreate, Path: "/n", ACL: []jute.ACL{{Perms: 31, ID: nobody}}},
		})
	}
	_, body := ann.call(jute.OpMulti, multi)
	results, err := jute.DecodeMultiResponse(jute.NewDecoder(body))
	if err != nil || len(results) != 2 || results[1].Err != jute.ErrInvalidACL {
		t.Errorf("a multi with it: %+v, %v", results, err)
	}

	// The sample reads the znode /key.
	if h, _ := ann.call(jute.OpCreate, func(b []byte) []byte {
		return (&jute.CreateRequest{Path: "/key", Data: []byte("7"), ACL: jute.WorldACL(jute.PermAll)}).Append(b)
	}); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	if h, _ := ann.call(jute.OpAuth, authPacket("key", "21")); h.Err != jute.OK {
		t.Errorf("a multiple of the key: %v", h.Err)
	}
	if h, _ := eve.call(jute.OpAuth, authPacket("key", "22")); h.Err != jute.ErrAuthFailed || !eve.ends() {
		t.Errorf("another number: %v", h.Err)
	}
}

// TestFailedLoginsAreThrottled: whoever guesses at a password is slowed down. Others aren't: clients at other
// addresses, other users at the same one, and, after a wait, the one with the right password.
func TestFailedLoginsAreThrottled(t *testing.T) {
	t.Parallel()
	super, err := auth.Digest("", "super:secret")
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		scheme, user string
		code         jute.Code
		right        string // "" for none
	}{
		"a provider":     {"safe", "ann", jute.ErrAuthFailed, ""},
		"the superuser":  {"digest", "super", jute.OK, "super:secret"},
		"a user of ACLs": {"digest", "ann", jute.OK, "ann:secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t, Options{Auth: auth.Options{SuperDigest: super, Providers: []authprovider.Provider{safe{}}}})
			addr := s.Addrs()[0].String()
			begun := time.Now()
			guess := func(i int) jute.Code {
				client := connect(t, addr, 0, nil)
				defer client.conn.Close()
				h, _ := client.call(jute.OpAuth, authPacket(c.scheme, fmt.Sprint(c.user, ":", i)))
				return h.Err
			}
			// All of them are judged, those after the burst one a second.
			const more = 3
			for i := range auth.FailedLoginsBurst + more {
				if code := guess(i); code != c.code {
					t.Fatalf("guess %d: %v", i+1, code)
				}
			}
			if took := time.Since(begun); took < (more-1)*time.Second {
				t.Errorf("%d guesses were judged in %v", auth.FailedLoginsBurst+more, took)
			}
			other := connect(t, addr, 0, nil)
			for _, scheme := range []string{"digest", "ip"} {
				if h, _ := other.call(jute.OpAuth, authPacket(scheme, "bob:x")); h.Err != jute.OK {
					t.Errorf("another user of the same address, scheme %s: %v", scheme, h.Err)
				}
			}
			if c.right != "" {
				if h, _ := connect(t, addr, 0, nil).call(jute.OpAuth, authPacket(c.scheme, c.right)); h.Err != jute.OK {
					t.Errorf("the right password after wrong ones: %v", h.Err)
				}
			}
			conn, err := (&net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, 2)}}).Dial("tcp", addr)
			if err != nil {
				t.Fatal(err)
			}
			honest := handshake(t, conn, 0, nil)
			for i := range auth.FailedLoginsBurst / 2 { // at once
				if h, _ := honest.call(jute.OpAuth, authPacket("digest", fmt.Sprint(c.user, ":", i))); h.Err != jute.OK {
					t.Fatalf("a client elsewhere: %v", h.Err)
				}
			}
		})
	}
}

// hanging is a provider that judges nobody until it is told to.
type hanging struct {
	club
	asked, release chan struct{}
}

func (hanging) Scheme() string { return "hanging" }
func (h hanging) HandleAuthentication(authprovider.Request) (authprovider.Identities, error) {
	h.asked <- struct{}{}
	<-h.release
	return authprovider.Identities{IDs: []string{"ann"}}, nil
}

// TestSlowProvider: while a provider thinks, the others' requests are answered, and what the
// client itself has sent before.
func TestSlowProvider(t *testing.T) {
	t.Parallel()
	h := hanging{asked: make(chan struct{}), release: make(chan struct{})}
	addr := open(t, Options{Auth: auth.Options{Providers: []authprovider.Provider{h}}}).Addrs()[0].String()
	slow, other := connect(t, addr, 0, nil), connect(t, addr, 0, nil)
	both := slow.request(nil, jute.OpCreate, creating("/slow", nil, 0))
	if _, err := slow.conn.Write(slow.request(both, jute.OpAuth, authPacket("hanging", "ann"))); err != nil {
		t.Fatal(err)
	}
	<-h.asked
	if h, _ := other.call(jute.OpCreate, creating("/other", nil, 0)); h.Err != jute.OK {
		t.Errorf("another client's write: %v", h.Err)
	}
	if h, _ := other.call(jute.OpSync, (&jute.PathRequest{Path: "/"}).Append); h.Err != jute.OK {
		t.Errorf("another client's sync: %v", h.Err)
	}
	if h, _ := other.call(jute.OpGetData, reading("/slow", false)); h.Err != jute.OK {
		t.Errorf("what the client wrote before: %v", h.Err)
	}
	close(h.release)
	if h, _ := slow.reply(); h.Err != jute.OK {
		t.Error(h.Err)
	}
}
