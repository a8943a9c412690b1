//go:build unix

package main

import (
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
	if code, text := runZooid("top", p.file); code != 0 || !strings.Contains(text, "127.0.0.1:"+client+" ") ||
		!strings.Contains(text, " standalone ") {
		t.Errorf("no line for the server: %d\n%s", code, text)
	}
	_, inShell := runZooid("cli", "-server", "127.0.0.1:"+client, "top", "-bytes", "-k", "1", p.admin)
	if !strings.Contains(inShell, "PATHS\n") || !strings.Contains(inShell, " standalone ") {
		t.Errorf("the shell's top shows something else:\n%s", inShell)
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
	for i, line := range lines {
		var answer struct { // each round has a line for the server, and one for what its clients ask for
			Mode       string
			ByRequests map[string][]any `json:"by_requests"`
		}
		err := json.Unmarshal([]byte(line), &answer)
		if err != nil || i%2 == 0 && answer.Mode != "standalone" || i%2 == 1 && len(answer.ByRequests["paths"]) != 2 {
			t.Errorf("%v: %s", err, line)
		}
	}
	if code != 0 || len(lines) != 4 || strings.Contains(text, "\u202e") {
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
		{"a b", 2, "usage: zooid top"},
		{"-k 0 h", 2, "-k 0: want a number from 1 to 50"},
		{"-k 51 h", 2, "-k 51: want a number from 1 to 50"},
		{"-i 0s h", 2, "-i 0s: want a length of time"},
		{"-n -1 h", 2, "-n -1: want a number from 0"},
		{"nosuch.cfg", 2, "nosuch.cfg"},
		{"http://h/", 2, "neither a file nor HOST[:PORT]"},
		{"h:99999", 2, "neither a file nor HOST[:PORT]"},
		{net.JoinHostPort("127.0.0.1", port(t)), 2, "not reachable"},
		{strings.TrimPrefix(other.URL, "http://"), 2, "this isn't zooid's admin server"},
		{strings.TrimPrefix(old.URL, "http://"), 1, "Unknown command: \ufffdtop"},
	} {
		code, text := runZooid(append([]string{"top"}, strings.Fields(c.args)...)...)
		if code != c.code || !strings.Contains(text, c.text) || strings.Contains(text, "\x1b") {
			t.Errorf("top %s: %d, %q", c.args, code, text)
		}
	}
}
