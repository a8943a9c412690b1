package compare

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/zk"
)

// A Znode is what clients see of a znode, without its children's names.
type Znode struct {
	Path string
	Data []byte // nil for null
	Stat zk.Stat
	ACL  []zk.ACL
	Err  error // why it can't be read
}

// A Field is a part of a znode that differs, as text.
type Field struct {
	Name string `json:"name"`
	A    string `json:"a"`
	B    string `json:"b"`
}

// fieldNames are all fields, by the names that -ignore accepts.
var fieldNames = []string{
	"data", "czxid", "mzxid", "ctime", "mtime", "version", "cversion", "aversion", "ephemeralOwner", "dataLength",
	"numChildren", "pzxid", "acl",
}

// groups are names that stand for several fields.
var groups = map[string][]string{
	"zxids": {"czxid", "mzxid", "pzxid"},
	"times": {"ctime", "mtime"},
}

// ParseIgnored parses a list of fields to ignore.
func ParseIgnored(text string) (ignored map[string]bool, err error) {
	ignored = map[string]bool{}
	for _, name := range strings.Split(text, ",") {
		switch name = strings.TrimSpace(name); {
		case name == "":
		case groups[name] != nil:
			for _, field := range groups[name] {
				ignored[field] = true
			}
		case slices.Contains(fieldNames, name):
			ignored[name] = true
		default:
			return nil, fmt.Errorf("a znode has no field %q; the fields are %s, and zxids and times for all of these", name,
				strings.Join(fieldNames, ", "))
		}
	}
	return ignored, nil
}

// differing returns the fields in which two znodes differ. It skips ACLs that a server hides in part.
func differing(a, b *Znode, ignored map[string]bool) (fields []Field) {
	add := func(name string, same bool, textA, textB string) {
		if !same && !ignored[name] {
			fields = append(fields, Field{name, textA, textB})
		}
	}
	add("data", bytes.Equal(a.Data, b.Data) && (a.Data == nil) == (b.Data == nil), DataText(a.Data), DataText(b.Data))
	for _, f := range [...]struct {
		name string
		a, b int64
		hex  bool
	}{
		{"czxid", a.Stat.Czxid, b.Stat.Czxid, true},
		{"mzxid", a.Stat.Mzxid, b.Stat.Mzxid, true},
		{"ctime", a.Stat.Ctime, b.Stat.Ctime, false},
		{"mtime", a.Stat.Mtime, b.Stat.Mtime, false},
		{"version", int64(a.Stat.Version), int64(b.Stat.Version), false},
		{"cversion", int64(a.Stat.Cversion), int64(b.Stat.Cversion), false},
		{"aversion", int64(a.Stat.Aversion), int64(b.Stat.Aversion), false},
		{"ephemeralOwner", a.Stat.EphemeralOwner, b.Stat.EphemeralOwner, true},
		{"dataLength", int64(a.Stat.DataLength), int64(b.Stat.DataLength), false},
		{"numChildren", int64(a.Stat.NumChildren), int64(b.Stat.NumChildren), false},
		{"pzxid", a.Stat.Pzxid, b.Stat.Pzxid, true},
	} {
		format := "%d"
		if f.hex {
			format = "%#x"
		}
		if f.a != f.b {
			add(f.name, false, fmt.Sprintf(format, f.a), fmt.Sprintf(format, f.b))
		}
	}
	if !hidden(a.ACL) && !hidden(b.ACL) {
		add("acl", slices.Equal(a.ACL, b.ACL), fmt.Sprint(a.ACL), fmt.Sprint(b.ACL))
	}
	return fields
}

// dataShown is how many bytes of data a difference shows.
const dataShown = 32

// DataText shows the beginning of a znode's data.
func DataText(data []byte) string {
	switch {
	case data == nil:
		return "null"
	case len(data) > dataShown:
		return fmt.Sprintf("%q… of %d bytes", data[:dataShown], len(data))
	}
	return fmt.Sprintf("%q", data)
}

// hidden reports whether a server hides a part of an ACL from the client.
func hidden(acl []zk.ACL) bool {
	return slices.ContainsFunc(acl,
		func(e zk.ACL) bool { return e.ID.Scheme == "digest" && strings.HasSuffix(e.ID.ID, ":x") })
}

// comparePaths orders paths as walks do: a znode before its descendants, siblings by name.
func comparePaths(a, b string) int {
	n := 0
	for n < len(a) && n < len(b) && a[n] == b[n] {
		n++
	}
	switch {
	case a == b:
		return 0
	case n == len(a) || a == "/":
		return -1
	case n == len(b) || b == "/":
		return 1
	case a[n] == '/':
		return -1
	case b[n] == '/':
		return 1
	}
	return int(a[n]) - int(b[n])
}
