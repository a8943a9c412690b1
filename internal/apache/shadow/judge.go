package shadow

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/apache/compare"
	"github.com/zooid-project/zooid/jute"
)

// A Field is a part of a reply that differs, as text.
type Field struct {
	Name    string `json:"name"`
	Primary string `json:"primary"`
	Shadow  string `json:"shadow"`
}

// A Difference is a reply or a notification that isn't the same on both sides.
type Difference struct {
	Op      string  `json:"operation"`
	Path    string  `json:"path,omitempty"`
	Xid     int32   `json:"xid"`
	Session int64   `json:"session"` // the primary's
	Zxid    int64   `json:"zxid"`    // the primary's
	Fields  []Field `json:"fields"`
	Doubt   string  `json:"doubt,omitempty"` // why the reply counts only as unsure, "" for a difference
}

// String returns the difference as a line.
func (d *Difference) String() string {
	var b strings.Builder
	verdict := "differs"
	if d.Doubt != "" {
		verdict = "unsure"
	}
	fmt.Fprintf(&b, "%s: %s %s (session %#x, xid %d, zxid %#x)", verdict, d.Op, d.Path, uint64(d.Session), d.Xid,
		uint64(d.Zxid))
	for i, f := range d.Fields {
		mark := ", "
		if i == 0 {
			mark = ": "
		}
		fmt.Fprintf(&b, "%s%s (%s, %s)", mark, f.Name, f.Primary, f.Shadow)
	}
	if d.Doubt != "" {
		fmt.Fprintf(&b, "; %s", d.Doubt)
	}
	return b.String()
}

// configPath is the znode that holds each ensemble's own membership.
const configPath = "/zookeeper/config"

// A judge compares a reply of the primary with the shadow's.
type judge struct {
	ignored map[string]bool
	// owner returns the shadow's session that corresponds to a session of the primary.
	owner  func(primary int64) (shadow int64, ok bool)
	fields []Field
}

func (j *judge) add(name string, same bool, primary, shadow string) {
	if !same && !j.ignored[name] {
		j.fields = append(j.fields, Field{name, primary, shadow})
	}
}

// compare compares two replies to a request.
func (j *judge) compare(x *exchange, code jute.Code, body []byte) []Field {
	j.fields = nil
	if x.code != code {
		j.add("error", false, x.code.String(), code.String())
		return j.fields
	}
	if x.code != jute.OK || slices.Contains(pathsOf(x.op, x.request), configPath) {
		return j.fields
	}
	a, b := jute.NewDecoder(x.reply), jute.NewDecoder(body)
	if !j.records(x.op, a, b) || a.Err() != nil || b.Err() != nil {
		j.fields = nil
		j.add("reply", bytes.Equal(x.reply, body), compare.DataText(x.reply), compare.DataText(body))
	}
	return j.fields
}

// records compares the records of two successful replies. It returns false if it doesn't know their form.
func (j *judge) records(op jute.Op, a, b *jute.Decoder) bool {
	switch op {
	case jute.OpCreate, jute.OpSync:
		j.text("path", a.String(), b.String())
	case jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		j.text("path", a.String(), b.String())
		j.stats(a, b)
	case jute.OpSetData, jute.OpSetACL, jute.OpExists:
		j.stats(a, b)
	case jute.OpGetData:
		j.data(a.Buffer(), b.Buffer())
		j.stats(a, b)
	case jute.OpGetACL:
		j.acls(jute.DecodeACLs(a), jute.DecodeACLs(b))
		j.stats(a, b)
	case jute.OpGetChildren:
		j.names("children", a.Strings(), b.Strings())
	case jute.OpGetChildren2:
		j.names("children", a.Strings(), b.Strings())
		j.stats(a, b)
	case jute.OpGetEphemerals:
		j.names("ephemerals", a.Strings(), b.Strings())
	case jute.OpGetAllChildrenNumber:
		j.number("number", int64(a.Int()), int64(b.Int()))
	case jute.OpMulti, jute.OpMultiRead:
		return j.multi(a, b)
	case jute.OpWhoAmI:
		var p, s jute.WhoAmIResponse
		p.Decode(a)
		s.Decode(b)
		j.names("identities", users(&p), users(&s))
	default:
		return false
	}
	return true
}

// multi compares the results of a multi one by one.
func (j *judge) multi(a, b *jute.Decoder) bool {
	p, errP := jute.DecodeMultiResponse(a)
	s, errS := jute.DecodeMultiResponse(b)
	if errP != nil || errS != nil {
		return false
	}
	j.number("results", int64(len(p)), int64(len(s)))
	for i := range min(len(p), len(s)) {
		before := len(j.fields)
		if p[i].Op != s[i].Op || p[i].Err != s[i].Err {
			j.add("result", false, fmt.Sprintf("%v %v", p[i].Op, p[i].Err), fmt.Sprintf("%v %v", s[i].Op, s[i].Err))
		} else {
			j.text("path", p[i].Path, s[i].Path)
			j.data(p[i].Data, s[i].Data)
			j.names("children", p[i].Children, s[i].Children)
			j.stat(&p[i].Stat, &s[i].Stat)
		}
		for k := before; k < len(j.fields); k++ {
			j.fields[k].Name += fmt.Sprintf(" of operation %d", i+1)
		}
	}
	return true
}

func (j *judge) text(name, p, s string) {
	j.add(name, p == s, fmt.Sprintf("%.200q", p), fmt.Sprintf("%.200q", s))
}

func (j *judge) number(name string, p, s int64) {
	j.add(name, p == s, fmt.Sprint(p), fmt.Sprint(s))
}

func (j *judge) data(p, s []byte) {
	j.add("data", bytes.Equal(p, s) && (p == nil) == (s == nil), compare.DataText(p), compare.DataText(s))
}

// names compares lists as sets.
func (j *judge) names(name string, p, s []string) {
	p, s = slices.Sorted(slices.Values(p)), slices.Sorted(slices.Values(s))
	if slices.Equal(p, s) {
		return
	}
	j.add(name, false, fmt.Sprintf("%d, %s", len(p), fewOf(p, s)), fmt.Sprintf("%d, %s", len(s), fewOf(s, p)))
}

// namesShown is how many names a difference shows.
const namesShown = 3

// fewOf lists names that only the first list has.
func fewOf(names, others []string) string {
	var only []string
	for _, name := range names {
		if _, found := slices.BinarySearch(others, name); !found {
			only = append(only, fmt.Sprintf("%.100q", name))
		}
	}
	if len(only) > namesShown {
		only = append(only[:namesShown], "…")
	}
	return "only here: " + strings.Join(only, " ")
}

func (j *judge) acls(p, s []jute.ACL) {
	j.add("acl", slices.Equal(p, s), aclText(p), aclText(s))
}

func (j *judge) stats(a, b *jute.Decoder) {
	var p, s jute.Stat
	p.Decode(a)
	s.Decode(b)
	j.stat(&p, &s)
}

// stat compares two Stats without zxids and times, which always differ.
func (j *judge) stat(p, s *jute.Stat) {
	j.number("version", int64(p.Version), int64(s.Version))
	j.number("cversion", int64(p.Cversion), int64(s.Cversion))
	j.number("aversion", int64(p.Aversion), int64(s.Aversion))
	j.number("dataLength", int64(p.DataLength), int64(s.DataLength))
	j.number("numChildren", int64(p.NumChildren), int64(s.NumChildren))
	mapped, ok := p.EphemeralOwner, true
	if shadow, known := j.owner(p.EphemeralOwner); known {
		mapped = shadow
	}
	ok = mapped == s.EphemeralOwner
	j.add("ephemeralOwner", ok, fmt.Sprintf("%#x", uint64(p.EphemeralOwner)), fmt.Sprintf("%#x", uint64(s.EphemeralOwner)))
}

// users returns the identities except addresses: both servers see the proxy's.
func users(r *jute.WhoAmIResponse) (all []string) {
	for _, c := range r.Clients {
		if c.Scheme != "ip" {
			all = append(all, c.Scheme+":"+c.User)
		}
	}
	return all
}

// aclText returns an ACL as text, without the password hashes in it.
func aclText(acl []jute.ACL) string {
	var b strings.Builder
	for i, a := range acl {
		if i == namesShown {
			fmt.Fprintf(&b, " … of %d", len(acl))
			break
		}
		id := a.ID.ID
		if a.ID.Scheme == "digest" || a.ID.Scheme == "super" {
			user, _, _ := strings.Cut(id, ":")
			id = user + ":…"
		}
		fmt.Fprintf(&b, " %.100q:%.100q:%d", a.ID.Scheme, id, a.Perms)
	}
	return strings.TrimSpace(b.String())
}
