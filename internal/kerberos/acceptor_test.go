package kerberos

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zooid-project/zooid/internal/sasl"
)

const serverName = "zookeeper/localhost"

// realm is a KDC's knowledge: it makes tickets for the server.
type realm struct {
	keys *keytab.Keytab
	file string
}

func newRealm(t *testing.T) realm {
	t.Helper()
	r := realm{file: filepath.Join(t.TempDir(), "zookeeper.keytab")}
	return r.rekeyed(t, serverName, "the server's")
}

// rekeyed returns the realm after the server got another key, and puts that in the place of the keytab.
func (r realm) rekeyed(t *testing.T, name, password string) realm {
	t.Helper()
	r.keys = keytab.New()
	if err := r.keys.AddEntry(name, "HOME", password, time.Now(), 1, etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		t.Fatal(err)
	}
	text, err := r.keys.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	r.replace(t, text)
	return r
}

// replace puts other bytes in the place of the keytab.
func (r realm) replace(t *testing.T, text []byte) {
	t.Helper()
	if err := os.WriteFile(r.file+".new", text, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(r.file+".new", r.file); err != nil {
		t.Fatal(err)
	}
}

// ticket returns a client's first token, and the session key. The ticket is good from begin
// to end.
func (r realm) ticket(t *testing.T, user string, options []int,
	begin, end time.Time) ([]byte, types.EncryptionKey, uint64) {
	t.Helper()
	name, server := types.NewPrincipalName(1, user), types.NewPrincipalName(2, serverName)
	ticket, session, err := messages.NewTicket(name, "HOME", server, "HOME", types.NewKrbFlags(), r.keys,
		etypeID.AES256_CTS_HMAC_SHA1_96, 1, begin, begin, end, end)
	if err != nil {
		t.Fatal(err)
	}
	c := client.NewWithPassword(user, "HOME", "", config.New())
	token, err := spnego.NewKRB5TokenAPREQ(c, ticket, session, []int{gssapi.ContextFlagInteg}, options)
	if err != nil {
		t.Fatal(err)
	}
	first, err := token.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	if err := token.APReq.DecryptAuthenticator(session); err != nil {
		t.Fatal(err)
	}
	return first, session, uint64(token.APReq.Authenticator.SeqNumber)
}

// wrap returns a client's token, rotated as Windows has them.
func wrap(t *testing.T, payload []byte, key types.EncryptionKey, sequence uint64, rotated int) []byte {
	t.Helper()
	w := gssapi.WrapToken{EC: 12, SndSeqNum: sequence, Payload: payload}
	if err := w.SetCheckSum(key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		t.Fatal(err)
	}
	token, err := w.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	body := token[gssapi.HdrLen:]
	n := len(body) - rotated
	copy(body, append(append([]byte{}, body[n:]...), body[:n]...))
	token[7] = byte(rotated)
	return token
}

func TestLogin(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	a, err := New(Options{Keytab: r.file, Principal: serverName + "@HOME", RemoveRealm: true})
	if err != nil {
		t.Fatal(err)
	}
	now, hour := time.Now(), time.Hour
	for _, c := range []struct {
		name, user, authzid string
		mutual              bool
		rotated             int
		layer               byte
		begin, end          time.Time
		want, err           string
	}{
		{"plain", "ann", "", false, 0, 1, now.Add(-hour), now.Add(hour), "ann", ""},
		{"with a proof", "bob", "", true, 0, 1, now.Add(-hour), now.Add(hour), "bob", ""},
		{"rotated", "cat", "cat@HOME", false, 12, 1, now.Add(-hour), now.Add(hour), "cat", ""},
		{"another", "dan", "root", false, 0, 1, now.Add(-hour), now.Add(hour), "", "nobody may be another"},
		{"with a layer", "eva", "", false, 0, 2, now.Add(-hour), now.Add(hour), "", "security layer"},
		{"over", "fay", "", false, 0, 1, now.Add(-2 * hour), now.Add(-hour), "", "ticket"},
		{"too early", "gil", "", false, 0, 1, now.Add(hour), now.Add(2 * hour), "", "ticket"},
		{"too many names", "a/b/c", "", false, 0, 1, now.Add(-hour), now.Add(hour), "", "form"},
	} {
		var options []int
		if c.mutual {
			options = []int{flags.APOptionMutualRequired}
		}
		first, key, sequence := r.ticket(t, c.user, options, c.begin, c.end)
		login := a.Begin()
		reply, done, user, err := login.Step(first)
		if c.mutual && err == nil {
			if done || len(reply) == 0 || reply[0] != applicationTag {
				t.Errorf("%s: the proof is %x", c.name, reply)
			}
			var proof spnego.KRB5Token
			if err := proof.Unmarshal(reply); err != nil {
				t.Fatal(err)
			}
			text, err := crypto.DecryptEncPart(proof.APRep.EncPart, key, keyusage.AP_REP_ENCPART)
			if err != nil {
				t.Fatal(err)
			}
			var part messages.EncAPRepPart
			if err := part.Unmarshal(text); err != nil || uint64(part.SequenceNumber) != sequence {
				t.Errorf("%s: the proof says %+v, %v", c.name, part, err)
			}
			reply, done, user, err = login.Step(nil)
			if err != nil {
				t.Fatal(err)
			}
		}
		if err == nil {
			var offer gssapi.WrapToken
			if e := offer.Unmarshal(reply, true); e != nil || done || user != "" {
				t.Fatalf("%s: the offer %x, done %v, %q, %v", c.name, reply, done, user, e)
			}
			if ok, e := offer.Verify(key, keyusage.GSSAPI_ACCEPTOR_SEAL); !ok || offer.Payload[0] != noLayer {
				t.Errorf("%s: the offer is %v, %v", c.name, offer.Payload, e)
			}
			_, done, user, err = login.Step(wrap(t, append([]byte{c.layer, 0, 0, 0}, c.authzid...), key, sequence, c.rotated))
		}
		if user != c.want || done != (c.err == "") || (err == nil) != (c.err == "") ||
			err != nil && !strings.Contains(err.Error(), c.err) {
			t.Errorf("%s: %q, done %v, %v; want %q, %q", c.name, user, done, err, c.want, c.err)
		}
		if _, done, user, err := login.Step(nil); err == nil || done || user != "" {
			t.Errorf("%s: a step after the end: %v, %q, %v", c.name, done, user, err)
		}
		if _, _, _, err := a.Begin().Step(first); err == nil {
			t.Errorf("%s: the first token counts twice", c.name)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	a, err := New(Options{Keytab: r.file, Principal: serverName + "@HOME"})
	if err != nil {
		t.Fatal(err)
	}
	good, _, _ := r.ticket(t, "zoe", nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	for name, token := range map[string][]byte{
		"empty": {}, "cut": good[:len(good)/2], "no ticket": good[:20], "garbage": []byte("\x60\x03\x06\x01\x00"),
		"long":    make([]byte, tokenBytesMax+1),
		"changed": append(append([]byte{}, good[:len(good)-3]...), 1, 2, 3),
	} {
		if reply, done, user, err := a.Begin().Step(token); err == nil || done || user != "" || reply != nil {
			t.Errorf("%s: %x, %v, %q, %v", name, reply, done, user, err)
		}
	}
	for name, change := range map[string]func([]byte) []byte{
		"changed":         func(b []byte) []byte { b[16] = 2; return b },
		"cut":             func(b []byte) []byte { return b[:18] },
		"the server's":    func(b []byte) []byte { b[2] |= fromAcceptor; return b },
		"encrypted":       func(b []byte) []byte { b[2] |= sealed; return b },
		"of another kind": func(b []byte) []byte { b[0] = 2; return b },
		"a long checksum": func(b []byte) []byte { b[4] = 0xff; return b },
		"empty":           func(b []byte) []byte { return nil },
	} {
		first, key, sequence := r.ticket(t, "zoe"+strings.ReplaceAll(name, " ", ""), nil, time.Now().Add(-time.Hour),
			time.Now().Add(time.Hour))
		login := a.Begin()
		if _, _, _, err := login.Step(first); err != nil {
			t.Fatal(err)
		}
		if _, done, user, err := login.Step(change(wrap(t, []byte{1, 0, 0, 0}, key, sequence, 0))); err == nil || done ||
			user != "" {
			t.Errorf("%s: %v, %q, %v", name, done, user, err)
		}
	}
	for _, o := range []Options{
		{Keytab: r.file, Principal: "zookeeper"}, {Keytab: r.file, Principal: serverName},
		{Keytab: r.file + "x", Principal: serverName + "@HOME"},
		{Keytab: r.file, Principal: "other/localhost@HOME"}, {Keytab: r.file, Principal: serverName + "@AWAY"},
		{Keytab: r.file, Principal: serverName + "@HOME", Rules: "x"},
	} {
		if _, err := New(o); err == nil {
			t.Errorf("%+v is taken", o)
		}
	}
}

// FuzzToken: no token logs anybody in, whatever is in it.
func FuzzToken(f *testing.F) {
	keys := keytab.New()
	if err := keys.AddEntry(serverName, "HOME", "the server's", time.Now(), 1,
		etypeID.AES256_CTS_HMAC_SHA1_96); err != nil {
		f.Fatal(err)
	}
	text, err := keys.Marshal()
	if err != nil {
		f.Fatal(err)
	}
	file := filepath.Join(f.TempDir(), "keytab")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		f.Fatal(err)
	}
	a, err := New(Options{Keytab: file, Principal: serverName + "@HOME"})
	if err != nil {
		f.Fatal(err)
	}
	f.Add([]byte{0x60, 3, 6, 1, 0}, []byte{5, 4})
	f.Fuzz(func(t *testing.T, first, last []byte) {
		login := a.Begin()
		for _, token := range [][]byte{first, last, last} {
			if _, done, user, _ := login.Step(token); done || user != "" {
				t.Fatalf("%x, %x log in as %q", first, last, user)
			}
		}
	})
}

// TestReplacedKeytab: a keytab that is replaced counts for the next login. One that can't be used doesn't: the keys
// from before go on, and who fails by them is told why.
func TestReplacedKeytab(t *testing.T) {
	t.Parallel()
	old := newRealm(t)
	a, err := New(Options{Keytab: old.file, Principal: serverName + "@HOME"})
	if err != nil {
		t.Fatal(err)
	}
	try := func(r realm) error {
		now := time.Now()
		first, _, _ := r.ticket(t, "ann", nil, now.Add(-time.Hour), now.Add(time.Hour))
		_, _, _, err := a.Begin().Step(first)
		return err
	}
	if err := try(old); err != nil {
		t.Fatal(err)
	}
	next := old.rekeyed(t, serverName, "another")
	if err := try(next); err != nil {
		t.Errorf("by the key in the new keytab: %v", err)
	}
	if err := try(old); err == nil {
		t.Error("a ticket by the key from before is taken")
	}
	for _, c := range []struct {
		what  string
		spoil func()
	}{
		{"garbage", func() { next.replace(t, []byte{5, 2, 0, 0, 0, 200, 1}) }},
		{"empty", func() { next.replace(t, nil) }},
		{"somebody's", func() { next.rekeyed(t, "http/localhost", "third") }},
		{"not there", func() { os.Remove(next.file) }},
		{"not yet again", func() {}},
	} {
		c.spoil()
		if err := try(next); err != nil {
			t.Errorf("%s: by the key from before: %v", c.what, err)
		}
		if err := try(old); err == nil || !strings.Contains(err.Error(), "keytab") {
			t.Errorf("%s: who fails is told %v", c.what, err)
		}
	}
	last := next.rekeyed(t, serverName, "fourth")
	if err := try(last); err != nil {
		t.Errorf("after all that: %v", err)
	}
}

// TestCheckKey: a client's key has the size of its type: the connection keeps it, and a token has room for 64 KiB.
func TestCheckKey(t *testing.T) {
	t.Parallel()
	for size, want := range map[int]bool{32: true, 31: false, 33: false, 60 << 10: false} {
		key := types.EncryptionKey{KeyType: etypeID.AES256_CTS_HMAC_SHA1_96, KeyValue: make([]byte, size)}
		if err := checkKey(key); (err == nil) != want {
			t.Errorf("a key of %d bytes: %v", size, err)
		}
	}
	if checkKey(types.EncryptionKey{KeyType: 12345, KeyValue: make([]byte, 32)}) == nil {
		t.Error("a key of an unknown type is taken")
	}
}

// TestRenamedPrincipal: a client that has logged in is renamed by other rules, and no user without Kerberos.
func TestRenamedPrincipal(t *testing.T) {
	t.Parallel()
	r := newRealm(t)
	by := func(rules string) *Acceptor {
		t.Helper()
		a, err := New(Options{Keytab: r.file, Principal: serverName + "@HOME", RemoveRealm: true, Rules: rules})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	first := by("RULE:[1:$1](ann)s/ann/admin/ DEFAULT")
	users := sasl.Follow(sasl.Several{first}, nil)
	login := users.Begin().(sasl.Lasting)
	token, key, sequence := r.ticket(t, "ann", nil, time.Now().Add(-time.Hour), time.Now().Add(time.Hour))
	if _, _, _, err := login.Step(token); err != nil {
		t.Fatal(err)
	}
	if _, done, user, err := login.Step(wrap(t, []byte{noLayer, 0, 0, 0}, key, sequence, 0)); !done || user != "admin" {
		t.Fatal(done, user, err)
	}
	for name, c := range map[string]struct {
		m     sasl.Mechanism
		holds bool
	}{
		"same rules":           {sasl.Several{by("RULE:[1:$1](ann)s/ann/admin/ DEFAULT")}, true},
		"as the only one":      {first, true},
		"another name":         {sasl.Several{by("DEFAULT")}, false},
		"no rule":              {sasl.Several{by("RULE:[1:$1](bob)")}, false},
		"no logins by tickets": {sasl.Several{}, false},
	} {
		if users.Replace(c.m, map[string]string{"admin": "x"}); login.Holds() != c.holds {
			t.Errorf("%s: it holds: %v", name, login.Holds())
		}
	}
}
