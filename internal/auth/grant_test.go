package auth

import (
	"slices"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// A connection has proved several credentials, one after the other.
type connection struct {
	t      *testing.T
	r      *Registry
	ids    []jute.ID
	grants []Grant
}

func (c *connection) take(proof Proof, err error) {
	c.t.Helper()
	if err != nil {
		c.t.Fatal(err)
	}
	c.ids, c.grants = proof.IDs, Granted(c.grants, proof.Grants)
	for _, id := range c.ids { // nothing about an identity is inferred
		if id.Scheme != ip && !slices.ContainsFunc(c.grants, func(g Grant) bool { return g.ID == id }) {
			c.t.Errorf("nothing has given %v", id)
		}
	}
}

func (c *connection) prove(scheme, credential string) {
	c.t.Helper()
	packet := &jute.AuthPacket{Scheme: scheme, Auth: []byte(credential)}
	c.take(c.r.Authenticate(c.ids, jute.ID{Scheme: ip, ID: "1.1.1.1"}, packet, nil))
}

// timed is a provider whose identities expire a second after 1970, if their credential says so.
type timed struct{ team }

func (timed) Scheme() string { return "timed" }
func (p timed) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	until := []byte("until ")
	text, expires := string(r.Auth), slices.Equal(r.Auth[:min(len(r.Auth), len(until))], until)
	if expires {
		r.Auth = []byte(text[len(until):])
	}
	ids, err := p.team.HandleAuthentication(r)
	if expires {
		ids.Expires = time.Unix(1, 0)
	}
	return ids, err
}

// TestWithdrawn: which rights are gone after the superusers were replaced, whatever else the connection has proved.
func TestWithdrawn(t *testing.T) {
	was, err := Digest("", "super:test")
	if err != nil {
		t.Fatal(err)
	}
	now, err := Digest("", "admin:test")
	if err != nil {
		t.Fatal(err)
	}
	old := Superusers{Digest: was, SASL: []string{"root", "both"}, X509: "CN=root", AnySASL: "any"}
	next := Superusers{Digest: now, SASL: []string{"boss", "both"}, X509: "CN=boss", AnySASL: "any"}
	beside := func(credential, scheme, other string) func(*connection) {
		return func(c *connection) { c.prove("digest", credential); c.prove(scheme, other) }
	}
	for name, c := range map[string]struct {
		prove func(c *connection)
		next  Superusers
		gone  string // the identity that is gone; "" for none
	}{
		"nobody":       {func(*connection) {}, next, ""},
		"a user":       {func(c *connection) { c.prove("digest", "ann:secret") }, next, ""},
		"digest":       {func(c *connection) { c.prove("digest", "super:test") }, next, "super:"},
		"digest, kept": {func(c *connection) { c.prove("digest", "super:test") }, old, ""},
		"digest, no superusers": {
			func(c *connection) { c.prove("digest", "super:test") }, Superusers{AnySASL: "any"}, "super:",
		},
		"digest beside a member": {beside("super:test", "team", "ann"), next, "super:"},
		"digest after a member": {
			func(c *connection) { c.prove("team", "ann"); c.prove("digest", "super:test") }, next, "super:",
		},
		"digest beside a chief": {beside("super:test", "team", "boss"), next, ""},
		"digest beside the next one's, which gave nothing yet": {
			func(c *connection) { c.prove("digest", "super:test"); c.prove("digest", "admin:test") }, next, "super:",
		},
		"sasl":       {func(c *connection) { c.take(c.r.AddSASL(c.ids, "root")) }, next, "super:"},
		"sasl, kept": {func(c *connection) { c.take(c.r.AddSASL(c.ids, "both")) }, next, ""},
		"sasl beside digest": {
			func(c *connection) { c.take(c.r.AddSASL(c.ids, "root")); c.prove("digest", "super:test") },
			Superusers{Digest: was, AnySASL: "any"}, "",
		},
		"any":         {func(c *connection) { c.take(c.r.AddSASL(c.ids, "bob")) }, Superusers{AnySASL: "some"}, "sasl*:any"},
		"any, kept":   {func(c *connection) { c.take(c.r.AddSASL(c.ids, "bob")) }, Superusers{AnySASL: "any"}, ""},
		"certificate": {func(c *connection) { c.take(c.r.AddX509(c.ids, "CN=root")) }, next, "super:CN=root"},
		"certificate of a user beside digest": {
			func(c *connection) { c.take(c.r.AddX509(c.ids, "CN=ann")); c.prove("digest", "super:test") }, next, "super:",
		},
		"certificate of who is none": {func(c *connection) { c.take(c.r.AddX509(c.ids, "CN=boss")) }, next, ""},
		"a provider's":               {func(c *connection) { c.prove("team", "boss") }, next, ""},
		"an unproved one's":          {func(c *connection) { c.prove("seat", "boss") }, next, ""},
	} {
		r := registry(t, Options{
			SuperDigest: old.Digest, SASL: true, SASLSuperUsers: old.SASL, X509: true, X509SuperUser: old.X509,
			AnySASLUser: old.AnySASL, Providers: []authprovider.Provider{team{"team"}, team{"seat"}},
		})
		conn := &connection{t: t, r: r, ids: ids("ip:1.1.1.1")}
		c.prove(conn)
		if id, gone := r.Withdrawn(conn.grants); gone {
			t.Errorf("%s: %v is gone before anything has changed", name, id)
		}
		r.SetSuperusers(c.next)
		id, gone := r.Withdrawn(conn.grants)
		if gone != (c.gone != "") || gone && id != ids(c.gone)[0] {
			t.Errorf("%s: gone is %v (%v); want %q", name, id, gone, c.gone)
		}
		conn.prove("digest", "super:test")
		if c.next.Digest == was {
			continue
		}
		again := func(g Grant) bool { return g.ID.Scheme == super && g.By.ID == was && g.Generation > 0 }
		if slices.ContainsFunc(conn.grants, again) {
			t.Errorf("%s: the former superuser's credential gives %v", name, conn.grants)
		}
	}
}

// TestGranted: a credential that is given again replaces what it has given before, so that nobody makes the list long.
func TestGranted(t *testing.T) {
	const super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
	r := registry(t, Options{SuperDigest: super, Providers: []authprovider.Provider{timed{}}})
	c := &connection{t: t, r: r}
	for range 100 {
		c.prove("digest", "super:test")
		c.prove("timed", "ann boss")
		c.prove("timed", "until ann boss")
	}
	if len(c.grants) != 4 {
		t.Errorf("it has %d grants: %v", len(c.grants), c.grants)
	}
}

// TestGrantedKeepsTheLater: of two expiries of one credential the later one counts; no expiry is later than any.
func TestGrantedKeepsTheLater(t *testing.T) {
	id, by := jute.ID{Scheme: "club", ID: "ann"}, jute.ID{Scheme: "club"}
	for _, c := range []struct{ old, more, want int64 }{
		{0, 0, 0}, {0, 5, 0}, {5, 0, 0}, {5, 6, 6}, {6, 5, 6}, {5, 5, 5},
	} {
		old := []Grant{{ID: id, By: by, Until: c.old}}
		got := Granted(old, []Grant{{ID: id, By: by, Until: c.more, Generation: 7}})
		if len(got) != 1 || got[0].Until != c.want || got[0].Generation != 7 {
			t.Errorf("%d, then %d: %v", c.old, c.more, got)
		}
		if old[0].Until != c.old {
			t.Errorf("%d, then %d: the old grants became %v", c.old, c.more, old)
		}
	}
}

// TestNoSuperuser: if there is no superuser by certificate, no certificate gives superuser rights, not even one without
// a name.
func TestNoSuperuser(t *testing.T) {
	s := superusers{generation: 2}
	for _, by := range []jute.ID{{Scheme: x509}, {Scheme: digest}, {Scheme: sasl}} {
		if s.gives(&Grant{ID: jute.ID{Scheme: super}, By: by, Generation: 1}) {
			t.Errorf("%s gives the rights of a superuser", by.Scheme)
		}
	}
}

// TestExpired: an identity expires with its last credential. A credential of a former superuser doesn't keep superuser
// rights.
func TestExpired(t *testing.T) {
	const super = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="
	for name, c := range map[string]struct {
		prove func(c *connection)
		next  string
		want  string
	}{
		"one":         {func(c *connection) { c.prove("timed", "until ann") }, super, "timed:ann"},
		"renewed":     {func(c *connection) { c.prove("timed", "until ann"); c.prove("timed", "ann") }, super, ""},
		"the longer":  {func(c *connection) { c.prove("timed", "ann"); c.prove("timed", "until ann") }, super, ""},
		"another one": {func(c *connection) { c.prove("timed", "until ann"); c.prove("timed", "bob") }, super, "timed:ann"},
		"a superuser by both": {
			func(c *connection) { c.prove("digest", "super:test"); c.prove("timed", "until boss") }, super, "",
		},
		"a superuser by both, then by neither": {
			func(c *connection) { c.prove("digest", "super:test"); c.prove("timed", "until boss") }, "", "super:",
		},
		"a former superuser": {func(c *connection) { c.prove("digest", "super:test") }, "", ""}, // that is Withdrawn's
	} {
		r := registry(t, Options{SuperDigest: super, Providers: []authprovider.Provider{timed{}}})
		conn := &connection{t: t, r: r}
		c.prove(conn)
		r.SetSuperusers(Superusers{Digest: c.next})
		if id, expired := r.Expired(conn.grants, 1e9-1); expired {
			t.Errorf("%s: %v has expired too early", name, id)
		}
		if id, expired := r.Expired(conn.grants, 1e9); expired != (c.want != "") || expired && id != ids(c.want)[0] {
			t.Errorf("%s: %v has expired (%v); want %q", name, id, expired, c.want)
		}
	}
}
