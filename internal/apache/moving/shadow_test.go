//go:build unix

package moving

import (
	"bytes"
	"strings"
	"testing"
)

// TestShadowCommand: both of its names, and its flags with those for TLS to the shadow.
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
		{"shadow -listen :0 a:1", 2, "the primary and the shadow"},
		{"shadow -listen :0 a b:2", 2, "HOST:PORT"},
		{"shadow -listen :0 a:1 b:2,c", 2, "HOST:PORT"},
		{"shadow -listen", 2, "needs a value"},
		{"shadow -x=1 a:1 b:2", 2, "no flag -x"},
		{"shadow -auth digest:a:b a:1 b:2", 2, "no flag -auth"},
		{"shadow -tlsx a:1 b:2", 2, "-tlsx"},
		{"shadow -ignore nothing a:1 b:2", 2, "no field"},
		{"shadow -every -1s a:1 b:2", 2, "must not be negative"},
		{"shadow -max x a:1 b:2", 2, "-max x: want a number"},
		{"shadow -drain -1s a:1 b:2", 2, "must not be negative"},
		{"shadow -listen 256.0.0.1:0 -tls a:1 b:2", 2, "256.0.0.1"},
		{"migrate", 2, "zooid migrate shadow"},
	} {
		var out bytes.Buffer
		if code := run(strings.Fields(c.args), &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
			t.Errorf("zooid %s: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}
