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
		"requests", "requests=", "requests=-1", "requests=1x", "children=5", "=", "requests=1099511627777",
		strings.Repeat(" ", TextBytesMax+1),
	} {
		if _, err := Parse(Connection, text, Set{}); err == nil {
			t.Errorf("%.40q is taken for limits of a connection", text)
		}
	}
}

// TestMerge: of two texts the second one counts for what both name.
func TestMerge(t *testing.T) {
	if got, want := Merge("requests=1, bytes=2\nwatches=3",
		"bytes=7 bytes=4\trequests=0"), "bytes=4 requests=0 watches=3"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
	s := Set{Value: 5, Depth: 3}
	for numbers, want := range map[[Kinds]int64]string{
		{}: "", {Value: 5, Depth: 3, Children: 9}: "", {Value: 6, Depth: 4}: "value=5", {Depth: 4}: "depth=3",
	} {
		if got := s.Exceeded(&numbers); got != want {
			t.Errorf("%v: %q, want %q", numbers, got, want)
		}
	}
}

// FuzzParse: what Parse takes, Text writes so that it is read again, and Merge changes nothing that isn't named.
func FuzzParse(f *testing.F) {
	f.Add(0, "requests=5, bytes=0", "watches=7")
	f.Add(1, "connects=1\tconnects=2", "connects=3 connects=1")
	f.Add(2, "connections=1099511627776", "")
	f.Add(3, "value=4 depth=3\nchildren=2", "=")
	f.Fuzz(func(t *testing.T, scope int, text, more string) {
		s := Scope(uint(scope) % uint(Scopes))
		got, err := Parse(s, text, Default(s))
		if err != nil {
			return
		}
		if back, err := Parse(s, got.Text(s), Set{}); err != nil || back != got {
			t.Errorf("%q is read as %v, whose text is read as %v, %v", text, got, back, err)
		}
		for k, n := range got {
			if n < 0 || n > ValueMax {
				t.Errorf("%q: %s is %d", text, Kind(k), n)
			}
		}
		want, err := Parse(s, more, got)
		if err != nil || len(Merge(text, more)) > TextBytesMax {
			return
		}
		if merged, err := Parse(s, Merge(text, more), Default(s)); err != nil || merged != want {
			t.Errorf("%q and then %q: %v; merged to %q: %v, %v", text, more, want, Merge(text, more), merged, err)
		}
	})
}

// FuzzPlaces: a name is that of one place's znode alone.
func FuzzPlaces(f *testing.F) {
	for _, name := range []string{"connection", "%2Fapp", "%2Fa%252F", "%", "%2F"} {
		f.Add(name)
	}
	f.Fuzz(func(t *testing.T, name string) {
		if p, ok := PlaceOf(name); ok && p.Znode() != Root+"/"+name {
			t.Errorf("%q is that of %v, whose znode is %s", name, p, p.Znode())
		}
		if p, ok := ParsePlace(name); ok {
			if back, ok := PlaceOf(p.Znode()[len(Root)+1:]); !ok || back != p {
				t.Errorf("%v is read back as %v, %v", p, back, ok)
			}
		}
	})
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
