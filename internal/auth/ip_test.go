package auth

import (
	"testing"

	"github.com/zooid-project/zooid/jute"
)

func TestAddressID(t *testing.T) {
	v6 := func(tail ...byte) []byte { return append(make([]byte, 16-len(tail)), tail...) }
	for _, tc := range []struct {
		addr []byte
		zone string
		want string
	}{
		{[]byte{127, 0, 0, 1}, "", "127.0.0.1"},
		{[]byte{0, 0, 0, 0}, "", "0.0.0.0"},
		{[]byte{255, 10, 0, 99}, "", "255.10.0.99"},
		{v6(1), "", "0:0:0:0:0:0:0:1"},
		{v6(), "", "0:0:0:0:0:0:0:0"},
		{v6(0xff, 0xff, 10, 0, 0, 1), "eth0", "10.0.0.1"},
		{v6(10, 0, 0, 1), "", "0:0:0:0:0:0:a00:1"},
		{append([]byte{0x20, 0x01, 0x0d, 0xb8}, v6(0xab, 0xcd)[4:]...), "", "2001:db8:0:0:0:0:0:abcd"},
		{append([]byte{0xfe, 0x80}, v6(7)[2:]...), "eth0", "fe80:0:0:0:0:0:0:7%eth0"},
		{nil, "", ""},
		{[]byte{1, 2, 3}, "", ""},
	} {
		if got := AddressID(tc.addr, tc.zone); got != (jute.ID{Scheme: "ip", ID: tc.want}) {
			t.Errorf("AddressID(%v, %q) = %v", tc.addr, tc.zone, got)
		}
	}
}

func TestIPValid(t *testing.T) {
	for _, s := range []string{
		"0.0.0.0", "255.255.255.255", "10.0.0.1/0", "10.0.0.1/32", "10.0.0.1/08", "010.001.0.0",
		"2001:0db8:85a3:0000:0000:8a2e:0370:7334", "2001:db8::8a2e:370:7334", "2001:db8::1", "::1", "::", "1::",
		"1:2:3:4:5:6:7:8", "1::3:4:5:6:7:8", "::2:3:4:5:6:7:8", "1:2:3:4:5:6:7::", "ABCD::ef", "::1/0", "::/128", "fe80::/10",
	} {
		if !validID(jute.ID{Scheme: "ip", ID: s}) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{
		"", "a", "1", "localhost", "10.0.0", "10.0.0.0.0", "10.0.0.", ".0.0.0", "10..0.1", "256.0.0.0", "10.0.0.-1",
		"+1.0.0.0",
		"10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/", "10.0.0.1/a", "10.0.0.1/8/8", "10.0.0.1/ 8", " 10.0.0.1", "10.0.0.1 ",
		"a.b.c.d",
		"99999999999999999999.0.0.0", "10.0.0.1/99999999999999999999", "/8", "1/8",
		"1:2", "1::2:", ":1::2:", ":1", "1:", ":", ":::", "1:2:3:4:5:6:7:8:", "1:2:3:4:5:6:7:8:9", "1:2::3:4:5:6:7:8",
		"1::2::", "1:abcdf::",
		"efgh::", "1:: ", " 1::", "::1/129", "::1/", "::1/-1", "::ffff:1.2.3.4", "fe80::1%eth0", "+1::", "-1::", "00001::",
	} {
		if validID(jute.ID{Scheme: "ip", ID: s}) {
			t.Errorf("%q is accepted", s)
		}
	}
}

func TestIPMatch(t *testing.T) {
	for _, tc := range []struct {
		acl, id string
		want    bool
	}{
		{"10.1.2.3", "10.1.2.3", true},
		{"10.1.2.3", "10.1.2.4", false},
		{"010.1.2.3", "10.1.2.3", true},
		{"10.1.2.3/32", "10.1.2.3", true},
		{"10.1.2.3/31", "10.1.2.2", true},
		{"10.1.2.3/31", "10.1.2.4", false},
		{"10.1.2.3/25", "10.1.2.127", true},
		{"10.1.2.3/25", "10.1.2.128", false},
		{"10.1.99.99/16", "10.1.2.3", true},
		{"10.2.0.0/16", "10.1.2.3", false},
		{"10.0.0.0/9", "10.127.0.1", true},
		{"10.0.0.0/9", "10.128.0.1", false},
		{"128.0.0.0/1", "255.0.0.1", true},
		{"128.0.0.0/1", "127.0.0.1", false},
		{"1.2.3.4/0", "99.0.0.1", true},
		{"::1", "0:0:0:0:0:0:0:1", true},
		{"::2", "0:0:0:0:0:0:0:1", false},
		{"2001:db8::/32", "2001:db8:0:0:0:0:0:7", true},
		{"2001:db8::/32", "2001:db9:0:0:0:0:0:7", false},
		{"2001:DB8::7", "2001:db8:0:0:0:0:0:7", true},
		{"2001:db8::/31", "2001:db9:0:0:0:0:0:7", true},
		{"fe80::/10", "febf:0:0:0:0:0:0:1", true},
		{"fe80::/10", "fec0:0:0:0:0:0:0:1", false},
		{"::/0", "fec0:0:0:0:0:0:0:1", true},
		{"::/0", "10.0.0.1", false},
		{"0.0.0.0/0", "0:0:0:0:0:0:0:1", false},
		{"10.0.0.1", "0:0:0:0:0:0:a00:1", false},
		{"::a00:1", "10.0.0.1", false},
		{"fe80::/10", "fe80:0:0:0:0:0:0:7%eth0", false}, // as Apache
		{"garbage", "garbage", false},
		{"10.0.0.1/33", "10.0.0.1", false},
		{"10.0.0.1/x", "10.0.0.1", false},
		{"", "", false},
		{"10.0.0.1", "", false},
	} {
		if got := blockHolds(tc.acl, tc.id); got != tc.want {
			t.Errorf("ACL id %q holds %q: %v", tc.acl, tc.id, got)
		}
	}
}

// FuzzIP: no text panics; what is valid as an address covers itself; a wider
// block covers what a narrower one does.
func FuzzIP(f *testing.F) {
	for _, s := range []string{
		"10.0.0.1", "10.0.0.0/8", "::1", "2001:db8::/32", "1:2:3:4:5:6:7:8", "::ffff:1.2.3.4", ":::", "1.2.3.4/33",
	} {
		f.Add(s, "10.0.0.1")
	}
	f.Fuzz(func(t *testing.T, acl, id string) {
		b, ok := parseBlock(acl)
		_, idOK := parseAddress(id)
		holds := blockHolds(acl, id)
		if holds && (!ok || !idOK) {
			t.Errorf("the block %q (valid: %v) holds %q (valid: %v)", acl, ok, id, idOK)
		}
		if idOK && !blockHolds(id, id) {
			t.Errorf("%q doesn't hold itself", id)
		}
		if holds && ok && b.bits > 0 {
			// The textual forms may differ, the meaning of /0 doesn't.
			wide := "0.0.0.0/0"
			if b.size == 16 {
				wide = "::/0"
			}
			if !blockHolds(wide, id) {
				t.Errorf("%s doesn't hold %q, which %q does", wide, id, acl)
			}
		}
	})
}
