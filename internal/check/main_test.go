package check

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/history"
	"github.com/zooid-project/zooid/jute"
)

func goodHistory() *history.History {
	e := newEnsemble(5, 4)
	h := e.run(300)
	e.dump()
	h.Servers = []history.ServerLog{{Server: 2, Entries: e.log}}
	return h
}

func written(t testing.TB, h *history.History) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCheckCommand(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := goodHistory()
	whole := written(t, good)
	bad := goodHistory()
	for i := range bad.Events {
		if e := &bad.Events[i]; e.Kind == history.KindReply && i > 200 {
			e.Xid += 1000
			break
		}
	}
	reader := &scribe{} // a session that never wrote ends without a zxid
	local := &reader.h
	reader.session(0, 1).answer(0, reader.ask(0, jute.OpCloseSession, nil), 0, jute.OK, nil)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"good", []string{"-ttl", file("good", whole)}, exitOK, "no violation"},
		{"cut", []string{"-ttl", file("cut", written(t, &history.History{Events: good.Events})[:2000])}, exitOK, "cut short"},
		{"bad", []string{"-ttl", file("bad", written(t, bad))}, exitViolated, "X6: a reply to xid"},
		{"local", []string{"-local-sessions", file("local", written(t, local))}, exitOK, "no violation"},
		{"local and upgrading", []string{"-local-sessions-upgrading", file("local", written(t, local))}, exitOK, "no violation"},
		{"not local", []string{file("local", written(t, local))}, exitViolated, "X2: "},
		{"no file", []string{filepath.Join(dir, "none")}, exitUsage, "no such file"},
		{"not a history", []string{file("text", []byte("hello"))}, exitUsage, "not a history"},
		{"nothing", nil, exitUsage, "usage:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if code := Main(c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit code %d, want %d and %q in: %s", code, c.code, c.says, out.String())
			}
		})
	}
}

func TestProgressTellsRate(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.reading("a file")
	p.checking(1, 2)
	p.end()
	if out.Len() > 0 {
		t.Errorf("what is no terminal was told %q", out.String())
	}
	p.w = &out
	h := goodHistory()
	Check(h, Options{ExtendedTypes: true, Progress: p.checking})
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[Kchecking: ") || !strings.HasSuffix(got, "/s") {
		t.Errorf("a terminal was told %q", got)
	}
}
