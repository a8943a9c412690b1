//go:build unix

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// session is the history of a session that creates a znode, unless it only reads, and ends.
func session(t *testing.T, writes bool, xidOff int32) []byte {
	t.Helper()
	var h history.History
	add := func(e history.Event) {
		e.Time = int64(len(h.Events)+1) * 1e6
		h.Events = append(h.Events, e)
	}
	ask := func(xid int32, op jute.Op, body []byte, zxid int64, reply []byte) {
		add(history.Event{Kind: history.KindRequest, Xid: xid, Num: int32(op), Body: body})
		add(history.Event{Kind: history.KindReply, Xid: xid + xidOff, Zxid: zxid, Body: reply})
	}
	add(history.Event{Kind: history.KindConnect, Num: 1000})
	add(history.Event{Kind: history.KindConnected, Session: 1, Num: 1000})
	end := int64(0)
	if writes {
		q := jute.CreateRequest{Path: "/a", Data: []byte("x"), ACL: jute.WorldACL(jute.PermAll)}
		ask(1, jute.OpCreate, q.Append(nil), 2, jute.AppendString(nil, "/a"))
		end = 3
	}
	ask(2, jute.OpCloseSession, nil, end, nil)
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func TestCheckCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	whole, bad, reader := session(t, true, 0), session(t, true, 1000), session(t, false, 0)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"good", []string{file("good", whole)}, checkOK, "no violation"},
		{"cut", []string{file("cut", whole[:len(whole)-3])}, checkOK, "cut short"},
		{"bad", []string{file("bad", bad)}, checkViolated, "X6: a reply to xid"},
		{"local", []string{"-local-sessions", file("local", reader)}, checkOK, "no violation"}, // its end takes no zxid
		{"local and upgrading", []string{"-local-sessions-upgrading", file("local2", reader)}, checkOK, "no violation"},
		{"not local", []string{file("local3", reader)}, checkViolated, "X2: "},
		{"no file", []string{filepath.Join(dir, "none")}, checkUsage, "no such file"},
		{"not a history", []string{file("text", []byte("hello"))}, checkUsage, "not a history"},
		{"nothing", nil, checkUsage, "usage:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if code := runCheck(c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit code %d, want %d and %q in: %s", code, c.code, c.says, out.String())
			}
		})
	}
}
