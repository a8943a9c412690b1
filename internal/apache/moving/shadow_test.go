//go:build unix

package moving

import (
	"bytes"
	"strings"
	"testing"
)

// TestShadowCommand: both of its names, and the flags for TLS to the shadow.
func TestShadowCommand(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"shadow -h", 0, "usage: zooid shadow"},
		{"migrate shadow -h", 0, "usage: zooid shadow"},
		{"shadow a:1 b:2", 2, "name -listen ADDRESS"},
		{"shadow -tls-ca nowhere.pem -listen 127.0.0.1:0 a:1 b:2", 2, "nowhere.pem"},
		{"shadow -listen 256.0.0.1:0 a:1 b:2", 2, "256.0.0.1"},
		{"migrate", 2, "zooid migrate shadow"},
	} {
		var out bytes.Buffer
		if code := run(strings.Fields(c.args), &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("zooid %s: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}
