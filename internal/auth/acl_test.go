package auth

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

const all = jute.PermAll

// acls reads "scheme:id:perms" entries separated by spaces; perms is a number.
func acls(t testing.TB, text string) []jute.ACL {
	t.Helper()
	var list []jute.ACL
	for _, entry := range strings.Fields(text) {
		scheme, rest, _ := strings.Cut(entry, ":")
		i := strings.LastIndexByte(rest, ':')
		var perms int32
		if _, err := fmt.Sscan(rest[i+1:], &perms); err != nil {
			t.Fatalf("entry %q: %v", entry, err)
		}
		list = append(list, jute.ACL{Perms: jute.Perm(perms), ID: jute.ID{Scheme: scheme, ID: rest[:i]}})
	}
	return list
}

// ids reads "scheme:id" entries separated by spaces.
func ids(text string) []jute.ID {
	var list []jute.ID
	for _, entry := range strings.Fields(text) {
		scheme, id, _ := strings.Cut(entry, ":")
		list = append(list, jute.ID{Scheme: scheme, ID: id})
	}
	return list
}

func TestPermits(t *testing.T) {
	const me = "ip:10.1.2.3 digest:ann:HASH"
	for _, tc := range []struct {
		acl  string
		want jute.Perm
		ids  string
		ok   bool
	}{
		{"", jute.PermDelete, "", true},
		{"", jute.PermAdmin, me, true},
		{"world:anyone:31", jute.PermRead, "", true},
		{"world:anyone:1", jute.PermWrite, me, false},
		{"world:somebody:31", jute.PermRead, me, false},
		{"world:anyone:1 digest:ann:HASH:2", jute.PermWrite, me, true},
		{"digest:ann:HASH:31", jute.PermRead, me, true},
		{"digest:ann:hash:31", jute.PermRead, me, false},
		{"digest:ann:HASH:1", jute.PermRead | jute.PermAdmin, me, true},
		{"digest:ann:HASH:16", jute.PermRead | jute.PermAdmin, me, true},
		{"digest:ann:HASH:2", jute.PermRead | jute.PermAdmin, me, false},
		{"digest:ann:HASH:0", jute.PermRead, me, false},
		{"digest:ann:HASH:64", jute.PermRead, me, false},
		{"digest:ann:HASH:31", 0, me, false},
		{"digest:bob:X:31", all, "super:", true},
		{"digest:bob:X:31", all, "ip:1.1.1.1 super:CN=root", true},
		{"super::31", all, me, false},
		{"super:x:31", all, "digest:x", false},
		{"ip:10.1.2.3:31", all, me, true},
		{"ip:10.1.0.0/16:31", all, me, true},
		{"ip:10.1.0.0/16:31", all, "digest:10.1.2.3", false},
		{"ip:10.2.0.0/16:31", all, me, false},
		{"x509:CN=a:31", all, "x509:CN=a", true},
		{"x509:CN=a:31", all, "x509:CN=A", false},
		{"x509:CN=a:31", all, "digest:CN=a", false},
		{"sasl:ann:31", all, "sasl:ann", true},
		{"sasl:ann:31", all, "sasl:bob", false},
		{"sasl:ann:31", all, "sasl:super", true},
		{"digest:ann:31", all, "sasl:super", false},
		{"sasl:any:31", all, "sasl:bob sasl*:any", true},
		{"sasl:ann:31", all, "sasl:bob sasl*:any", false},
		{"sasl*:any:31", all, "sasl:bob sasl*:any", false},
		{"auth::31", all, "auth: " + me, false},
		{"ensemble:e:31", all, "ensemble:e", false},
		{"foo:x:31", all, "foo:x", true},
		{"foo:x:31", all, "foo?:x", true},
		{"foo:x:31", all, "foo:y", false},
		{"foo:x:31", all, "foo*:x", false},
		{"foo?:x:31", all, "foo?:x", false},
		{"!oo:x:31", all, "!oo:x", false},
	} {
		if got := Permits(acls(t, tc.acl), tc.want, ids(tc.ids)); got != tc.ok {
			t.Errorf("Permits(%q, %d, %q) = %v", tc.acl, tc.want, tc.ids, got)
		}
	}
}

func TestPermitsDoesNotAllocate(t *testing.T) {
	me := ids("ip:2001:db8:0:0:0:0:0:7 digest:ann:HASH sasl:ann@REALM")
	for _, text := range []string{
		"world:anyone:31", "digest:ann:HASH:31", "digest:bob:HASH:31 ip:10.0.0.0/8:31",
		"ip:2001:db8::/32:31", "ip:10.0.0.0/8:31 ip:garbage:31 sasl:bob:31",
	} {
		acl := acls(t, text)
		if n := testing.AllocsPerRun(100, func() { Permits(acl, jute.PermRead, me) }); n != 0 {
			t.Errorf("Permits of %q allocates %v times", text, n)
		}
	}
}

func TestFix(t *testing.T) {
	std := NewSchemes("ip", "digest")
	const me = "ip:10.1.2.3 digest:ann:H1 super: digest:ann:H2"
	for _, tc := range []struct {
		acl     string
		ids     string
		schemes Schemes
		want    string // "" is InvalidACL
	}{
		{"", me, std, ""},
		{"world:anyone:31", me, std, "world:anyone:31"},
		{"world:anyone:31", "", nil, "world:anyone:31"},
		{"world:anyone:0", me, std, "world:anyone:0"},
		{"world:anyone:-1", me, std, "world:anyone:-1"},
		{"world:anyone:99", me, std, "world:anyone:99"},
		{"world:other:31", me, std, ""},
		{"world::31", me, std, ""},
		{"world:anyone:31 world:anyone:31", me, std, "world:anyone:31"},
		{"world:anyone:31 world:anyone:1 world:anyone:31", me, std, "world:anyone:31 world:anyone:1"},
		{"digest:b:X:1 world:anyone:1 digest:b:X:1", me, std, "digest:b:X:1 world:anyone:1"},
		{"auth::31", me, std, "digest:ann:H1:31 digest:ann:H2:31"},
		{"auth:ignored:4", me, std, "digest:ann:H1:4 digest:ann:H2:4"},
		{"world:anyone:1 auth::6", me, std, "world:anyone:1 digest:ann:H1:6 digest:ann:H2:6"},
		// As in Apache, what "auth" expands to is not compared with the rest.
		{"digest:ann:H1:31 auth::31", me, std, "digest:ann:H1:31 digest:ann:H1:31 digest:ann:H2:31"},
		{"auth::31", "ip:10.1.2.3", std, ""},
		{"auth::31", "ip:10.1.2.3 super:", std, ""},
		{"world:anyone:1 auth::31", "", std, ""},
		{"auth::31", "sasl:ann sasl*:any x509:CN=a", std, "sasl:ann:31 x509:CN=a:31"},
		{"digest:a:b:31", me, std, "digest:a:b:31"},
		{"digest:a:b:31", me, NewSchemes("ip"), ""},
		{"digest:a:31", me, std, ""},
		{"ip:10.0.0.0/8:31", me, std, "ip:10.0.0.0/8:31"},
		{"ip:10.0.0.0/33:31", me, std, ""},
		{"ip:::1/128:31", me, std, "ip:::1/128:31"},
		{"sasl:ann:31", me, std, ""},
		{"sasl:ann:31", me, NewSchemes("sasl"), "sasl:ann:31"},
		{"x509:CN=a:31", me, NewSchemes("x509"), "x509:CN=a:31"},
		{"x509:ann:31", me, NewSchemes("x509"), ""},
		{"ensemble:e:31", me, NewSchemes("ensemble"), ""},
		{"super::31", me, NewSchemes("super"), ""},
		{"foo:x:31", me, NewSchemes("foo"), ""},
		{"::31", me, std, ""},
		{"world:anyone:31 foo:x:31", me, std, ""},
	} {
		got, ok := Fix(acls(t, tc.acl), ids(tc.ids), tc.schemes, &Budget{Entries: 1 << 20, Expanded: 1 << 20})
		if want := acls(t, tc.want); ok != (tc.want != "") || !slices.Equal(got, want) {
			t.Errorf("Fix(%q, %q, %v) = %v, %v", tc.acl, tc.ids, tc.schemes, got, ok)
		}
	}
}

// TestFixLongList compares the two ways to find duplicates, and shows that a
// long hostile list takes linear work by finishing.
func TestFixLongList(t *testing.T) {
	var list, want []jute.ACL
	for i := range 50_000 {
		a := jute.ACL{Perms: all, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("u:%d", i%40_000)}}
		list = append(list, a)
		if i < 40_000 {
			want = append(want, a)
		}
	}
	if got, ok := Fix(list, nil, NewSchemes("digest"), &Budget{Entries: 1 << 20, Expanded: 1 << 20}); !ok ||
		!slices.Equal(got, want) {
		t.Errorf("Fix of 50,000 entries with 10,000 duplicates: %d entries, %v; want %d", len(got), ok, len(want))
	}
}

// TestFixAmplification: "auth" entries that differ in their ignored id, times
// the identities of the connection, must not become an endless list.
func TestFixAmplification(t *testing.T) {
	var list []jute.ACL
	for i := range 100 {
		list = append(list, jute.ACL{Perms: all, ID: jute.ID{Scheme: "auth", ID: fmt.Sprint(i)}})
	}
	var many []jute.ID
	for i := range IDsMax {
		many = append(many, jute.ID{Scheme: "digest", ID: fmt.Sprintf("u%02d:h", i)})
	}
	const entrySize = 4 + 4 + 6 + 4 + 5
	for _, tc := range []struct {
		entries int // of the list
		budget  Budget
		left    int // of Expanded, -1 if the list is refused
	}{
		{100, Budget{Entries: 100 * IDsMax, Expanded: 100 * IDsMax * entrySize}, 0},
		{100, Budget{Entries: 100*IDsMax - 1, Expanded: 1 << 30}, -1},
		{100, Budget{Entries: 1 << 30, Expanded: 100*IDsMax*entrySize - 1}, -1},
		{3, Budget{Entries: 3 * IDsMax, Expanded: 1 << 20}, 1<<20 - 3*IDsMax*entrySize},
	} {
		b := tc.budget
		fixed, ok := Fix(list[:tc.entries], many, NewSchemes("digest"), &b)
		if ok != (tc.left >= 0) || ok && (b.Expanded != tc.left || len(fixed) != tc.entries*IDsMax) {
			t.Errorf("%d entries, %+v: %d entries, %t, %+v left", tc.entries, tc.budget, len(fixed), ok, b)
		}
	}
	b := Budget{Entries: 10, Expanded: 0}
	for range 2 { // what isn't expanded costs nothing
		if _, ok := Fix([]jute.ACL{{Perms: all, ID: many[0]}}, many, NewSchemes("digest"), &b); !ok || b.Expanded != 0 {
			t.Errorf("a plain list: %t, %+v left", ok, b)
		}
	}
}

func TestFixLeavesItsInputAlone(t *testing.T) {
	list := acls(t, "auth::31 world:anyone:1 world:anyone:1 digest:a:b:3")
	before := slices.Clone(list)
	Fix(list, ids("digest:x:y"), NewSchemes("digest"), &Budget{Entries: 1 << 20, Expanded: 1 << 20})
	Mask(list)
	if !slices.Equal(list, before) {
		t.Errorf("the list became %v", list)
	}
}

// TestCVE20190201 is the leak of digest hashes to whoever may call getACL.
func TestCVE20190201(t *testing.T) {
	for in, want := range map[string]string{
		"digest:ann:SECRET=:31":                                   "digest:ann:x:31",
		"world:anyone:1 digest:ann:S:2 ip:1.2.3.4:4 digest:b:S:8": "world:anyone:1 digest:ann:x:2 ip:1.2.3.4:4 digest:b:x:8",
		"digest:a:b:c:31":                                         "digest:a:x:31",
		"digest:bare:31":                                          "digest:bare:31",
		"sasl:a:b:31":                                             "sasl:a:b:31",
		"x509:CN=a:b:31":                                          "x509:CN=a:b:31",
		"ip:::1:31":                                               "ip:::1:31",
		"":                                                        "",
	} {
		if got := Mask(acls(t, in)); !slices.Equal(got, acls(t, want)) {
			t.Errorf("Mask(%q) = %v, want %q", in, got, want)
		}
	}
}

// TestCVE202423944 is the half of the watch event leak that this package can
// show: READ decides, and no other permission stands in for it.
func TestCVE202423944(t *testing.T) {
	for p := jute.Perm(0); p <= jute.PermAll; p++ {
		acl := []jute.ACL{{Perms: p, ID: jute.ID{Scheme: "digest", ID: "ann:H"}}}
		if got := Permits(acl, jute.PermRead, ids("ip:10.0.0.1 digest:ann:H")); got != (p&jute.PermRead != 0) {
			t.Errorf("perms %05b: READ is %v", p, got)
		}
	}
}

func BenchmarkPermits(b *testing.B) {
	me := ids("ip:10.1.2.3 digest:ann:HASH")
	for _, text := range []string{"world:anyone:31", "digest:ann:HASH:31", "ip:10.0.0.0/8:31"} {
		acl := acls(b, text)
		b.Run(strings.SplitN(text, ":", 2)[0], func(b *testing.B) {
			for b.Loop() {
				Permits(acl, jute.PermRead, me)
			}
		})
	}
}
