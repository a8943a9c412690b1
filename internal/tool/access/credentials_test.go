package access

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCredentials: a token may be in a file; of another scheme @ is a character.
func TestCredentials(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	token, empty := filepath.Join(dir, "token"), filepath.Join(dir, "empty")
	for file, text := range map[string]string{token: "planted\n", empty: " \n"} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct{ scheme, text, want string }{
		{"bearer", "@" + token, "planted"}, {"bearer", "planted", "planted"}, {"digest", "@" + token, "@" + token},
		{"bearer", "@" + empty, ""}, {"bearer", "@" + dir + "/missing", ""},
	} {
		got, err := Credentials(c.scheme, c.text)
		if string(got) != c.want || (err == nil) != (c.want != "") || err != nil && strings.Contains(err.Error(), "planted") {
			t.Errorf("%s %s: %q, %v; want %q", c.scheme, c.text, got, err, c.want)
		}
	}
	a := &Access{}
	if err := a.AddAuth("bearer:@" + token); err != nil || string(a.auth[0].Auth) != "planted" {
		t.Errorf("%+v, %v", a.auth, err)
	}
	if err := a.AddAuth("bearer:@" + empty); err == nil {
		t.Error("an empty token is taken")
	}
}
