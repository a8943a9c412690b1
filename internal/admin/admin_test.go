package admin

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/zk"
)

// running is a server with its Admin.
type running struct {
	t       *testing.T
	server  *server.Server
	admin   *Admin
	url     string
	dataDir string
	client  *http.Client
}

// superTest is the digest of super:test.
const superTest = "super:D/InIHSb7yEEbrWz8b9l71RjZJU="

// start runs a server alone that serves, and an Admin with these settings.
func start(t *testing.T, opt Options) *running {
	t.Helper()
	dir := t.TempDir()
	s, err := server.Open(server.Options{
		DataDir: dir, Listen: []string{"127.0.0.1:0"}, Version: "3.9.5-test",
		Auth: auth.Options{X509: true, SuperDigest: superTest},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	for !s.Status().Serving {
		time.Sleep(time.Millisecond)
	}
	opt.TokenFile = filepath.Join(dir, TokenScheme)
	r := listen(t, opt)
	r.server, r.dataDir = s, dir
	r.admin.Serve(s)
	return r
}

// own returns the Authorization header of a caller that can read what the server's user can.
func (r *running) own() string {
	r.t.Helper()
	text, err := os.ReadFile(filepath.Join(r.dataDir, TokenScheme))
	if err != nil {
		r.t.Fatal(err)
	}
	return TokenScheme + " " + strings.TrimSpace(string(text))
}

// listen runs an Admin without a server.
func listen(t *testing.T, opt Options) *running {
	t.Helper()
	opt.Address = "127.0.0.1:0"
	a, err := Listen(opt)
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: time.Minute}
	t.Cleanup(a.Close)
	return &running{t: t, admin: a, url: "http://" + a.Addr().String(), client: client}
}

// do sends a request and returns the status and the body.
func (r *running) do(method, path, auth, body string) (*http.Response, []byte) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	if auth != "" {
		req.Header.Set("Authorization", auth)
	}
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	return res, b
}

// counted compares metrics of the server with what they must be.
func (r *running) counted(want map[string]int64) {
	r.t.Helper()
	got := map[string]string{}
	r.server.Metrics().Each(func(name string, v metrics.Value) { got[name] = v.String() })
	for name, n := range want {
		if got[name] != strconv.FormatInt(n, 10) {
			r.t.Errorf("%s is %s, want %d", name, got[name], n)
		}
	}
}

// command runs a command and returns the status, and the answer by key.
func (r *running) command(method, path, auth, body string) (int, map[string]any) {
	r.t.Helper()
	res, b := r.do(method, "/commands/"+path, auth, body)
	var answer map[string]any
	if err := json.Unmarshal(b, &answer); err != nil {
		r.t.Fatalf("%s %s: %v in %q", method, path, err, b)
	}
	return res.StatusCode, answer
}

// TestCommands asks each command by each of its names and method, and by the wrong method.
func TestCommands(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	bodies := map[string]string{"shed_connections": `{"percentage": 0}`}
	// failing are the commands that don't do anything for a server alone.
	failing := map[string]int{"restore": 503, "drain": 409, "reload": 503}
	for _, cmd := range commands() {
		want := failing[cmd.name]
		if want == 0 {
			want = http.StatusOK
		}
		for _, name := range append([]string{cmd.name}, cmd.aliases...) {
			path := name
			if cmd.name == "set_trace_mask" {
				path += "?traceMask=18"
			}
			if cmd.name == "snapshot" {
				path += "?streaming=false"
			}
			auth := ""
			if cmd.guarded {
				auth = r.own()
			}
			status, answer := r.command(cmd.method, path, auth, bodies[cmd.name])
			if status != want || answer["command"] != cmd.name {
				t.Errorf("%s: status %d, command %v, error %v", name, status, answer["command"], answer["error"])
			}
			if _, ok := answer["error"]; !ok || want == http.StatusOK && answer["error"] != nil && cmd.name != "leader" {
				t.Errorf("%s: error %v", name, answer["error"])
			}
			wrong := http.MethodPost
			if cmd.method == http.MethodPost {
				wrong = http.MethodGet
			}
			if status, answer := r.command(wrong, path, auth, ""); status != http.StatusMethodNotAllowed ||
				answer["error"] == nil {
				t.Errorf("%s by %s: status %d, error %v", name, wrong, status, answer["error"])
			}
		}
	}
	if status, answer := r.command(http.MethodGet, "nosuch", "", ""); status != http.StatusOK ||
		answer["error"] != "Unknown command: nosuch" {
		t.Errorf("an unknown command: %d, %v", status, answer)
	}
}

// TestAnswers: what some commands say of a server with a client.
func TestAnswers(t *testing.T) {
	t.Parallel()
	r := start(t,
		Options{Configuration: "tickTime=500\n", Properties: map[string]string{"zookeeper.b": "1", "zookeeper.a": "2"}})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, r.server.Addrs()[0].String(), zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Create(ctx, "/e", []byte("<&>"), zk.ModeEphemeral, zk.WorldACL(zk.PermAll)); err != nil {
		t.Fatal(err)
	}
	if _, _, _, err := c.GetW(ctx, "/e"); err != nil {
		t.Fatal(err)
	}
	get := func(name string) map[string]any {
		t.Helper()
		_, answer := r.command(http.MethodGet, name, "", "")
		return answer
	}
	if list := get("connections")["connections"].([]any); len(list) != 1 ||
		list[0].(map[string]any)["last_operation"] != "GETD" {
		t.Errorf("connections: %v", list)
	}
	if list := get("stats")["connections"].([]any); len(list) != 1 || list[0].(map[string]any)["session_id"] != nil {
		t.Errorf("brief connections: %v", list)
	}
	dump := get("dump")
	for _, paths := range dump["session_id_to_ephemeral_paths"].(map[string]any) {
		if !slices.Equal(paths.([]any), []any{"/e"}) {
			t.Errorf("ephemerals: %v", dump)
		}
	}
	if len(dump["expiry_time_to_session_ids"].(map[string]any)) != 1 ||
		len(dump["session_id_to_ephemeral_paths"].(map[string]any)) != 1 {
		t.Errorf("dump: %v", dump)
	}
	if w := get("watch_summary"); w["num_total_watches"] != 1.0 || w["num_paths"] != 1.0 || w["num_connections"] != 1.0 {
		t.Errorf("watch summary: %v", w)
	}
	if w := get("watches_by_path")["path_to_session_ids"].(map[string]any); len(w["/e"].([]any)) != 1 {
		t.Errorf("watches by path: %v", w)
	}
	get("set_trace_mask?traceMask=-5")
	if m := get("get_trace_mask")["tracemask"]; m != -5.0 {
		t.Errorf("trace mask %v", m)
	}
	if e := get("set_trace_mask?traceMask=x")["error"]; e != "setTraceMask requires long traceMask argument, got x" {
		t.Errorf("a wrong trace mask: %v", e)
	}
	if p := get("system_properties"); p["zookeeper.a"] != "2" || p["zookeeper.b"] != "1" {
		t.Errorf("properties: %v", p)
	}
	if p := get("initial_configuration")["initial_configuration"]; p != "tickTime=500\n" {
		t.Errorf("configuration: %v", p)
	}
	if v := get("monitor"); v["server_state"] != "standalone" || v["ephemerals_count"] != 1.0 {
		t.Errorf("monitor: %v", v)
	}
	if _, answer := r.command(http.MethodPost, "shed", r.own(), `{"percentage": 100}`); answer["connections_shed"] != 1.0 {
		t.Errorf("shed: %v", answer)
	}
}

// TestSnapshotStreams: the body is the whole file, and a snapshot of what was there.
func TestSnapshotStreams(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	res, body := r.do(http.MethodGet, "/commands/snapshot", r.own(), "")
	files, _ := filepath.Glob(filepath.Join(r.dataDir, "*.snap"))
	if len(files) != 1 {
		t.Fatalf("files %v", files)
	}
	file := readFile(t, files[0])
	if res.StatusCode != 200 || !bytes.Equal(body, file) || res.Header.Get("Content-Type") != "application/octet-stream" {
		t.Errorf("status %d, %d bytes of %s, the file has %d", res.StatusCode, len(body), res.Header.Get("Content-Type"),
			len(file))
	}
	_, last := r.command(http.MethodGet, "last_snapshot", "", "")
	if "0x"+last["zxid"].(string) != res.Header.Get("last_zxid") || res.Header.Get("snapshot_size") == "" {
		t.Errorf("header %v, last snapshot %v", res.Header, last)
	}
}

// TestSnapshotRate: one snapshot in an interval.
func TestSnapshotRate(t *testing.T) {
	t.Parallel()
	r := start(t, Options{RateInterval: time.Hour})
	if status, answer := r.command(http.MethodGet, "snapshot?streaming=false", r.own(), ""); status != http.StatusOK {
		t.Fatalf("the first: %d, %v", status, answer)
	}
	if status, answer := r.command(http.MethodGet, "snapshot", r.own(), ""); status != http.StatusTooManyRequests ||
		answer["error"] == nil {
		t.Errorf("the second: %d, %v", status, answer)
	}
	r.counted(map[string]int64{"snapshot_rate_limited_count": 1, "snapshot_error_count": 0})
	limit, now := rate{interval: time.Second}, time.Now()
	steps := []struct {
		at   time.Duration
		end  bool
		want bool
	}{
		{0, true, true}, {time.Second - 1, false, false}, {time.Second, false, true}, {time.Hour, true, false},
		{time.Hour, false, true},
	}
	for i, step := range steps {
		got := limit.begin(now.Add(step.at))
		if got != step.want {
			t.Errorf("step %d: allowed %v", i, got)
		}
		if got {
			limit.count(now.Add(step.at))
		}
		if step.end {
			limit.end()
		}
	}
}

// TestSnapshotDisabled: admin.snapshot.enabled=false.
func TestSnapshotDisabled(t *testing.T) {
	t.Parallel()
	r := start(t, Options{SnapshotDisabled: true})
	if status, answer := r.command(http.MethodGet, "snapshot", r.own(), ""); status != http.StatusServiceUnavailable ||
		answer["error"] == nil {
		t.Errorf("%d, %v", status, answer)
	}
}

// TestCommandURL: admin.commandURL moves the commands, and the links to them.
func TestCommandURL(t *testing.T) {
	t.Parallel()
	r := start(t, Options{CommandURL: "/other/place"})
	for path, want := range map[string]int{
		"/other/place": 200, "/other/place/": 200, "/other/place/ruok": 200, "/commands/ruok": 404, "/": 404, "/other": 404,
	} {
		if res, _ := r.do(http.MethodGet, path, "", ""); res.StatusCode != want {
			t.Errorf("%s: %d, want %d", path, res.StatusCode, want)
		}
	}
	_, page := r.do(http.MethodGet, "/other/place", "", "")
	for _, cmd := range commands() {
		if link := `<a href="/other/place/` + cmd.name + `">` + cmd.name + `</a>`; !strings.Contains(string(page), link) {
			t.Errorf("the list has no %s", link)
		}
	}
}

// TestReadiness: the pages for containers while there is no server, and with one.
func TestReadiness(t *testing.T) {
	t.Parallel()
	early := listen(t, Options{})
	if res, body := early.do(http.MethodGet, "/readyz", "", ""); res.StatusCode != http.StatusServiceUnavailable ||
		!strings.Contains(string(body), ReasonStarting) {
		t.Errorf("before there is a server: %d, %s", res.StatusCode, body)
	}
	if res, _ := early.do(http.MethodGet, "/livez", "", ""); res.StatusCode != http.StatusOK {
		t.Errorf("before there is a server, it isn't alive: %d", res.StatusCode)
	}
	for _, name := range []string{"ruok", "environment", "zabstate", "monitor", "get_trace_mask", "set_trace_mask"} {
		if status, answer := early.command(http.MethodGet, name, "", ""); status != http.StatusOK ||
			answer["error"] != errNotServing {
			t.Errorf("%s before there is a server: %d, %v", name, status, answer)
		}
	}
	r := start(t, Options{})
	res, body := r.do(http.MethodGet, "/readyz", "", "")
	var page struct {
		Ready   bool
		Reasons []Reason
	}
	if err := json.Unmarshal(body, &page); err != nil || res.StatusCode != http.StatusOK || !page.Ready ||
		len(page.Reasons) != 0 {
		t.Errorf("of a server that serves: %d, %s, %v", res.StatusCode, body, err)
	}
}
