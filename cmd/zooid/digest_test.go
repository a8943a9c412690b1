package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestDigestCommand: the digest is the one that Apache's administrator's guide shows, and no mistake repeats a
// password.
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
		{[]string{"-alg", "SHA-256", "super:test"}, "", 0, "super:wjySwxg860UATFtciuZ1lpzrCHrPeov6SPu/ZD56uig=\n"},
		{[]string{"-alg", "CRC32", "super:secret"}, "", 2, "unknown hash"},
		{[]string{"secret"}, "", 2, "separated by a colon"},
		{[]string{"-"}, "super:secret" + strings.Repeat("x", credentialMax), 2, "at most 4096 bytes"},
		{nil, "", 2, "usage:"},
	} {
		var out bytes.Buffer
		code := digestOf(c.args, strings.NewReader(c.stdin), &out, &out)
		said := out.String() == c.says
		if c.code != 0 {
			said = strings.Contains(out.String(), c.says) && !strings.Contains(out.String(), "secret")
		}
		if code != c.code || !said {
			t.Errorf("%q: exit %d, %q; want %d, %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}
