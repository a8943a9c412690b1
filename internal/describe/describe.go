// Package describe shows the requests of the log in readable form, for messages about an entry that stopped a server.
package describe

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

const (
	// requestsMax bounds the requests that Batch lists, and textMax the bytes of each of their strings.
	requestsMax = 200
	textMax     = 256
)

// Batch lists the requests of a batch (tree.AppendBatchHeader) in readable form, one per line. It marks the request
// with the index mark. It lists only the first 200 requests and the marked one, so that the text stays readable. It
// shows neither data nor passwords. batch may hold any bytes: Batch doesn't panic.
func Batch(batch []byte, mark int) (told string) {
	var text strings.Builder
	defer func() {
		if cause := recover(); cause != nil {
			told = fmt.Sprintf("%s   then: it can't be told: %v\n", text.String(), cause)
		}
	}()
	records := tree.NewRecords(batch)
	fmt.Fprintf(&text, "batch of %d bytes, time %d\n", len(batch), records.Time())
	var q tree.Request
	n := 0
	for ; records.Next(&q); n++ {
		if n >= requestsMax && n != mark {
			continue
		}
		sign := "   "
		if n == mark {
			sign = "-> "
		}
		fmt.Fprintf(&text, "%s%d: %v, session %#x, connection %#x, sequence %d, xid %d, %d bytes%s, identities%s\n",
			sign, n, tree.OpName(q.Op), uint64(q.Session), uint64(q.Cnx), q.Seq, q.Xid, len(q.Body), bodyOf(&q),
			identitiesOf(q.Identities))
	}
	if n > requestsMax {
		fmt.Fprintf(&text, "   … %d requests in all\n", n)
	}
	if err := records.Err(); err != nil {
		fmt.Fprintf(&text, "   then: %v\n", err)
	}
	return text.String()
}

// bodyOf describes the body of a request, if its format is known.
func bodyOf(q *tree.Request) string {
	d := jute.NewDecoder(q.Body)
	switch q.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpSetData:
		path, data := d.String(), d.Buffer()
		if d.Err() == nil {
			return fmt.Sprintf(", path %s, data of %d bytes", quoteCut(path), len(data))
		}
	case jute.OpDelete, jute.OpSetACL, jute.OpDeleteContainer:
		if path := d.String(); d.Err() == nil {
			return ", path " + quoteCut(path)
		}
	case jute.OpMulti:
		return multiOf(q.Body)
	case tree.OpMembers:
		return ", " + quoteCut(string(q.Body))
	}
	return ""
}

// multiOf lists the operations of a multi that can be decoded.
func multiOf(body []byte) string {
	ops, err := jute.DecodeMulti(jute.NewDecoder(body))
	if err != nil {
		return ", which is malformed: " + err.Error()
	}
	return ", of" + some(len(ops), 20, func(i int) string {
		return fmt.Sprintf("[%v %s]", ops[i].Op, quoteCut(ops[i].Path))
	})
}

// identitiesOf lists identities, without the hashes of digest users.
func identitiesOf(ids []jute.ID) string {
	return some(len(ids), 10, func(i int) string {
		name := ids[i].ID
		if user, _, ok := strings.Cut(name, ":"); ok && ids[i].Scheme == "digest" {
			name = user
		}
		return quoteCut(ids[i].Scheme + ":" + name)
	})
}

// some lists n things, at most most of them.
func some(n, most int, one func(i int) string) (text string) {
	for i := range min(n, most) {
		text += " " + one(i)
	}
	if n > most {
		text += fmt.Sprintf(" and %d more", n-most)
	}
	return text
}

// quoteCut quotes a client's text, cut to textMax bytes.
func quoteCut(s string) string {
	if len(s) > textMax {
		return fmt.Sprintf("%q… (%d bytes)", s[:textMax], len(s))
	}
	return fmt.Sprintf("%q", s)
}
