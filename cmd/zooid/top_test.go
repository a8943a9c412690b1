//go:build unix

package main

import (
	"bytes"
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
)

// TestTop: zooid top shows what is busiest on a server, by its zoo.cfg and by its address.
func TestTop(t *testing.T) {
	t.Parallel()
	client := port(t)
	p := startServer(t, "clientPort="+client, "admin.enableServer=true", "admin.serverPort="+port(t))
	c, err := zk.Open(t.Context(), "127.0.0.1:"+client, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(t.Context(), "/\u202egpj.exe", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	for range 50 {
		if _, _, err := c.Get(t.Context(), "/zookeeper/quota"); err != nil {
			t.Fatal(err)
		}
	}
	for _, args := range [][]string{{p.file}, {p.admin}, {"-bytes", "-k", "50", p.admin}} {
		code, text := runZooid(append([]string{"top"}, args...)...)
		for _, want := range []string{
			" requests/s, ", "PATHS\n", "  /zookeeper/quota\n", "/\ufffdgpj.exe\n", "OPERATIONS\n", "  getData\n",
			"  ip:127.0.0.1\n", " 127.0.0.1:",
		} {
			if code != 0 || !strings.Contains(text, want) {
				t.Errorf("%q: %d, %q is missing:\n%s", args, code, want, text)
			}
		}
		if strings.ContainsAny(text, "\x1b\u202e") {
			t.Errorf("%q: it steers terminals: %q", args, text)
		}
	}
	code, text := runZooid("top", "-json", "-n", "2", "-i", "1ms", p.file)
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range lines {
		var answer topAnswer
		if err := json.Unmarshal([]byte(line), &answer); err != nil || len(answer.ByRequests["paths"]) != 2 {
			t.Errorf("%v: %s", err, line)
		}
	}
	if code != 0 || len(lines) != 2 || strings.Contains(text, "\u202e") {
		t.Errorf("%d, %d lines: %q", code, len(lines), text)
	}
}

// TestTopOfNobody: the exit codes of zooid top, and texts for what isn't a server.
func TestTopOfNobody(t *testing.T) {
	t.Parallel()
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/top") {
			w.Write([]byte("<html>\x1b[31m"))
		}
	}))
	defer other.Close()
	old := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Write([]byte(`{"command":"top","error":"Unknown command: \u001btop"}`))
	}))
	defer old.Close()
	for _, c := range []struct {
		args string
		code int
		text string
	}{
		{"", 2, "usage: zooid top"},
		{"a b", 2, "usage: zooid top"},
		{"-k 0 h", 2, "usage: zooid top"},
		{"-k 51 h", 2, "usage: zooid top"},
		{"-i 0s h", 2, "usage: zooid top"},
		{"nosuch.cfg", 2, "nosuch.cfg"},
		{"http://h/", 2, "neither a file nor HOST[:PORT]"},
		{"h:99999", 2, "neither a file nor HOST[:PORT]"},
		{net.JoinHostPort("127.0.0.1", port(t)), 2, "not reachable"},
		{strings.TrimPrefix(other.URL, "http://"), 2, "no admin server of zooid"},
		{strings.TrimPrefix(old.URL, "http://"), 1, "Unknown command: \ufffdtop"},
	} {
		code, text := runZooid(append([]string{"top"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(text, c.text) || strings.Contains(text, "\x1b") {
			t.Errorf("top %s: %d, %q", c.args, code, text)
		}
	}
}

// TestTopTable: the layout, with rates of all sizes.
func TestTopTable(t *testing.T) {
	t.Parallel()
	var out bytes.Buffer
	screen := topScreen{out: &out, colours: true}
	screen.table(&out, &topAnswer{Requests: 512_345, Bytes: 3 << 30, Every: 256, ByRequests: map[string][]busiestJSON{
		"paths": {{"/a", 499_999}, {"/b", 12_345}, {"/c", 12}, {"/d", 0.05}},
	}})
	want := "512 k requests/s, 3 GB/s; one of 256 looked at\n\n\x1b[1m    REQ/S  PATHS\x1b[0m\n    500 k  /a\n   12.3 k  /b\n       12  /c\n      0.1  /d\n" +
		"\n\x1b[1m    REQ/S  SESSIONS\x1b[0m\n\n\x1b[1m    REQ/S  IDENTITIES\x1b[0m\n\n\x1b[1m    REQ/S  OPERATIONS\x1b[0m\n"
	if out.String() != want {
		t.Errorf("%q\nwant %q", out.String(), want)
	}
}
