package admin

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// plainZnodes takes a file that holds what Server.Replace takes, and refuses one that says so.
func plainZnodes(file string) ([]byte, error) {
	b, err := os.ReadFile(file)
	if bytes.HasPrefix(b, []byte("garbage")) {
		return nil, errors.New("it is garbage")
	}
	return b, err
}

// clientOf returns a client of the server.
func clientOf(t *testing.T, s *server.Server) *zk.Client {
	t.Helper()
	c, err := zk.Open(t.Context(), s.Addrs()[0].String(), zk.Options{SessionTimeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// TestRestore brings back what was there, ends all sessions, and changes nothing if anything
// about the request is wrong.
func TestRestore(t *testing.T) {
	t.Parallel()
	r := start(t, Options{Znodes: plainZnodes, restoreBytes: 3 << 20})
	ctx, world := t.Context(), zk.WorldACL(zk.PermAll)
	c := clientOf(t, r.server)
	big := bytes.Repeat([]byte("x"), 700<<10) // several pieces
	for _, path := range []string{"/a", "/a/b", "/c"} {
		if _, err := c.Create(ctx, path, big, zk.ModePersistent, world); err != nil {
			t.Fatal(err)
		}
	}
	saved := string(r.server.Replica().Znodes(nil))
	_, before, err := c.Get(ctx, "/a/b")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(c.Delete(ctx, "/a/b", -1),
		func() error { _, err := c.Set(ctx, "/c", []byte("later"), -1); return err }()); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Create(ctx, "/mine", nil, zk.ModeEphemeral, world); err != nil {
		t.Fatal(err)
	}
	_, zxid, _ := r.server.Replica().Position()
	for _, bad := range []struct {
		what, auth, body string
		status           int
		says             string
	}{
		{"nobody's", "", "x", http.StatusUnauthorized, "Auth info is missing"},
		{"a stranger's", "nosuch x", "x", http.StatusUnauthorized, "Not authenticated"},
		{"nothing", r.own(), "", http.StatusBadRequest, "empty"},
		{"garbage", r.own(), "garbage", http.StatusBadRequest, "it is garbage"},
		{"what the servers refuse", r.own(), saved[:len(saved)-1], http.StatusInternalServerError, "refuse"},
	} {
		status, answer := r.command(http.MethodPost, "restore", bad.auth, bad.body)
		if text, _ := answer["error"].(string); status != bad.status || !strings.Contains(text, bad.says) {
			t.Errorf("%s: %d, %v", bad.what, status, answer)
		}
	}
	if status, answer := r.chunked(strings.Repeat("x", 3<<20+1)); status != http.StatusRequestEntityTooLarge {
		t.Errorf("too much, of a length that isn't told: %d, %s", status, answer)
	}
	r.raw("a body that is too long, before any of it is sent", 3<<20+1, "", "413")
	r.raw("a body that is cut short", len(saved), saved[:len(saved)/2], "400")
	if list, _, err := c.Children(ctx, "/a"); err != nil || len(list) != 0 {
		t.Fatalf("something was restored: %v, %v", list, err)
	}
	status, answer := r.command(http.MethodPost, "rest", r.own(), saved)
	if status != http.StatusOK || answer["last_zxid"].(float64) <= float64(zxid) {
		t.Fatalf("%d, %v", status, answer)
	}
	r.counted(map[string]int64{"cnt_restore_time": 1})
	again := clientOf(t, r.server)
	data, stat, err := again.Get(ctx, "/a/b")
	if err != nil || !bytes.Equal(data, big) || stat != before {
		t.Errorf("after the restore /a/b has %d bytes, %+v, %v; want %+v", len(data), stat, err, before)
	}
	if list, _, err := again.Children(ctx, "/"); err != nil ||
		!slices.Equal(slices.Sorted(slices.Values(list)), []string{"a", "c", "zookeeper"}) {
		t.Errorf("after the restore there are %v, %v", list, err)
	}
	if list, _, err := again.Children(ctx, "/zookeeper"); err != nil || slices.Contains(list, "restore") {
		t.Errorf("pieces are left: %v, %v", list, err)
	}
	if _, _, err := c.Get(ctx, "/c"); !errors.Is(err, zk.ErrSessionExpired) {
		t.Errorf("the session from before ends with %v", err)
	}
}

// chunked sends a body whose length the header doesn't tell.
func (r *running) chunked(body string) (int, string) {
	r.t.Helper()
	req, err := http.NewRequestWithContext(r.t.Context(), http.MethodPost, r.url+"/commands/restore",
		io.MultiReader(strings.NewReader(body)))
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", r.own())
	res, err := r.client.Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b)
}

// raw sends a header that promises a body of some length, a body, and nothing more.
func (r *running) raw(what string, length int, body, want string) {
	r.t.Helper()
	conn := dial(r.t, r)
	fmt.Fprintf(conn, "POST /commands/restore HTTP/1.1\r\nHost: h\r\nAuthorization: %s\r\nContent-Length: %d\r\n\r\n%s",
		r.own(), length, body)
	conn.(interface{ CloseWrite() error }).CloseWrite()
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	b, err := io.ReadAll(conn)
	if err != nil || !strings.Contains(string(b), " "+want+" ") {
		r.t.Errorf("%s: %v, %.300s", what, err, b)
	}
}

// TestSlowRestore: a caller who stops sending is answered once a part's time is over, and nothing is restored.
func TestSlowRestore(t *testing.T) {
	t.Parallel()
	asked := false
	r := start(t,
		Options{bodyTimeout: 50 * time.Millisecond, Znodes: func(string) ([]byte, error) { asked = true; return nil, nil }})
	conn := dial(t, r)
	fmt.Fprintf(conn, "POST /commands/restore HTTP/1.1\r\nHost: h\r\nAuthorization: %s\r\nContent-Length: 1000000\r\n\r\nthe first bytes",
		r.own())
	conn.SetReadDeadline(time.Now().Add(30 * time.Second))
	if b, err := io.ReadAll(conn); err != nil || !strings.Contains(string(b), " 400 ") ||
		!strings.Contains(string(b), "nothing was restored") {
		t.Errorf("%v, %.300s", err, b)
	}
	if asked {
		t.Error("a part of a body was taken for a snapshot")
	}
}

// TestRestoreRate: the ensemble is asked for one restore per interval, whether it does it or not. A body that is no
// snapshot doesn't count, so that whoever has sent the wrong file can send the right one at once.
func TestRestoreRate(t *testing.T) {
	t.Parallel()
	r := start(t, Options{Znodes: plainZnodes, RateInterval: time.Hour})
	r.raw("a body that is cut short", 1000, "the first bytes", "400")
	for _, step := range []struct {
		body   string
		status int
	}{
		{"garbage", http.StatusBadRequest}, {"garbage", http.StatusBadRequest},
		{"what the servers refuse", http.StatusInternalServerError}, {"garbage", http.StatusTooManyRequests},
	} {
		if status, answer := r.command(http.MethodPost, "restore", r.own(), step.body); status != step.status ||
			answer["error"] == nil {
			t.Errorf("%s: %d, %v; want %d", step.body, status, answer, step.status)
		}
	}
	r.counted(map[string]int64{"restore_rate_limited_count": 1, "restore_error_count": 4, "cnt_restore_time": 0})
}

// TestRestoreDisabled: admin.restore.enabled=false.
func TestRestoreDisabled(t *testing.T) {
	t.Parallel()
	r := start(t, Options{Znodes: plainZnodes, RestoreDisabled: true})
	if status, answer := r.command(http.MethodPost, "restore", r.own(), "x"); status != http.StatusServiceUnavailable ||
		!strings.Contains(answer["error"].(string), "admin.restore.enabled") {
		t.Errorf("%d, %v", status, answer)
	}
}

// A heard server notes who asks for a restore.
type heard struct {
	*server.Server
	remote string
	ids    []jute.ID
}

func (h *heard) Restore(_ context.Context, remote string, ids []jute.ID, _ []byte) (int64, error) {
	h.remote, h.ids = remote, ids
	return 1, nil
}

// TestRestoreNamesItsCaller: the server learns what the caller of a restore has proved, for its audit log.
func TestRestoreNamesItsCaller(t *testing.T) {
	t.Parallel()
	r := start(t, Options{Znodes: plainZnodes})
	h := &heard{Server: r.server}
	r.admin.Serve(h)
	for credential, want := range map[string][]jute.ID{
		r.own():             nil,
		"digest super:test": {{Scheme: "super"}, {Scheme: "digest", ID: superTest}},
	} {
		status, answer := r.command(http.MethodPost, "restore", credential, "x")
		if status != http.StatusOK || !slices.Equal(h.ids, want) || !strings.HasPrefix(h.remote, "127.0.0.1:") {
			t.Errorf("%d, %v: %s, %v; want %v", status, answer, h.remote, h.ids, want)
		}
	}
}

// TestRestoreTooLarge: more than the servers take is refused before anything is stored.
func TestRestoreTooLarge(t *testing.T) {
	t.Parallel()
	r := start(t, Options{})
	if _, err := r.server.Restore(context.Background(), "", nil, make([]byte, server.RestoreBytesMax+1)); err == nil ||
		!strings.Contains(err.Error(), "at most") {
		t.Error(err)
	}
}
