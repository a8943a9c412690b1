package replica

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// requests sends the requests of a line, separated by semicolons, at once. The connection ends with an error, as it
// does in a server; what isn't taken yet is passed in again by the next line.
func (s *theatre) requests(a *actor, words []string) {
	var in []byte
	for part := range strings.SplitSeq(strings.Join(words, " "), " ; ") {
		l := lineOf(strings.Fields(part))
		if len(l.words) == 0 {
			break // only what is left
		}
		op, record := s.request(l.word(0), line{l.words[1:], l.named})
		switch {
		case op == jute.OpPing:
			in = append(in, ping()...)
			continue
		case l.word(0) == "-1": // no frame
			in = append(in, 0xff, 0xff, 0xff, 0xff)
			continue
		case l.word(0) == "7": // too short for a header
			in = append(in, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0)
			continue
		}
		in = a.raw.request(in, op, record)
		a.asked[a.raw.xid] = op
	}
	in = append(a.rest, in...)
	used, err := s.receive(a.Client, in)
	a.rest = in[used:]
	switch {
	case err == nil:
	case errors.Is(err, ErrPaced):
		s.printf("%s: paced for %v, %d of %d bytes are taken\n", a.name, a.Pause(), used, len(in))
	case errors.Is(err, ErrUntold), errors.Is(err, ErrNotUpToDate):
		s.printf("%s: %v, %d of %d bytes are taken\n", a.name, err, used, len(in))
		if errors.Is(err, ErrNotUpToDate) {
			return // nothing is written meanwhile
		}
	default:
		s.printf("%s: %v\n", a.name, err)
		if !errors.Is(err, ErrClosing) {
			a.CloseAfter("its input is no protocol")
		}
	}
	s.flushOwn(a)
}

// opsByName are the operations, as transcripts call them.
var opsByName = map[string]jute.Op{
	"create": jute.OpCreate, "create2": jute.OpCreate2, "container": jute.OpCreateContainer, "ttl": jute.OpCreateTTL,
	"delete": jute.OpDelete, "set": jute.OpSetData, "setacl": jute.OpSetACL, "multi": jute.OpMulti, "sync": jute.OpSync,
	"get": jute.OpGetData, "exists": jute.OpExists, "ls": jute.OpGetChildren, "ls2": jute.OpGetChildren2,
	"getacl": jute.OpGetACL, "count": jute.OpGetAllChildrenNumber, "ephemerals": jute.OpGetEphemerals,
	"read": jute.OpMultiRead, "ping": jute.OpPing, "close": jute.OpCloseSession, "whoami": jute.OpWhoAmI,
	"addwatch": jute.OpAddWatch, "checkwatch": jute.OpCheckWatches, "removewatch": jute.OpRemoveWatches,
	"setwatches": jute.OpSetWatches, "setwatches2": jute.OpSetWatches2, "auth": jute.OpAuth, "sasl": jute.OpSASL,
	"reconfig": jute.OpReconfig,
}

// request returns an operation and its record.
func (s *theatre) request(name string, l line) (jute.Op, func([]byte) []byte) {
	op, ok := opsByName[name]
	switch name {
	case "piece": // of what is restored
		return jute.OpCreate, creating(tree.PiecePath(tree.RestorePath+"/p", 0), s.saved, jute.ModeEphemeral)
	case "restore":
		return tree.OpRestore, func(b []byte) []byte {
			return tree.AppendRestore(b, tree.RestorePath+"/p", 1, sha256.Sum256(s.saved))
		}
	}
	if !ok {
		return jute.Op(s.int(name)), nil
	}
	path := l.word(0)
	data := []byte(strings.ReplaceAll(l.named["data"], "+", " "))
	if size := s.number(l, "size", 0); size > 0 {
		data = make([]byte, size)
	}
	acl := jute.WorldACL(jute.PermAll)
	if scheme, id, ok := strings.Cut(l.named["acl"], ":"); ok {
		acl = []jute.ACL{{Perms: jute.PermAll, ID: jute.ID{Scheme: scheme, ID: id}}}
	}
	creates := jute.CreateRequest{Path: path, Data: data, ACL: acl, Flags: jute.CreateMode(s.number(l, "flags", 0))}
	number := int32(s.number(l, "type", 0))
	if l.has("malformed") {
		return op, func(b []byte) []byte { return append(b, 0, 0, 1) }
	}
	switch op {
	case jute.OpCreate, jute.OpCreate2:
		return op, creates.Append
	case jute.OpCreateContainer:
		creates.Flags = jute.ModeContainer
		return op, creates.Append
	case jute.OpCreateTTL:
		creates.Flags = jute.ModePersistentWithTTL
		return op, (&jute.CreateTTLRequest{CreateRequest: creates, TTL: s.number(l, "ttl", 1000)}).Append
	case jute.OpDelete:
		return op, deleting(path)
	case jute.OpSetData:
		return op, setting(path, data)
	case jute.OpSetACL:
		return op, (&jute.SetACLRequest{Path: path, ACL: acl, Version: -1}).Append
	case jute.OpMulti, jute.OpMultiRead:
		return op, s.multi(l.words)
	case jute.OpGetData, jute.OpExists, jute.OpGetChildren, jute.OpGetChildren2:
		return op, reading(path, l.has("watch"))
	case jute.OpSync, jute.OpGetACL, jute.OpGetAllChildrenNumber, jute.OpGetEphemerals:
		return op, (&jute.PathRequest{Path: path}).Append
	case jute.OpAddWatch:
		return op, (&jute.AddWatchRequest{Path: path, Mode: jute.AddWatchMode(number)}).Append
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		return op, (&jute.WatchesRequest{Path: path, Type: jute.WatcherType(number)}).Append
	case jute.OpSetWatches, jute.OpSetWatches2:
		list := func(key string) []string {
			return strings.FieldsFunc(l.named[key], func(r rune) bool { return r == ',' })
		}
		w := jute.SetWatches{
			RelativeZxid: s.number(l, "zxid", 0), Data: list("data"), Exist: list("exist"), Child: list("child"),
			Persistent: list("persistent"), PersistentTree: list("recursive"),
		}
		return op, func(b []byte) []byte { return w.Append(b, op) }
	case jute.OpAuth:
		return op, (&jute.AuthPacket{Scheme: path, Auth: []byte(l.word(1))}).Append
	case jute.OpSASL:
		return op, (&jute.SASLPacket{Token: []byte(path)}).Append
	case jute.OpReconfig:
		members := words(l.named["members"])
		return op, (&jute.ReconfigRequest{NewMembers: &members, CurConfigID: -1}).Append
	}
	return op, nil
}

// multi returns the record of a multi of words such as create:/a and get:/b.
func (s *theatre) multi(words []string) func([]byte) []byte {
	var ops []jute.MultiOp
	for _, word := range words {
		name, path, _ := strings.Cut(word, ":")
		ops = append(ops, jute.MultiOp{Op: opsByName[name], Path: path, ACL: jute.WorldACL(jute.PermAll), Version: -1})
	}
	return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
}

// Try prints the frames that are written.
func (a *actor) Try(out []byte) int {
	if a.stuck {
		return 0
	}
	a.written += len(out)
	for d := jute.NewDecoder(out); d.Remaining() > 0; {
		frame := d.Buffer()
		if d.Err() != nil {
			a.s.t.Fatalf("%s gets a part of a frame: %q", a.name, out)
		}
		a.frame(jute.NewDecoder(frame), len(frame))
	}
	return len(out)
}

// frame prints one frame.
func (a *actor) frame(d *jute.Decoder, size int) {
	if !a.greeted {
		a.greeted = true
		var res jute.ConnectResponse
		res.Decode(d)
		a.s.printf("%s: session %#x timeout %d read-only %t passwd %.9q\n", a.name, res.SessionID, res.Timeout, res.ReadOnly,
			res.Passwd)
		return
	}
	var h jute.ReplyHeader
	h.Decode(d)
	if h.Xid == jute.XidNotification {
		var e jute.WatcherEvent
		e.Decode(d)
		a.s.printf("%s: event %v %s zxid %#x\n", a.name, e.Type, e.Path, h.Zxid)
		return
	}
	op := jute.OpPing
	if h.Xid >= 0 {
		op = a.asked[h.Xid]
	}
	a.s.printf("%s: %d %v zxid %#x %v%s\n", a.name, h.Xid, op, h.Zxid, h.Err, bodyOf(op, d))
}

// bodyOf returns what the body of a reply says.
func bodyOf(op jute.Op, d *jute.Decoder) string {
	size := d.Remaining()
	if size == 0 {
		return ""
	}
	text := ""
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpSync:
		text = d.String()
	case jute.OpGetData, jute.OpSASL:
		text = fmt.Sprintf("%.20q", d.Buffer())
	case jute.OpGetChildren, jute.OpGetChildren2, jute.OpGetEphemerals:
		if names := d.Strings(); len(names) > 9 {
			text = fmt.Sprintf("%d names from %s to %s", len(names), names[0], names[len(names)-1])
		} else {
			text = strings.Join(names, ",")
		}
	case jute.OpGetAllChildrenNumber:
		text = fmt.Sprint(d.Int())
	case jute.OpWhoAmI, jute.OpGetACL:
		for range max(0, d.Count(8)) {
			if op == jute.OpGetACL {
				text += fmt.Sprint(d.Int(), " ")
			}
			text += d.String() + ":" + d.String() + " "
		}
	}
	if rest := d.Remaining(); rest > 0 {
		text += fmt.Sprintf(" and %d bytes", rest)
	}
	return strings.TrimRight(" "+strings.TrimSpace(text), " ")
}
