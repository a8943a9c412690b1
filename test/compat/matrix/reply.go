package matrix

import (
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// parts lists the parts in the body of a successful answer.
var parts = map[jute.Op]string{
	jute.OpCreate:               "path",
	jute.OpCreate2:              "path stat",
	jute.OpCreateContainer:      "path stat",
	jute.OpCreateTTL:            "path stat",
	jute.OpExists:               "stat",
	jute.OpGetData:              "data stat",
	jute.OpSetData:              "stat",
	jute.OpGetACL:               "acl stat",
	jute.OpSetACL:               "stat",
	jute.OpGetChildren:          "names",
	jute.OpGetChildren2:         "names stat",
	jute.OpSync:                 "path",
	jute.OpMulti:                "multi",
	jute.OpMultiRead:            "multi",
	jute.OpReconfig:             "data stat",
	jute.OpAddWatch:             "number",
	jute.OpGetEphemerals:        "names",
	jute.OpGetAllChildrenNumber: "number",
	jute.OpWhoAmI:               "who",
}

// describe returns an answer as text: its code, and its body without values that differ between any two servers. Lists
// without a guaranteed order are sorted.
func describe(op jute.Op, code jute.Code, d *jute.Decoder) string {
	if code != jute.OK {
		return code.String()
	}
	var b strings.Builder
	b.WriteString("ok")
	for _, part := range strings.Fields(parts[op]) {
		describePart(&b, part, d)
	}
	if d.Err() != nil || d.Remaining() != 0 {
		fmt.Fprintf(&b, " and %d bytes more, %v", d.Remaining(), d.Err())
	}
	return b.String()
}

func describePart(b *strings.Builder, part string, d *jute.Decoder) {
	switch part {
	case "path":
		fmt.Fprintf(b, " %s", d.String())
	case "data":
		fmt.Fprintf(b, " %q", d.Buffer())
	case "number":
		fmt.Fprintf(b, " %d", d.Int())
	case "names":
		names := d.Strings()
		slices.Sort(names)
		fmt.Fprintf(b, " %q", names)
	case "stat":
		describeStat(b, d)
	case "acl":
		var entries []string
		for _, a := range jute.DecodeACLs(d) {
			entries = append(entries, fmt.Sprintf("%s:%s:%d", a.ID.Scheme, a.ID.ID, a.Perms))
		}
		slices.Sort(entries)
		fmt.Fprintf(b, " %q", entries)
	case "who":
		var r jute.WhoAmIResponse
		r.Decode(d)
		var names []string
		for _, c := range r.Clients {
			names = append(names, c.Scheme+":"+c.User)
		}
		slices.Sort(names)
		fmt.Fprintf(b, " %q", names)
	case "multi":
		describeMulti(b, d)
	}
}

func describeStat(b *strings.Builder, d *jute.Decoder) {
	var s jute.Stat
	s.Decode(d)
	fmt.Fprintf(b, " v%d c%d a%d, %d bytes, %d children", s.Version, s.Cversion, s.Aversion, s.DataLength, s.NumChildren)
	if s.EphemeralOwner != 0 {
		b.WriteString(", owned")
	}
}

func describeMulti(b *strings.Builder, d *jute.Decoder) {
	for {
		op, done, code := jute.Op(d.Int()), d.Bool(), d.Int()
		if d.Err() != nil || done {
			return
		}
		fmt.Fprintf(b, " [%v %d", op, code)
		switch op {
		case jute.OpError:
			describePart(b, "number", d)
		case jute.OpCreate, jute.OpCreate2, jute.OpSetData, jute.OpGetData, jute.OpGetChildren:
			for _, part := range strings.Fields(parts[op]) {
				describePart(b, part, d)
			}
		}
		b.WriteString("]")
	}
}
