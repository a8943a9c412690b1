package main

import (
	"errors"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/admin"
	"github.com/zooid-project/zooid/zk"
)

// adminCall sends a request to a server's admin server as the server's user.
func (p *process) adminCall(method, path, body string) (int, string) {
	p.t.Helper()
	req, err := http.NewRequestWithContext(p.t.Context(), method, "http://"+p.admin+"/commands/"+path,
		strings.NewReader(body))
	if err != nil {
		p.t.Fatal(err)
	}
	req.Header.Set("Authorization", p.own())
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		p.t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		p.t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// own returns the Authorization header of the server's user.
func (p *process) own() string {
	p.t.Helper()
	text, err := os.ReadFile(filepath.Join(filepath.Dir(p.file), "data", admin.TokenScheme))
	if err != nil {
		p.t.Fatal(err)
	}
	return admin.TokenScheme + " " + strings.TrimSpace(string(text))
}

var clientAddress = regexp.MustCompile(`"accepting clients" address=(127\.0\.0\.1:\d+)`)

// TestRestoreCommand takes a snapshot over HTTP and restores it, and refuses one of another cluster, a damaged
// one, one that is cut short, and what is none.
func TestRestoreCommand(t *testing.T) {
	lines := []string{"clientPort=0", "admin.enableServer=true", "admin.serverPort=0", "admin.rateLimiterIntervalInMS=0"}
	p, other := startServer(t, lines...), startServer(t, lines...)
	at := clientAddress.FindStringSubmatch(p.log.String())
	if at == nil {
		t.Fatalf("no client address in the log:\n%s", p.log.String())
	}
	ctx := t.Context()
	c, err := zk.Open(ctx, at[1], zk.Options{SessionTimeout: time.Minute})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/kept", []byte("1"), zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for _, format := range []string{"zooid", "apache"} {
		status, snapshot := p.adminCall("GET", "snapshot?format="+format, "")
		if status != http.StatusOK {
			t.Fatalf("%s: %d, %s", format, status, snapshot)
		}
		if _, err := c.Set(ctx, "/kept", []byte("2"), -1); err != nil {
			t.Fatal(err)
		}
		_, foreign := other.adminCall("GET", "snapshot", "")
		middle := len(snapshot) / 2
		for what, bad := range map[string]string{
			"of another cluster": foreign, "cut short": snapshot[:middle],
			"damaged": snapshot[:middle] + "\x55\xaa\x55" + snapshot[middle+3:],
			"garbage": strings.Repeat("no snapshot", 100), "tiny": "x",
		} {
			if status, answer := p.adminCall("POST", "restore", bad); status != http.StatusBadRequest ||
				!strings.Contains(answer, "isn't a snapshot to restore") || strings.Contains(answer, os.TempDir()) {
				t.Errorf("%s, %s: %d, %s", format, what, status, answer)
			}
		}
		if data, _, err := c.Get(ctx, "/kept"); err != nil || string(data) != "2" {
			t.Fatalf("%s: a refused restore has changed something: %q, %v", format, data, err)
		}
		if status, answer := p.adminCall("POST", "restore", snapshot); status != http.StatusOK ||
			!strings.Contains(answer, "last_zxid") {
			t.Fatalf("%s: %d, %s", format, status, answer)
		}
		if _, _, err := c.Get(ctx, "/kept"); !errors.Is(err, zk.ErrSessionExpired) {
			t.Errorf("%s: the session from before goes on: %v", format, err)
		}
		if c, err = zk.Open(ctx, at[1], zk.Options{SessionTimeout: time.Minute}); err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if data, stat, err := c.Get(ctx, "/kept"); err != nil || string(data) != "1" || stat.Version != 0 {
			t.Errorf("%s: after the restore: %q, %+v, %v", format, data, stat, err)
		}
	}
	if left, err := filepath.Glob(filepath.Join(os.TempDir(), "zooid-restore-*")); err != nil || len(left) > 0 {
		t.Logf("files of restores under way or left: %v, %v", left, err)
	}
}
