package tree

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

const (
	// describedMax bounds the requests that Describe lists, and describedText the bytes of each of their strings.
	describedMax  = 200
	describedText = 256
)

// Describe lists the requests of a batch in readable form, one per line. It marks the request with the index mark. It
// lists only the first describedMax requests and the marked one, so that the text stays readable. It shows neither data
// nor passwords. batch may hold any bytes: Describe doesn't panic.
func Describe(batch []byte, mark int) (told string) {
	var text strings.Builder
	defer func() {
		if cause := recover(); cause != nil {
			told = fmt.Sprintf("%s   then: it can't be told: %v\n", text.String(), cause)
		}
	}()
	records := NewRecords(batch)
	fmt.Fprintf(&text, "batch of %d bytes, time %d\n", len(batch), records.Time())
	var q Request
	n := 0
	for ; records.Next(&q); n++ {
		if n >= describedMax && n != mark {
			continue
		}
		sign := "   "
		if n == mark {
			sign = "-> "
		}
		fmt.Fprintf(&text, "%s%d: %v, session %#x, connection %#x, sequence %d, xid %d, %d bytes%s, identities%s\n",
			sign, n, OpName(q.Op), uint64(q.Session), uint64(q.Cnx), q.Seq, q.Xid, len(q.Body), describeBody(&q),
			describeIdentities(q.Identities))
	}
	if n > describedMax {
		fmt.Fprintf(&text, "   … %d requests in all\n", n)
	}
	if err := records.Err(); err != nil {
		fmt.Fprintf(&text, "   then: %v\n", err)
	}
	return text.String()
}

// describeBody describes the body of a request, if its format is known.
func describeBody(q *Request) string {
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
		return describeMulti(q.Body)
	case OpMembers:
		return ", " + quoteCut(string(q.Body))
	}
	return ""
}

// describeMulti lists the operations of a multi that can be decoded.
func describeMulti(body []byte) string {
	const most = 20
	ops, err := jute.DecodeMulti(jute.NewDecoder(body))
	if err != nil {
		return ", which is malformed: " + err.Error()
	}
	var text strings.Builder
	for i := range ops {
		if i == most {
			fmt.Fprintf(&text, " and %d more", len(ops)-most)
			break
		}
		fmt.Fprintf(&text, " [%v %s]", ops[i].Op, quoteCut(ops[i].Path))
	}
	return ", of" + text.String()
}

// describeIdentities lists identities, without the hashes of digest users.
func describeIdentities(ids []jute.ID) string {
	const most = 10
	var text strings.Builder
	for i, id := range ids {
		if i == most {
			fmt.Fprintf(&text, " and %d more", len(ids)-most)
			break
		}
		name := id.ID
		if user, _, ok := strings.Cut(name, ":"); ok && id.Scheme == "digest" {
			name = user
		}
		text.WriteString(" " + quoteCut(id.Scheme+":"+name))
	}
	return text.String()
}

// quoteCut quotes a client's text, cut to describedText bytes.
func quoteCut(s string) string {
	if len(s) > describedText {
		return fmt.Sprintf("%q… (%d bytes)", s[:describedText], len(s))
	}
	return fmt.Sprintf("%q", s)
}
