package tree

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestDescribe: what is told of a batch names each request, marks one, escapes what
// clients chose, and shows neither data nor hashes of passwords.
func TestDescribe(t *testing.T) {
	t.Parallel()
	ids := []jute.ID{{Scheme: "digest", ID: "ann:c2VjcmV0"}, {Scheme: "ip", ID: "10.0.0.1"}}
	create := jute.CreateRequest{Path: "/a\x1b[2J\n", Data: []byte("hidden")}
	b := AppendBatchHeader(nil, 7)
	b = AppendRecord(b, &Request{Op: jute.OpCreateSession, Session: 5, Body: []byte("hidden password")})
	b = AppendRecord(b,
		&Request{Op: jute.OpCreate, Session: 5, Cnx: 6, Seq: 1, Xid: 9, Identities: ids, Body: create.Append(nil)})
	b = AppendRecord(b, &Request{Op: jute.OpMulti, Session: 5, Body: jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpDelete, Path: "/b"}, {Op: jute.OpSetData, Path: strings.Repeat("/c", 1000), Data: []byte("hidden")},
	})})
	b = AppendRecord(b, &Request{Op: OpExpire, Session: 5})
	text := Describe(b, 1)
	for _, part := range []string{
		"time 7", "   0: createSession, session 0x5", "-> 1: create, session 0x5, connection 0x6, sequence 1, xid 9",
		`path "/a\x1b[2J\n", data of 6 bytes`, `"digest:ann" "ip:10.0.0.1"`, `[delete "/b"]`, "(2000 bytes)",
		"3: expireSession",
	} {
		if !strings.Contains(text, part) {
			t.Errorf("%q is not in\n%s", part, text)
		}
	}
	if strings.Contains(text, "hidden") || strings.Contains(text, "c2VjcmV0") || strings.Contains(text, "\x1b") {
		t.Errorf("it shows what it must not:\n%s", text)
	}
	if text := Describe(append(b, 1, 2, 3), 0); !strings.Contains(text, "then: decode batch") {
		t.Errorf("of a batch that is cut short:\n%s", text)
	}
}

// TestDescribedMax: of many requests the first are told of, the marked one, and how many
// there are.
func TestDescribedMax(t *testing.T) {
	t.Parallel()
	b := AppendBatchHeader(nil, 7)
	for range describedMax + 100 {
		b = AppendRecord(b, &Request{Op: OpSettings})
	}
	text := Describe(b, describedMax+50)
	if n := strings.Count(text, "settings"); n != describedMax+1 || !strings.Contains(text, "-> 250: settings") ||
		!strings.Contains(text, "300 requests in all") {
		t.Errorf("%d requests are told of:\n%s", n, text)
	}
}

// FuzzDescribe: any bytes are described, in bounded space.
func FuzzDescribe(f *testing.F) {
	f.Add(AppendRecord(AppendBatchHeader(nil, 7),
		&Request{Op: jute.OpMulti, Body: jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCheck, Path: "/"}})}))
	f.Add(AppendRecord(AppendBatchHeader(nil, 7),
		&Request{Op: jute.OpCreate, Identities: []jute.ID{{Scheme: "a", ID: "b"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = (describedMax + 3) * 32 * 5 * describedText // strings of a request, escaped
		if text := Describe(b, len(b)%300); len(text) > most {
			t.Errorf("%d bytes are described by %d", len(b), len(text))
		}
	})
}
