package compat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// callAdmin sends a command to a server's admin server, as somebody at this address.
func callAdmin(t *testing.T, s *Server, method, path, body string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, "http://"+s.Admin+"/commands/"+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "ip")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res.StatusCode, string(answer)
}

// TestRestoreOfEnsemble has a follower of three servers restore a snapshot of a real Apache server's: every server has
// its znodes with their Stats, also after one was killed and came back, and all sessions have ended.
func TestRestoreOfEnsemble(t *testing.T) {
	reference, subject := programs(t)
	reference.classPath += string(filepath.ListSeparator) + filepath.Join(cacheFolder(t), "apache-admin", "*")
	ctx, world := t.Context(), zk.WorldACL(zk.PermAll)
	from := StartEnsemble(t, reference, 1, Options{Admin: true})[0]
	there := adminClient(t, from)
	for i := range 200 {
		if _, err := there.Create(ctx, fmt.Sprintf("/n%d", i), []byte("of Apache"), zk.ModePersistent, world); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := there.Set(ctx, "/n7", []byte("changed"), -1); err != nil {
		t.Fatal(err)
	}
	if _, err := there.Create(ctx, "/gone", nil, zk.ModeEphemeral, world); err != nil {
		t.Fatal(err)
	}
	want, _, err := there.Exists(ctx, "/n7")
	if err != nil {
		t.Fatal(err)
	}
	status, snapshot := callAdmin(t, from, "GET", "snapshot", "")
	if status != http.StatusOK {
		t.Fatalf("snapshot: %d, %.300s", status, snapshot)
	}

	servers := StartEnsemble(t, subject, 3, Options{Admin: true})
	_, others := roles(t, servers)
	before := adminClient(t, servers[0])
	namedOnRoot(t, before)
	if err := adminClient(t, others[0]).Sync(ctx, "/"); err != nil { // the server that is asked knows the ACL
		t.Fatal(err)
	}
	if _, err := before.Create(ctx, "/before", nil, zk.ModePersistent, world); err != nil {
		t.Fatal(err)
	}
	if status, answer := callAdmin(t, others[0], "POST", "restore", snapshot); status != http.StatusOK {
		t.Fatalf("restore: %d, %.300s", status, answer)
	}
	if _, _, err := before.Get(ctx, "/before"); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("the session from before goes on: %v", err)
	}
	look := func(s *Server) {
		t.Helper()
		c := adminClient(t, s)
		if err := c.Sync(ctx, "/"); err != nil {
			t.Fatal(err)
		}
		data, stat, err := c.Get(ctx, "/n7")
		if err != nil || string(data) != "changed" || stat != want {
			t.Errorf("/n7: %q, %+v, %v; at Apache %+v", data, stat, err, want)
		}
		names, _, err := c.Children(ctx, "/")
		count := 0
		for _, name := range names {
			if n := 0; name == "gone" || name == "before" {
				t.Errorf("/%s is there", name)
			} else if _, err := fmt.Sscanf(name, "n%d", &n); err == nil {
				count++
			}
		}
		if err != nil || count != 200 {
			t.Errorf("%d of Apache's 200 znodes are there, %v", count, err)
		}
		if config, _, err := c.Get(ctx, "/zookeeper/config"); err != nil || !strings.Contains(string(config), "server.3=") {
			t.Errorf("the membership is %q, %v", config, err)
		}
	}
	for _, s := range servers {
		look(s)
	}
	others[0].Kill()
	if err := errors.Join(others[0].launch(), others[0].waitReady()); err != nil {
		t.Fatal(err)
	}
	look(others[0])
}
