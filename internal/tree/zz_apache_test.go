package tree

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"testing"
	"time"
	"encoding/binary"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

type zc struct {
	c   net.Conn
	id  int64
	xid int32
	ids []jute.ID
	seq int64
	ourID int64
}

func (z *zc) frame(b []byte) []byte {
	z.c.SetDeadline(time.Now().Add(5 * time.Second))
	z.c.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...))
	r, err := jute.ReadFrame(z.c, nil, 1<<24)
	if err != nil {
		panic(err)
	}
	return r
}

func dial(t *testing.T, authd string) *zc {
	c, err := net.Dial("tcp", "127.0.0.1:28181")
	if err != nil {
		t.Fatal(err)
	}
	z := &zc{c: c}
	r := jute.ConnectRequest{Timeout: 30000, Passwd: make([]byte, 16), HasReadOnly: true}
	var resp jute.ConnectResponse
	resp.Decode(jute.NewDecoder(z.frame(r.Append(nil))))
	z.id = resp.SessionID
	z.ids = []jute.ID{{Scheme: "ip", ID: "127.0.0.1"}}
	if authd != "" {
		b := (&jute.RequestHeader{Xid: -4, Op: jute.OpAuth}).Append(nil)
		b = (&jute.AuthPacket{Scheme: "digest", Auth: []byte(authd)}).Append(b)
		z.frame(b)
		id, _ := auth.Digest("", authd)
		z.ids = append(z.ids, jute.ID{Scheme: "digest", ID: id})
	}
	return z
}

func (z *zc) call(op jute.Op, body []byte) (jute.ReplyHeader, []byte) {
	z.xid++
	b := (&jute.RequestHeader{Xid: z.xid, Op: op}).Append(nil)
	var h jute.ReplyHeader
	r := z.frame(append(b, body...))
	h.Decode(jute.NewDecoder(r))
	return h, r[16:]
}

func mask(s *jute.Stat, owners map[int64]int64) {
	for _, p := range []*int64{&s.Czxid, &s.Mzxid, &s.Pzxid} {
		*p &= 0xffffffff
	}
	if s.Ctime != 0 { s.Ctime = 1 }
	if s.Mtime != 0 { s.Mtime = 1 }
	if o, ok := owners[s.EphemeralOwner]; ok { s.EphemeralOwner = o }
}

func render(op jute.Op, b []byte, owners map[int64]int64) string {
	d := jute.NewDecoder(b)
	out := ""
	stat := func() { var s jute.Stat; s.Decode(d); mask(&s, owners); out += fmt.Sprintf("%+v", s) }
	switch op {
	case jute.OpCreate: out += d.String()
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL: out += d.String(); stat()
	case jute.OpSetData, jute.OpSetACL, jute.OpExists: stat()
	case jute.OpGetData: out += fmt.Sprintf("%q", d.Buffer()); stat()
	case jute.OpGetACL: out += fmt.Sprint(jute.DecodeACLs(d)); stat()
	case jute.OpGetChildren2: v := d.Strings(); slices.Sort(v); out += fmt.Sprint(v); stat()
	case jute.OpGetEphemerals, jute.OpGetChildren: v := d.Strings(); slices.Sort(v); out += fmt.Sprint(v)
	case jute.OpGetAllChildrenNumber: out += fmt.Sprint(d.Int())
	case jute.OpMulti, jute.OpMultiRead:
		rs, err := jute.DecodeMultiResponse(d)
		for i := range rs { mask(&rs[i].Stat, owners); slices.Sort(rs[i].Children) }
		out += fmt.Sprintf("%+v %v", rs, err)
	}
	if d.Remaining() > 0 { out += fmt.Sprintf(" +%d", d.Remaining()) }
	return out
}

func TestZZApache(t *testing.T) {
	clients := []*zc{dial(t, ""), dial(t, "alice:pw"), dial(t, "bob:pw")}
	alice = clients[1].ids[1]
	bob = clients[2].ids[1]
	address = clients[0].ids[0]
	acls[7][0].ID, acls[7][1].ID = alice, bob
	acls[8][0].ID, acls[8][1].ID = alice, alice
	acls[9][0].ID = address
	w := &walker{t: t, rnd: rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 1)), tree: New(Options{}), model: newModel()}
	w.tree.NewTerm(1, 1)
	w.tree.position.zxid = 1 << 32
	index := uint64(1)
	owners := map[int64]int64{}
	apply := func(q *Request) (res Result, body []byte) {
		index++
		if err := w.tree.Apply(1, index, AppendRecord(AppendBatchHeader(nil, time.Now().UnixMilli()), q), func(r *Result) {
			res = *r
			body = r.AppendReply(nil)
			if bytes.ContainsAny(nil, "") { _ = io.EOF }
		}); err != nil { t.Fatal(err) }
		return
	}
	st := DefaultSettings()
	st.ExtendedTypes, st.EnforceQuota = true, true
	apply(&Request{Op: OpSettings, Body: st.Append(nil)})
	for i, z := range clients {
		z.ourID = int64(i + 1)
		owners[z.id] = z.ourID
		apply(&Request{Op: jute.OpCreateSession, Session: z.ourID, Cnx: z.ourID, Body: jute.AppendBuffer(jute.AppendInt(nil, 1000), make([]byte, 16))})
	}
	diffs := 0
	for step := 0; step < 6000 && diffs < 5; step++ {
		z := clients[w.rnd.IntN(3)]
		o := w.op()
		if w.one(5) { o.op = jute.OpSetACL } else if w.one(4) {
			o.op = jute.OpMulti
			for range w.rnd.IntN(6) {
				s := w.op()
				if w.one(5) { s.op = jute.OpCheck }
				if s.op == jute.OpCreate2 { s.op = jute.OpCreate }
				if s.op == jute.OpCreateTTL { if s.flags < 5 || s.flags > 6 { s.flags = 5 } } else if s.flags < 0 || s.flags > 4 { s.flags = 0 }
				if s.op == jute.OpCreateContainer { s.flags = 4 }
				o.sub = append(o.sub, s)
			}
		}
		figures := func(o *modelOp) {
			if i := len(o.path) - 16; i > 0 && bytes.Contains([]byte(o.path), []byte("/zookeeper_")) {
				o.data = fmt.Appendf(nil, "count=%d,bytes=%d=;byteHardLimit=%d;countHardLimit=%d", w.rnd.IntN(5), w.rnd.IntN(50), w.rnd.IntN(2000)-1, w.rnd.IntN(8)-1)
			}
		}
		figures(&o)
		for i := range o.sub { figures(&o.sub[i]) }
		body := encode(&o)
		h, ab := z.call(o.op, body)
		z.seq++
		r, zb := apply(&Request{Op: o.op, Session: z.ourID, Cnx: z.ourID, Seq: z.seq, Identities: z.ids, Body: body})
		a, b := render(o.op, ab, owners), render(o.op, zb, owners)
		if h.Err != jute.OK { a = "" }; if r.Err != jute.OK { b = "" }
		if h.Err != r.Err || a != b || h.Zxid != r.Zxid&0xffffffff {
			t.Errorf("step %d client %d %v %q flags=%d ttl=%d acl=%v v=%d sub=%+v\n apache %#x %v %s\n zooid  %#x %v %s", step, z.ourID, o.op, o.path, o.flags, o.ttl, o.acl, o.version, o.sub, h.Zxid, h.Err, a, r.Zxid, r.Err, b)
			diffs++
			if h.Zxid != r.Zxid&0xffffffff { return }
		}
		// reads
		path := w.path()
		for _, op := range []jute.Op{jute.OpGetData, jute.OpExists, jute.OpGetACL, jute.OpGetChildren2, jute.OpGetAllChildrenNumber, jute.OpGetEphemerals} {
			var body, zb []byte
			var code jute.Code
			switch op {
			case jute.OpGetData: body = (&jute.PathWatchRequest{Path: path}).Append(nil); zb, code = w.tree.AppendGetData(nil, path, z.ids)
			case jute.OpExists: body = (&jute.PathWatchRequest{Path: path}).Append(nil); zb, code = w.tree.AppendExists(nil, path, z.ids)
			case jute.OpGetChildren2: body = (&jute.PathWatchRequest{Path: path}).Append(nil); zb, code = w.tree.AppendGetChildren2(nil, path, z.ids)
			case jute.OpGetACL: body = (&jute.PathRequest{Path: path}).Append(nil); zb, code = w.tree.AppendGetACL(nil, path, z.ids)
			case jute.OpGetAllChildrenNumber: body = (&jute.PathRequest{Path: path}).Append(nil); zb, code = w.tree.AppendAllChildrenNumber(nil, path, z.ids)
			case jute.OpGetEphemerals: body = (&jute.PathRequest{Path: path}).Append(nil); zb = w.tree.AppendEphemerals(nil, z.ourID, path)
			}
			h, ab := z.call(op, body)
			if op == jute.OpExists && code == jute.ErrNoAuth { continue }
			a, b := render(op, ab, owners), render(op, zb, owners)
			if h.Err != jute.OK { a = "" }
			if code != jute.OK { b = "" }
			if h.Err != code || a != b {
				t.Errorf("step %d read %v %q\n apache %v %s\n zooid  %v %s", step, op, path, h.Err, a, code, b)
				diffs++
			}
		}
	}
	t.Logf("%d znodes", w.tree.NodeCount())
}
