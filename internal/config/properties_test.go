package config

import (
	"encoding/hex"
	"os"
	"strconv"
	"strings"
	"testing"
	"unicode/utf16"
)

// The file holds texts in hexadecimal with the keys and values, or the error, that java.util.Properties.load gave for
// them (OpenJDK 17), trimmed with String.trim.
func TestPropertiesReadAsJavaReadsThem(t *testing.T) {
	t.Parallel()
	golden, err := os.ReadFile("testdata/java_properties.txt")
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSuffix(string(golden), "\n"), "\n")
	if len(lines) < 300 {
		t.Fatalf("only %d cases", len(lines))
	}
	for _, line := range lines {
		fields := strings.Split(line, "\t")
		input, err := hex.DecodeString(fields[0])
		if err != nil {
			t.Fatal(err)
		}
		var got []string
		props, bad := parseProperties(input)
		for _, p := range props {
			got = append(got, p.key, p.value)
		}
		if bad != nil {
			got = []string{"error"}
		}
		var want []string
		for _, f := range fields[1:] {
			want = append(want, unquoteJava(t, f))
		}
		if strings.Join(got, "\x00") != strings.Join(want, "\x00") || len(got) != len(want) {
			t.Errorf("%q\n got %q\nJava %q", input, got, want)
		}
	}
}

func TestPropertyLinesAreCounted(t *testing.T) {
	t.Parallel()
	props, err := parseProperties([]byte("# c\n\na=1\r\nb=2\\\n  3\rc=4\n\n!x\nd\n"))
	if err != nil {
		t.Fatal(err)
	}
	var got strings.Builder
	for _, p := range props {
		got.WriteString(p.key + "=" + p.value + "@" + strconv.Itoa(p.line) + "-" + strconv.Itoa(p.last) + " ")
	}
	if want := "a=1@3-3 b=23@4-5 c=4@6-6 d=@9-9 "; got.String() != want {
		t.Errorf("got  %s\nwant %s", got.String(), want)
	}
}

// unquoteJava reads "..." where \u escapes may be the halves of a surrogate pair.
func unquoteJava(t *testing.T, s string) string {
	if !strings.HasPrefix(s, `"`) {
		return s
	}
	var units []uint16
	for s = strings.Trim(s, `"`); s != ""; {
		n := 1
		unit := uint64(s[0])
		if s[0] == '\\' {
			var err error
			if unit, err = strconv.ParseUint(s[2:6], 16, 16); err != nil {
				t.Fatal(err)
			}
			n = 6
		}
		units, s = append(units, uint16(unit)), s[n:]
	}
	return string(utf16.Decode(units))
}
