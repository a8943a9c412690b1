package describe

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// TestBatch: what is told of a batch names each request, marks one, escapes what
// clients chose, and shows neither data nor hashes of passwords.
func TestBatch(t *testing.T) {
	t.Parallel()
	ids := []jute.ID{{Scheme: "digest", ID: "ann:c2VjcmV0"}, {Scheme: "ip", ID: "10.0.0.1"}}
	create := jute.CreateRequest{Path: "/a\x1b[2J\n", Data: []byte("hidden")}
	b := tree.AppendBatchHeader(nil, 7)
	b = tree.AppendRecord(b, &tree.Request{Op: jute.OpCreateSession, Session: 5, Body: []byte("hidden password")})
	b = tree.AppendRecord(b,
		&tree.Request{Op: jute.OpCreate, Session: 5, Cnx: 6, Seq: 1, Xid: 9, Identities: ids, Body: create.Append(nil)})
	b = tree.AppendRecord(b, &tree.Request{Op: jute.OpMulti, Session: 5, Body: jute.AppendMulti(nil, []jute.MultiOp{
		{Op: jute.OpDelete, Path: "/b"}, {Op: jute.OpSetData, Path: strings.Repeat("/c", 1000), Data: []byte("hidden")},
	})})
	b = tree.AppendRecord(b, &tree.Request{Op: tree.OpExpire, Session: 5})
	text := Batch(b, 1)
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
	if text := Batch(append(b, 1, 2, 3), 0); !strings.Contains(text, "then: decode batch") {
		t.Errorf("of a batch that is cut short:\n%s", text)
	}
}

// TestRequestsMax: of many requests the first are told of, the marked one, and how many
// there are.
func TestRequestsMax(t *testing.T) {
	t.Parallel()
	b := tree.AppendBatchHeader(nil, 7)
	for range requestsMax + 100 {
		b = tree.AppendRecord(b, &tree.Request{Op: tree.OpSettings})
	}
	text := Batch(b, requestsMax+50)
	if n := strings.Count(text, "settings"); n != requestsMax+1 || !strings.Contains(text, "-> 250: settings") ||
		!strings.Contains(text, "300 requests in all") {
		t.Errorf("%d requests are told of:\n%s", n, text)
	}
}

// FuzzBatch: any bytes are described, in bounded space.
func FuzzBatch(f *testing.F) {
	f.Add(tree.AppendRecord(tree.AppendBatchHeader(nil, 7),
		&tree.Request{Op: jute.OpMulti, Body: jute.AppendMulti(nil, []jute.MultiOp{{Op: jute.OpCheck, Path: "/"}})}))
	f.Add(tree.AppendRecord(tree.AppendBatchHeader(nil, 7),
		&tree.Request{Op: jute.OpCreate, Identities: []jute.ID{{Scheme: "a", ID: "b"}}}))
	f.Fuzz(func(t *testing.T, b []byte) {
		const most = (requestsMax + 3) * 32 * 5 * textMax // strings of a request, escaped
		if text := Batch(b, len(b)%300); len(text) > most {
			t.Errorf("%d bytes are described by %d", len(b), len(text))
		}
	})
}

// TestCut: a text is cut where it gets longer than what is shown of one.
func TestCut(t *testing.T) {
	t.Parallel()
	for n, cut := range map[int]bool{0: false, textMax - 1: false, textMax: false, textMax + 1: true} {
		got := quoteCut(strings.Repeat("z", n))
		if strings.Contains(got, "…") != cut || strings.Count(got, "z") != min(n, textMax) {
			t.Errorf("a text of %d bytes is shown as %s", n, got)
		}
	}
}

// TestEachOperation: of each operation with a path, that is told, and how much data there is.
func TestEachOperation(t *testing.T) {
	t.Parallel()
	body := jute.AppendBuffer(jute.AppendString(nil, "/a"), []byte("hidden"))
	for op, want := range map[jute.Op]string{
		jute.OpCreate: "data of 6", jute.OpCreate2: "data of 6", jute.OpCreateContainer: "data of 6",
		jute.OpCreateTTL: "data of 6", jute.OpSetData: "data of 6", jute.OpDelete: `path "/a"`, jute.OpSetACL: `path "/a"`,
		jute.OpDeleteContainer: `path "/a"`,
	} {
		got := bodyOf(&tree.Request{Op: op, Body: body})
		if !strings.Contains(got, want) || !strings.Contains(got, `"/a"`) {
			t.Errorf("%v: %q, want %s", op, got, want)
		}
		if cut := bodyOf(&tree.Request{Op: op, Body: body[:3]}); cut != "" {
			t.Errorf("%v, cut short: %q", op, cut)
		}
	}
	if got := bodyOf(&tree.Request{Op: tree.OpMembers, Body: []byte("a\x1b")}); got != `, "a\x1b"` {
		t.Errorf("members: %s", got)
	}
}
