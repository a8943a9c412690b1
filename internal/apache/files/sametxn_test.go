package files

import (
	"bytes"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestSameTxn: a transaction is the same with and without a digest, as is a multi that failed with the types that were
// proposed and with those that a server leaves that has applied it. Another digest, time, session or data make another
// transaction.
func TestSameTxn(t *testing.T) {
	t.Parallel()
	txn := Txn{Session: 0x1234, Xid: 7, Zxid: 1<<32 | 5, Ms: 1_700_000_000_000}
	set := Operation{jute.OpSetData, jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, "/a"), []byte("secret")), 3)}
	plain := txn.Record(&set)
	digested := AppendDigest(bytes.Clone(plain), 99)
	later, by, longer := txn, txn, set
	later.Ms++
	by.Session++
	longer.Body = append(bytes.Clone(set.Body), make([]byte, txnDigestBytes)...)
	multi := func(ops ...jute.Op) []byte {
		body := jute.AppendInt(nil, int32(len(ops)))
		for i, op := range ops {
			body = jute.AppendBuffer(jute.AppendInt(body, int32(op)), []byte{byte(i), 2, 3, 4})
		}
		return AppendDigest(txn.Record(&Operation{jute.OpMulti, body}), 99)
	}
	proposed := multi(jute.OpCreate, jute.OpSetData, opError, opError)
	applied := multi(opError, opError, opError, opError)
	otherData := bytes.Clone(applied)
	otherData[txnHeadBytes+4+4+4]++
	for name, c := range map[string]struct {
		a, b []byte
		same bool
	}{
		"equal":                  {plain, bytes.Clone(plain), true},
		"a digest on one side":   {plain, digested, true},
		"equal, with digests":    {digested, bytes.Clone(digested), true},
		"other digests":          {digested, AppendDigest(bytes.Clone(plain), 98), false},
		"another time":           {plain, later.Record(&set), false},
		"another session":        {digested, AppendDigest(by.Record(&set), 99), false},
		"cut off":                {plain, plain[:len(plain)-1], false},
		"more data and a digest": {plain, AppendDigest(txn.Record(&longer), 99), false},
		"a failed multi":         {proposed, applied, true},
		"so without a digest":    {proposed, applied[:len(applied)-txnDigestBytes], true},
		"with other data":        {proposed, otherData, false},
		"that didn't fail":       {multi(jute.OpCreate, jute.OpSetData), multi(jute.OpCreate, jute.OpDelete), false},
		"against one that did":   {multi(jute.OpCreate, jute.OpSetData), multi(opError, opError), false},
		"with fewer operations":  {multi(opError, opError), multi(opError), false},
		"cut within a multi":     {proposed[:40], applied[:40], false},
		"nothing":                {nil, make([]byte, txnDigestBytes), false},
	} {
		if SameTxn(c.a, c.b) != c.same || SameTxn(c.b, c.a) != c.same {
			t.Errorf("%s: same is %t, want %t", name, !c.same, c.same)
		}
	}
	if got := DescribeTxn(plain); !strings.Contains(got, "setData of session 0x1234 at 2023-11-14 22:13:20.000") ||
		strings.Contains(got, "secret") {
		t.Errorf("it is described as %q", got)
	}
	if got := DescribeTxn([]byte("short")); got != "a transaction of 5 bytes" {
		t.Errorf("a short one is described as %q", got)
	}
}
