package differ

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// kind says how a field's values on two servers are compared.
type kind byte

const (
	plain   kind = iota // text must be equal
	zxid                // n must have the same equality and order relative to the script's other zxids
	session             // n must have the same equality to the script's other session ids
)

// field is a value in a server's message.
type field struct {
	name string
	kind kind
	text string
	n    int64
}

func text(name, value string) field           { return field{name: name, text: value} }
func number(name string, n int64) field       { return field{name: name, text: strconv.FormatInt(n, 10)} }
func zxidField(name string, n int64) field    { return field{name: name, kind: zxid, n: n} }
func sessionField(name string, n int64) field { return field{name: name, kind: session, n: n} }

func (f field) String() string {
	if f.kind == plain {
		return f.name + "=" + f.text
	}
	return fmt.Sprintf("%s=%#x", f.name, f.n)
}

// decoder converts a reply's body to fields and checks times.
type decoder struct {
	d      *jute.Decoder
	times  map[int64]int64 // of each zxid, in milliseconds
	fields []field
}

func (r *decoder) add(f ...field) { r.fields = append(r.fields, f...) }

// body reads the parts listed in out. Any remaining bytes become a field.
func (r *decoder) body(out string) []field {
	for _, part := range strings.Fields(out) {
		r.part(part)
	}
	if r.d.Err() != nil {
		r.add(text("body", r.d.Err().Error()))
	} else if rest := r.d.Remaining(); rest != 0 {
		r.add(text("body", fmt.Sprintf("%d bytes too long", rest)))
	}
	return r.fields
}

func (r *decoder) part(part string) {
	switch part {
	case "path":
		r.add(text("path", r.nullable()))
	case "data", "token":
		r.add(text(part, r.nullable()))
	case "stat":
		r.stat()
	case "acl":
		r.acl()
	case "names":
		r.names()
	case "number":
		r.add(number("number", int64(r.d.Int())))
	case "who":
		var who jute.WhoAmIResponse
		who.Decode(r.d)
		var ids []string
		for _, c := range who.Clients {
			ids = append(ids, c.Scheme+":"+c.User)
		}
		slices.Sort(ids)
		r.add(text("who", strings.Join(ids, " ")))
	case "multi":
		r.multi()
	}
}

func (r *decoder) nullable() string {
	s, ok := r.d.NullString()
	if !ok {
		return "null"
	}
	return quote(s)
}

func (r *decoder) names() {
	count := r.d.Count(4)
	names := make([]string, 0, max(count, 0))
	for range count {
		names = append(names, r.nullable())
	}
	slices.Sort(names) // in the order of a hash table
	r.add(text("names", fmt.Sprint(count, names)))
}

func (r *decoder) acl() {
	count := r.d.Count(12)
	entries := make([]string, 0, max(count, 0))
	for range count {
		perms := r.d.Int()
		entries = append(entries, fmt.Sprint(perms, " ", r.nullable(), " ", r.nullable()))
	}
	slices.Sort(entries) // the entries that "auth" stands for are in the order of a hash table
	r.add(text("acl", fmt.Sprint(count, entries)))
}

// stat reads a Stat. Times differ between servers, so they are only checked for consistency: each change has a single
// time, and a later change doesn't have an earlier one.
func (r *decoder) stat() {
	var s jute.Stat
	s.Decode(r.d)
	r.add(zxidField("czxid", s.Czxid), zxidField("mzxid", s.Mzxid), zxidField("pzxid", s.Pzxid),
		sessionField("ephemeralOwner", s.EphemeralOwner))
	r.add(number("version", int64(s.Version)), number("cversion", int64(s.Cversion)),
		number("aversion", int64(s.Aversion)),
		number("dataLength", int64(s.DataLength)), number("numChildren", int64(s.NumChildren)))
	if r.d.Err() != nil {
		return
	}
	if s.Mtime < s.Ctime {
		r.add(text("time", "mtime before ctime"))
	}
	r.time("ctime", s.Czxid, s.Ctime)
	r.time("mtime", s.Mzxid, s.Mtime)
}

func (r *decoder) time(name string, zxid, time int64) {
	if zxid == 0 || time == 0 {
		r.add(number(name, time)) // a znode that no change has created
		return
	}
	if known, ok := r.times[zxid]; ok && known != time {
		r.add(text(name, fmt.Sprintf("two times of one change, %d and %d", known, time)))
	}
	r.times[zxid] = time
}

func (r *decoder) multi() {
	for i := 0; ; i++ {
		typ, done, code := jute.Op(r.d.Int()), r.d.Bool(), r.d.Int()
		if r.d.Err() != nil {
			return
		}
		r.add(text(fmt.Sprintf("result %d", i), fmt.Sprintf("%v done=%v err=%d", typ, done, code)))
		if done {
			return
		}
		switch typ {
		case jute.OpError:
			r.part("number")
		case jute.OpCreate:
			r.part("path")
		case jute.OpCreate2:
			r.part("path")
			r.part("stat")
		case jute.OpSetData:
			r.part("stat")
		case jute.OpGetData:
			r.part("data")
			r.part("stat")
		case jute.OpGetChildren:
			r.part("names")
		case jute.OpDelete, jute.OpCheck:
		default:
			r.add(text("result", "of a type no client knows"))
			return
		}
	}
}
