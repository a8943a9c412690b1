package auth

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// team is a provider whose credential is a list of names: what is proved.
type team struct{ scheme string }

func (p team) Scheme() string { return p.scheme }

func (p team) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	if string(r.Auth) == "wrong" {
		return authprovider.Identities{IDs: []string{"ann"}}, errors.New("no such member")
	}
	ids := strings.Fields(string(r.Auth))
	n := len(ids)
	ids = slices.DeleteFunc(ids, func(id string) bool { return id == "boss" })
	return authprovider.Identities{IDs: ids, Super: len(ids) < n}, nil
}

func (p team) IsValid(id string) bool { return id != "nobody" }
func (p team) IsAuthenticated() bool  { return p.scheme != "seat" }

func TestProvider(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{Providers: []authprovider.Provider{team{"team"}, team{"seat"}}})
	if !r.Schemes().Has("team") || !r.Schemes().Has("digest") {
		t.Errorf("schemes %v", r.Schemes())
	}
	address := AddressID([]byte{10, 0, 0, 1}, "")
	for _, c := range []struct {
		scheme, auth, want string
		failed             bool
	}{
		{"team", "ann dev", "ip:10.0.0.1 team:ann team:dev", false},
		{"seat", "12", "ip:10.0.0.1 seat?:12", false},
		{"team", "ann boss", "ip:10.0.0.1 team:ann super:", false},
		{"team", "wrong", "", true},
		{"team", "", "", true}, // nothing is proved
		{"other", "ann", "", true},
	} {
		proof, err := r.Authenticate([]jute.ID{address}, address, &jute.AuthPacket{Scheme: c.scheme, Auth: []byte(c.auth)},
			nil)
		if c.failed != errors.Is(err, ErrFailed) || !c.failed && !slices.Equal(proof.IDs, ids(c.want)) {
			t.Errorf("%s %q: %v, %v; want %s", c.scheme, c.auth, proof.IDs, err, c.want)
		}
	}
	who := WhoAmI(ids("seat?:12 team:ann"))
	if len(who.Clients) != 2 || who.Clients[0] != (jute.ClientInfo{Scheme: "seat", User: "12"}) ||
		who.Clients[1] != (jute.ClientInfo{Scheme: "team", User: "ann"}) {
		t.Errorf("whoAmI: %+v", who.Clients)
	}
}

// TestProvidedBudget: what replicas of the first version refuse is refused as long as some
// may be of it; an identity that isn't authenticated takes the place of no auth entry.
func TestProvidedBudget(t *testing.T) {
	t.Parallel()
	schemes := NewSchemes("team", "digest")
	for _, c := range []struct {
		acl, ids, first, now string
	}{
		{"team:ann:31", "", "", "team:ann:31"},
		{"auth::31", "team:ann seat?:12 digest:x:y", "digest:x:y:31", "team:ann:31 digest:x:y:31"},
		{"auth::31", "seat?:12", "", ""},
		{"!eam:ann:31", "", "", ""},
		{"seat:12:31", "", "", ""}, // no scheme of this ensemble
	} {
		for _, provided := range []bool{false, true} {
			want := c.first
			if provided {
				want = c.now
			}
			got, ok := Fix(acls(t, c.acl), ids(c.ids), schemes, &Budget{Entries: 10, Expanded: 1000, Provided: provided})
			if ok != (want != "") || ok && !slices.Equal(got, acls(t, want)) {
				t.Errorf("%s of %s, provided %v: %v, %v; want %q", c.acl, c.ids, provided, got, ok, want)
			}
		}
	}
}

func TestProviderNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{
		"", "digest", "super", "world", "Team", "te am", "-a", "a-", "sasl*", "!x", strings.Repeat("a",
			authprovider.SchemeBytesMax+1),
	} {
		if r, err := New(Options{Providers: []authprovider.Provider{team{name}}}); err == nil {
			t.Errorf("a provider serves the scheme %q: %v", name, r.Schemes())
		}
	}
	if _, err := New(Options{Providers: []authprovider.Provider{team{"a"}, team{"a"}}}); err == nil {
		t.Error("two providers serve one scheme")
	}
}

// TestJudge: what a provider refuses is marked, in requests of all kinds, and nothing else.
func TestJudge(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{Providers: []authprovider.Provider{team{"team"}}})
	acl := func(id string) []jute.ACL {
		return []jute.ACL{
			{Perms: 31, ID: jute.ID{Scheme: "digest", ID: "nobody:x"}}, {Perms: 1, ID: jute.ID{Scheme: "team", ID: id}},
		}
	}
	create := func(id string) []byte {
		return (&jute.CreateRequest{Path: "/team", Data: []byte("team"), ACL: acl(id)}).Append(nil)
	}
	multi := func(id string) []byte {
		return jute.AppendMulti(nil, []jute.MultiOp{
			{Op: jute.OpDelete, Path: "/a"}, {Op: jute.OpCreateTTL, Path: "/b", ACL: acl("ann"), Flags: 5, TTL: 7},
			{Op: jute.OpSetData, Path: "/a", Data: []byte("x")},
			{Op: jute.OpCheck, Path: "/a"}, {Op: jute.OpCreate, Path: "/c", ACL: acl(id)},
		})
	}
	setACL := func(id string) []byte { return (&jute.SetACLRequest{Path: "/a", ACL: acl(id)}).Append(nil) }
	for op, record := range map[jute.Op]func(string) []byte{
		jute.OpCreate: create, jute.OpCreate2: create, jute.OpCreateContainer: create, jute.OpCreateTTL: create,
		jute.OpSetACL: setACL, jute.OpMulti: multi,
	} {
		for _, id := range []string{"ann", "nobody"} {
			body := record(id)
			want := slices.Clone(body)
			if id == "nobody" {
				at := strings.Index(string(want), "team\x00\x00\x00\x06nobody")
				want[at] = '!'
			}
			if r.Judge(op, body); !slices.Equal(body, want) {
				t.Errorf("%v with team:%s becomes %q; want %q", op, id, body, want)
			}
		}
	}
}

// careless is a provider that panics, except about a few names.
type careless struct{ team }

func (careless) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	if string(r.Auth) == "ann:secret" {
		return authprovider.Identities{IDs: []string{"ann"}}, nil
	}
	panic("what is " + string(r.Auth) + "?")
}

func (careless) IsValid(id string) bool {
	if id == "ann" {
		return true
	}
	var known map[string]func() bool
	return known[id]()
}

// TestProviderPanics: a provider that panics refuses what it was asked, and nothing else happens.
func TestProviderPanics(t *testing.T) {
	t.Parallel()
	r := registry(t, Options{Providers: []authprovider.Provider{careless{team{"team"}}}})
	packet := func(credential string) *jute.AuthPacket {
		return &jute.AuthPacket{Scheme: "team", Auth: []byte(credential)}
	}
	if proof, err := r.Authenticate(nil, jute.ID{}, packet("ann:secret"), nil); err != nil || len(proof.IDs) != 1 {
		t.Errorf("%v, %v", proof.IDs, err)
	}
	_, err := r.Authenticate(nil, jute.ID{}, packet("bob:password"), nil)
	if !errors.Is(err, ErrFailed) || errors.Is(err, authprovider.ErrUndecided) ||
		!strings.Contains(err.Error(), "careless.HandleAuthentication (line ") || strings.Contains(err.Error(), "password") {
		t.Errorf("a panic at login: %v", err)
	}
	for id, refused := range map[string]bool{"ann": false, "bob": true} {
		create := jute.CreateRequest{Path: "/a", ACL: []jute.ACL{{Perms: 1, ID: jute.ID{Scheme: "team", ID: id}}}}
		body := create.Append(nil)
		single := jute.MultiOp{Op: jute.OpCreate, Path: "/a", ACL: create.ACL}
		multi := jute.AppendMulti(nil, []jute.MultiOp{single, {Op: jute.OpDelete, Path: "/a"}})
		for op, body := range map[jute.Op][]byte{jute.OpCreate: body, jute.OpMulti: multi} {
			err := r.Judge(op, body)
			if marked := slices.Contains(body, refusedMark); marked != refused || (err != nil) != refused ||
				refused && !strings.Contains(err.Error(), "careless.IsValid (line ") {
				t.Errorf("%v with the id %s: refused %t, %v", op, id, marked, err)
			}
		}
	}
}

// FuzzJudge: nothing but the first byte of a scheme is ever changed, and nothing panics.
func FuzzJudge(f *testing.F) {
	acl := []jute.ACL{{Perms: 31, ID: jute.ID{Scheme: "team", ID: "nobody"}}}
	f.Add(int32(jute.OpCreate), (&jute.CreateRequest{Path: "/team", ACL: acl}).Append(nil))
	f.Add(int32(jute.OpMulti), jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCreate, Path: "/c", ACL: acl}}))
	r, err := New(Options{Providers: []authprovider.Provider{team{"team"}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, op int32, body []byte) {
		old := slices.Clone(body)
		r.Judge(jute.Op(op), body)
		for i := range body {
			if body[i] != old[i] && (body[i] != refusedMark || !strings.HasPrefix(string(old[i:]), "team")) {
				t.Fatalf("byte %d of %q has become %q", i, old, body[i])
			}
		}
	})
}
