package admin

import (
	"net/http"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
)

// TestTop: what clients ask for most, with names that are meant to deceive, and how many of it.
func TestTop(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	c, err := zk.Open(t.Context(), r.server.Addrs()[0].String(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	const hot, odd = "/hot", "/\u202e\"\\<script>é"
	long := "/" + strings.Repeat("l", 5000)
	if err := c.AddAuth(t.Context(), "digest", []byte("somebody:secret")); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{hot, odd, long} {
		if _, err := c.Create(t.Context(), path, make([]byte, 10), zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := c.Set(t.Context(), long, make([]byte, 500_000), -1); err != nil {
		t.Fatal(err)
	}
	for range 30 {
		if _, _, err := c.Get(t.Context(), hot); err != nil {
			t.Fatal(err)
		}
	}
	status, answer := r.command(http.MethodGet, "top", "", "")
	if status != http.StatusOK || answer["error"] != nil || answer["requests_per_second"].(float64) <= 0 ||
		answer["sampled_every"] != 1.0 {
		t.Fatalf("%d, %v", status, answer)
	}
	keys := func(by, kind string) (all []string) {
		for _, e := range answer[by].(map[string]any)[kind].([]any) {
			all = append(all, e.(map[string]any)["key"].(string))
		}
		return all
	}
	if paths := keys("by_requests", "paths"); len(paths) != 3 || paths[0] != hot || paths[1] != long[:256] ||
		paths[2] != odd {
		t.Errorf("paths by requests: %q", paths)
	}
	if paths := keys("by_bytes", "paths"); len(paths) != 3 || paths[0] != long[:256] {
		t.Errorf("paths by bytes: %q", paths)
	}
	if ops := keys("by_requests", "operations"); len(ops) < 3 || ops[0] != "getData" {
		t.Errorf("operations: %q", ops)
	}
	if sessions := keys("by_requests", "sessions"); len(sessions) != 1 || !strings.HasPrefix(sessions[0], "0x") ||
		!strings.Contains(sessions[0], " 127.0.0.1:") {
		t.Errorf("sessions: %q", sessions)
	}
	ids := strings.Join(keys("by_requests", "identities"), " ")
	if !strings.Contains(ids, "ip:127.0.0.1") || !strings.Contains(ids, "digest:somebody") ||
		strings.Contains(ids, "somebody:") {
		t.Errorf("identities: %s", ids)
	}
	if _, answer = r.command(http.MethodGet, "top?n=1", "", ""); len(keys("by_requests", "paths")) != 1 {
		t.Errorf("one of each: %v", answer)
	}
	for _, n := range []string{"0", "-1", "257", "x", "99999999999999999999"} {
		if status, answer := r.command(http.MethodGet, "top?n="+n, "", ""); status != http.StatusBadRequest ||
			answer["error"] == nil {
			t.Errorf("n=%s: %d, %v", n, status, answer["error"])
		}
	}
}
