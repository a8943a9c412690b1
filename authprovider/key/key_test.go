package key

import (
	"testing"

	"github.com/zooid-project/zooid/authprovider"
)

// TestKey has what Apache's sample takes and refuses.
func TestKey(t *testing.T) {
	t.Parallel()
	p := New()
	if p.Scheme() != "key" || !p.IsAuthenticated() || !p.IsValid("x") {
		t.Fatal(p)
	}
	for _, c := range []struct {
		key, auth string
		exists    bool
		in        bool
	}{
		{"", "whatever", false, true},
		{"7", "21", true, true},
		{"7", "0", true, true},
		{"7", "-14", true, true},
		{"7", "22", true, false},
		{"7", "", true, false},
		{"7", "x", true, false},
		{"0", "5", true, true},
		{"", "5", true, false},
		{"x", "5", true, false},
		{"7", "21474836487", true, false},
	} {
		data := func(path string) ([]byte, bool) { return []byte(c.key), c.exists && path == "/key" }
		ids, err := p.HandleAuthentication(authprovider.Request{Scheme: "key", Auth: []byte(c.auth), Data: data})
		if (err == nil) != c.in || c.in != (len(ids.IDs) == 1 && ids.IDs[0] == "") || ids.Super {
			t.Errorf("/key %q (%v), credential %q: %v, %v", c.key, c.exists, c.auth, ids, err)
		}
	}
}
