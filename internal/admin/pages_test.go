package admin

import (
	"net/http"
	"os"
	"testing"
)

// send sends a request with headers, and returns the status.
func (r *running) send(method, path, host string, headers map[string]string) int {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, nil)
	if err != nil {
		r.t.Fatal(err)
	}
	if host != "" {
		req.Host = host
	}
	for name, value := range headers {
		req.Header.Set(name, value)
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	res.Body.Close()
	return res.StatusCode
}

// TestForeignHosts: a page whose name leads here by DNS rebinding isn't answered; names that can only be this host's
// are, and those of the configuration.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	r := start(t, Options{Hosts: []string{"zk1.example.com"}})
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	for host, want := range map[string]int{
		"": 200, "127.0.0.1": 200, "127.0.0.1:8080": 200, "[::1]:8080": 200, "10.1.2.3:80": 200, "localhost:8080": 200,
		"zooid": 200, "zooid-0.zooid-headless.default.svc.cluster.local:8080": 200, own: 200, "zk1.example.com:8080": 200,
		"ZK1.example.com.": 200,
		"evil.example.com": 421, "evil.example.com:8080": 421, "127.0.0.1.evil.example.com": 421, "localhost.evil.com": 421,
		"zk2.example.com": 421, "xzk1.example.com": 421,
	} {
		for _, path := range []string{"/commands/ruok", "/commands", "/livez"} {
			if got := r.send(http.MethodGet, path, host, nil); got != want {
				t.Errorf("%s with the Host %q: %d, want %d", path, host, got, want)
			}
		}
	}
}

// TestPagesElsewhere: a page of another site can't make a browser change anything, though Apache's commands take GET
// requests; one that reads is answered, and so are programs.
func TestPagesElsewhere(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	host := r.admin.Addr().String()
	for what, c := range map[string]struct {
		headers   map[string]string
		elsewhere bool
	}{
		"a program":              {nil, false},
		"the address line":       {map[string]string{"Sec-Fetch-Site": "none"}, false},
		"the list of commands":   {map[string]string{"Sec-Fetch-Site": "same-origin"}, false},
		"an image elsewhere":     {map[string]string{"Sec-Fetch-Site": "cross-site"}, true},
		"another port":           {map[string]string{"Sec-Fetch-Site": "same-site"}, true},
		"a form elsewhere":       {map[string]string{"Origin": "http://evil.example.com"}, true},
		"a page without a place": {map[string]string{"Origin": "null"}, true},
		"its own form":           {map[string]string{"Origin": "http://" + host}, false},
	} {
		for path, changes := range map[string]bool{
			"stat_reset": true, "srst": true, "crst": true, "orst": true, "stmk?traceMask=1": true, "ruok": false, "mntr": false,
		} {
			want := http.StatusOK
			if changes && c.elsewhere {
				want = http.StatusForbidden
			}
			if got := r.send(http.MethodGet, "/commands/"+path, "", c.headers); got != want {
				t.Errorf("%s sends %s: %d, want %d", what, path, got, want)
			}
		}
		want := http.StatusUnauthorized // it shows no credential
		if c.elsewhere {
			want = http.StatusForbidden
		}
		if got := r.send(http.MethodPost, "/commands/drain", "", c.headers); got != want {
			t.Errorf("%s sends drain: %d, want %d", what, got, want)
		}
	}
}
