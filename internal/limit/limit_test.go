package limit

import (
	"strings"
	"testing"
)

// TestText: limits are written and read back; what is no limit of a scope, no number or too
// long is refused.
func TestText(t *testing.T) {
	for s := range Scopes {
		got, err := Parse(s, Default(s).Text(s), Set{})
		if err != nil || got != Default(s) {
			t.Errorf("%s: %q is read back as %v, %v", s, Default(s).Text(s), got, err)
		}
	}
	got, err := Parse(Connection, "requests=5, bytes=0", Default(Connection))
	if want := Default(Connection); err != nil || got[Requests] != 5 || got[Bytes] != 0 || got[Watches] != want[Watches] {
		t.Errorf("read %v, %v", got, err)
	}
	for _, text := range []string{
		"requests", "requests=", "requests=-1", "requests=1x", "children=5", "=", "requests=1099511627777", strings.Repeat(" ", TextBytesMax+1),
	} {
		if _, err := Parse(Connection, text, Set{}); err == nil {
			t.Errorf("%.40q is taken for limits of a connection", text)
		}
	}
}

// TestPlaces: the name of a place's znode tells the place again, and no other name does.
func TestPlaces(t *testing.T) {
	for _, text := range []string{"connection", "address", "identity", "/", "/app", "/a/b", "/a%2Fb", "/%", "/ä"} {
		p, ok := ParsePlace(text)
		if !ok || p.String() != text {
			t.Errorf("%q is read as %v, %v", text, p, ok)
			continue
		}
		if back, ok := PlaceOf(strings.TrimPrefix(p.Znode(), Root+"/")); !ok || back != p {
			t.Errorf("%s: %s is the znode of %v, %v", text, p.Znode(), back, ok)
		}
	}
	for _, name := range []string{"", "app", "path", "%2Fa%2F", "%2Fa%", "%2fa"} {
		if p, ok := PlaceOf(name); ok {
			t.Errorf("the znode %q is taken for that of %v", name, p)
		}
	}
}

// TestRate: a second's worth at once, then the rate, and no more debt than debtMax.
func TestRate(t *testing.T) {
	const perSecond = 100
	var r Rate
	now := int64(1e12)
	used := 0
	for r.Owes(now) <= 0 {
		r.Use(now, 1, perSecond)
		used++
	}
	if used != perSecond+1 { // what is used is counted afterwards
		t.Errorf("%d were used at once, want %d", used, perSecond+1)
	}
	for range perSecond {
		if now += 1e9 / perSecond; r.Owes(now) > 0 {
			t.Fatalf("after %d ns nothing may be used", now-1e12)
		}
		r.Use(now, 1, perSecond)
	}
	if r.Use(now, ValueMax, 1); r.Owes(now) != debtMax {
		t.Errorf("it owes %d ns, want at most %d", r.Owes(now), debtMax)
	}
	if r.Rested(now+debtMax) || !r.Rested(now+debtMax+burst) {
		t.Error("a rate is forgotten early, or never")
	}
	if r = (Rate{}); r.Owes(now) > 0 {
		t.Error("a new rate owes something")
	}
}
