package jute

import (
	"errors"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCheckPath(t *testing.T) {
	for _, p := range []string{
		"/", "/a", "/a/b", "/ ", "/a b/c",
		"/.a", "/a.", "/...", "/a/..b", "/.../x", "/\u00a0", "/ü", "/漢字", "/\ud7ff", "/\uf900", "/\uffef", "/~", "/a:b@c$%&",
		"/\u2028", "/e\u0301", "/" + strings.Repeat("x", 1<<20), strings.Repeat("/x", 1<<18), "/\ufb01", "/\u200b", "/\u00ad",
	} {
		if err := CheckPath(p); err != nil {
			t.Errorf("%.40q: %v", p, err)
		}
	}
	for _, tc := range []struct {
		path   string
		offset int
	}{
		{"", 0},
		{"a", 0},
		{"a/b", 0},
		{" /a", 0},
		{"//", 1},
		{"/a/", 2},
		{"//a", 1},
		{"/a//b", 3},
		{"/.", 1},
		{"/..", 1},
		{"/./a", 1},
		{"/../a", 1},
		{"/a/.", 3},
		{"/a/..", 3},
		{"/a/./b", 3},
		{"/a/../b", 3},
		{"/a\x00", 2},
		{"/\x00/b", 1},
		{"/a\x01", 2},
		{"/a\x1f", 2},
		{"/a\tb", 2},
		{"/a\nb", 2},
		{"/\x7f", 1},
		{"/\u0080", 1},
		{"/\u009f", 1},
		{"/a/\u0085", 3},
		{"/\ue000", 1}, // private use
		{"/\uf8ff", 1},
		{"/\ufff0", 1},
		{"/\ufffd", 1},
		{"/\uffff", 1},
		{"/x\U0001f600", 2}, // surrogates to Java
		{"/\U0010ffff", 1},
		{"/\xff", 1}, // invalid UTF-8 is U+FFFD to Java
		{"/\xc3", 1},
		{"/\xe4\xb8", 1},
		{"/\xc0\xaf", 1},     // overlong slash
		{"/\xed\xa0\x80", 1}, // surrogate encoded
		{"/\xf5\x80\x80\x80", 1},
		{"/ok\x80", 3},
	} {
		err := CheckPath(tc.path)
		var pe *PathError
		if !errors.As(err, &pe) {
			t.Errorf("%q is taken", tc.path)
		} else if pe.Offset != tc.offset || pe.Path != tc.path || pe.Reason == "" {
			t.Errorf("%q: %v, want offset %d", tc.path, err, tc.offset)
		}
	}
}

// slowCheckPath is the rule once more, in words as short as Apache's: by
// characters of UTF-16.
func slowCheckPath(p string) bool {
	if p == "/" {
		return true
	}
	if !utf8.ValidString(p) || !strings.HasPrefix(p, "/") {
		return false
	}
	for _, part := range strings.Split(p[1:], "/") {
		if part == "" || part == "." || part == ".." {
			return false
		}
	}
	for _, r := range p {
		switch {
		case r <= 0x1f, 0x7f <= r && r <= 0x9f, 0xd800 <= r && r <= 0xf8ff, 0xfff0 <= r:
			return false
		}
	}
	return true
}

func TestCheckPathEveryCharacter(t *testing.T) {
	for r := rune(0); r <= 0x11000; r++ {
		p := "/a" + string(r) + "b"
		if got, want := CheckPath(p) == nil, slowCheckPath(p); got != want {
			t.Errorf("U+%04X: %v, want %v", r, got, want)
		}
	}
}

func TestCheckPathDoesNotAllocate(t *testing.T) {
	if n := testing.AllocsPerRun(100, func() { _ = CheckPath("/application/ünïcode/node-0000000001") }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func FuzzPath(f *testing.F) {
	for _, p := range []string{"/", "/a/b", "/a//b", "/./a", "/\xff", "/\U0001f600", "/\ufff0", "a", "/a/"} {
		f.Add(p)
	}
	f.Fuzz(func(t *testing.T, p string) {
		err := CheckPath(p)
		if got, want := err == nil, slowCheckPath(p); got != want {
			t.Errorf("%q: %v, want valid: %v", p, err, want)
		}
	})
}
