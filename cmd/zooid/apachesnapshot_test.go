package main

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
)

// TestApacheSnapshot: the admin command snapshot sends Apache's format when asked for it, and
// says so if asked for one that doesn't exist.
func TestApacheSnapshot(t *testing.T) {
	t.Parallel()
	clients := port(t)
	p := startServer(t, "clientPort="+clients,
		"admin.enableServer=true", "admin.serverPort=0", "admin.rateLimiterIntervalInMS=0")
	createZnodes(t, "127.0.0.1:"+clients, 10)
	file := filepath.Join(t.TempDir(), "snapshot.1")
	for path, want := range map[string]int{
		"snapshot?format=apache": http.StatusOK, "snapshot?format=x": http.StatusBadRequest,
	} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.admin+"/commands/"+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", p.own())
		status, body := p.do(req)
		if status != want {
			t.Errorf("%s: %d, %.200s", path, status, body)
		}
		if status == http.StatusOK {
			if err := os.WriteFile(file, []byte(body), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	state, err := files.ReadSnapshot(file)
	if err != nil {
		t.Fatal(err)
	}
	if state.Len() < 14 {
		t.Errorf("it has %d znodes", state.Len())
	}
}
