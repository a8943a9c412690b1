package txnlog

import (
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A transaction is a request in the log and its outcome. Fields that are unknown, or don't apply to the operation, are
// omitted.
type transaction struct {
	Zxid    string `json:"zxid,omitempty"`
	Time    string `json:"time,omitempty"`
	Session string `json:"session,omitempty"`
	Cxid    *int32 `json:"cxid,omitempty"`
	operation
	Operations []operation `json:"operations,omitempty"` // the operations of a multi
	Deleted    []string    `json:"deleted,omitempty"`    // ephemeral znodes deleted with a session
	Entry      uint64      `json:"entry"`                // the log entry, which may have many transactions
	Term       uint64      `json:"term"`
	// Committed is false if the log doesn't say that a majority has the entry: either no majority has it, or the server
	// stopped before it logged that.
	Committed bool `json:"committed"`
}

// An operation is one operation of a request.
type operation struct {
	Op      string `json:"op"`
	Path    string `json:"path,omitempty"`
	Mode    string `json:"mode,omitempty"`    // omitted for a plain persistent znode
	TTL     *int64 `json:"ttl,omitempty"`     // ms
	Version *int32 `json:"version,omitempty"` // the expected version
	Timeout *int32 `json:"timeout,omitempty"` // of a session, ms
	Bytes   *int   `json:"bytes,omitempty"`   // of data
	Data    []byte `json:"data,omitempty"`
	Members string `json:"members,omitempty"` // the new membership, for a change of membership
	Result  string `json:"result,omitempty"`
}

var modeNames = map[jute.CreateMode]string{
	jute.ModePersistentSequential: "sequential", jute.ModeEphemeral: "ephemeral",
	jute.ModeEphemeralSequential: "ephemeral sequential",
	jute.ModeContainer:           "container", jute.ModePersistentWithTTL: "ttl",
	jute.ModePersistentSequentialWithTTL: "sequential ttl",
}

// describe describes a request without its result, as far as it can be decoded.
func describe(q *tree.Request, data bool) (t transaction) {
	t.Op = tree.OpName(q.Op)
	if q.Session != 0 {
		t.Session = sessionText(q.Session)
		if q.Op != jute.OpCreateSession && q.Op != tree.OpExpire && q.Op != tree.OpAttach {
			xid := q.Xid
			t.Cxid = &xid
		}
	}
	d := jute.NewDecoder(q.Body)
	switch q.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		var c jute.CreateRequest
		c.Decode(d)
		t.create(&c, -1, data)
	case jute.OpCreateTTL:
		var c jute.CreateTTLRequest
		c.Decode(d)
		t.create(&c.CreateRequest, c.TTL, data)
	case jute.OpSetData:
		var s jute.SetDataRequest
		s.Decode(d)
		t.Path, t.Version = clone(s.Path), &s.Version
		t.holds(s.Data, data)
	case jute.OpSetACL:
		var s jute.SetACLRequest
		s.Decode(d)
		t.Path, t.Version = clone(s.Path), &s.Version
	case jute.OpDelete:
		var p jute.PathVersionRequest
		p.Decode(d)
		t.Path, t.Version = clone(p.Path), &p.Version
	case jute.OpDeleteContainer:
		t.Path = clone(d.String())
	case jute.OpCreateSession:
		timeout := d.Int()
		t.Timeout = &timeout
	case jute.OpReconfig:
		var c jute.ReconfigRequest
		c.Decode(d)
		t.Members = reconfigText(&c)
	case tree.OpMembers:
		t.Members = string(q.Body)
	case jute.OpMulti:
		t.multi(d, data)
	}
	return t
}

func (t *transaction) multi(d *jute.Decoder, data bool) {
	ops, err := jute.DecodeMulti(d)
	if err != nil {
		return
	}
	for i := range ops {
		m := &ops[i]
		o := operation{Op: m.Op.String(), Path: clone(m.Path)}
		switch m.Op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			o.create(&jute.CreateRequest{Path: m.Path, Data: m.Data, Flags: m.Flags}, m.TTL, data)
		case jute.OpSetData:
			o.Version = &m.Version
			o.holds(m.Data, data)
		default:
			o.Version = &m.Version
		}
		t.Operations = append(t.Operations, o)
	}
}

func (o *operation) create(c *jute.CreateRequest, ttl int64, data bool) {
	o.Path, o.Mode = clone(c.Path), modeNames[c.Flags]
	if c.Flags.TTL() {
		o.TTL = &ttl
	}
	o.holds(c.Data, data)
}

// holds sets the data of a request, or only the size if data is false.
func (o *operation) holds(b []byte, data bool) {
	n := len(b)
	o.Bytes = &n
	if data {
		o.Data = append([]byte{}, b...)
	}
}

func reconfigText(c *jute.ReconfigRequest) string {
	var parts []string
	for _, p := range []struct {
		what string
		text *string
	}{{"joining ", c.Joining}, {"leaving ", c.Leaving}, {"members ", c.NewMembers}} {
		if p.text != nil && *p.text != "" {
			parts = append(parts, p.what+*p.text)
		}
	}
	return strings.Join(parts, "; ")
}

func timeText(ms int64) string {
	return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z")
}

// clone copies a string that refers to the log's memory.
func clone(s string) string { return strings.Clone(s) }
