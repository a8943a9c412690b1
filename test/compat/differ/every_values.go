package differ

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// sizeClasses are the sizes at which a server may change its way: those of small and of large lists, and one more.
var sizeClasses = []int{0, 1, 64, 65, 4096, 4097}

// maxBuffer is jute.maxbuffer's default: the longest request.
const maxBuffer = 0xfffff

// ordinary returns the arguments of a request that servers carry out.
func ordinary(word string) []any {
	switch word {
	case "create", "create2":
		return []any{"~/new", "d", everybody, 0}
	case "createContainer":
		return []any{"~/new", "d", everybody, 4}
	case "createTTL":
		return []any{"~/new", "d", everybody, 5, 3_600_000}
	case "delete", "check":
		return []any{"~/old", -1}
	case "deleteContainer", "getACL", "getAllChildrenNumber", "sync":
		return []any{"~/old"}
	case "exists", "getData", "getChildren", "getChildren2":
		return []any{"~/old", true}
	case "setData":
		return []any{"~/old", "d", -1}
	case "setACL":
		return []any{"~/old", everybody, -1}
	case "getEphemerals":
		return []any{"~"}
	case "reconfig":
		return []any{nil, nil, nil, math.MaxInt64} // a version that no configuration has
	case "checkWatches", "removeWatches":
		return []any{"~/old", 3}
	case "setWatches":
		return []any{"0", []string{"~/old"}, []string{"~/new"}, []string{"~/parent"}}
	case "setWatches2":
		return []any{"0", []string{"~/old"}, []string{"~/new"}, []string{"~/parent"}, []string{"~"}, []string{"~/parent"}}
	case "addWatch":
		return []any{"~/old", 0}
	case "auth":
		return []any{0, "digest", "joe:secret"}
	case "sasl":
		return []any{"token"}
	case "ping", "multi", "multiRead", "whoAmI", "closeSession":
		return []any{}
	}
	panic("differ: no ordinary arguments for " + word)
}

// values returns a generator that sends a request with each boundary value of each argument, cut short, too long and
// with strange xids. Operations that may stand in a multi are also sent in one.
func values(word string) func(b *book) {
	return func(b *book) {
		inMulti := multiOf(word)
		b.script("ordinary", append([]step{b.step(0, word, ordinary(word)...)}, b.looks()...)...)
		for i, slot := range b.slots[word] {
			var alone, within []step
			for _, v := range boundaries(word, slot) {
				args := ordinary(word)
				args[i] = v
				s := b.step(0, word, args...)
				alone = append(alone, s)
				within = append(within, b.multi(0, inMulti, s))
			}
			b.values(word, slot, slot.key, alone)
			if inMulti != "" {
				b.values(word, slot, slot.key+" in a "+inMulti, within)
			}
			if slot.typ == typBuffer {
				for _, length := range []int{maxBuffer, maxBuffer + 1} {
					b.script(fmt.Sprintf("request of %d bytes", length), b.padded(word, i, length),
						b.step(1, "getChildren2", "~", false))
				}
			}
		}
		damaged := func(name string, damage func(s *step)) {
			s := b.step(0, word, ordinary(word)...)
			damage(&s)
			b.script(name, append([]step{s}, b.looks()...)...)
		}
		for _, n := range []int{1, 4, 1 << 20} {
			damaged(fmt.Sprintf("cut by %d", n), func(s *step) { s.cut = n })
		}
		damaged("one byte more", func(s *step) { s.more = "z" })
		damaged("65 bytes more", func(s *step) { s.more = strings.Repeat("z", 65) })
		// -1 and -2 aren't among them: the script takes the replies for events and pings.
		for _, xid := range []int32{math.MaxInt32, math.MinInt32, -3, jute.XidAuth, jute.XidSetWatches, -100} {
			damaged(fmt.Sprintf("xid %d", xid), func(s *step) { s.xid = xid })
		}
	}
}

// multiOf returns the request in which values of a request are sent as well, or "".
func multiOf(word string) string {
	switch word {
	case "create", "createTTL", "delete", "setData", "check":
		return "multi"
	case "getData", "getChildren":
		return "multiRead"
	}
	return ""
}

// valuesMax bounds the requests in a script of values.
const valuesMax = 16

// values adds scripts of requests that differ in one argument. Requests that would change a later one's result, and
// logins, have a script each.
func (b *book) values(word string, s slot, name string, requests []step) {
	most := 1
	if s.typ == typPath && word != "deleteContainer" || b.rows[word].read && !b.rows[word].risky {
		most = valuesMax
	}
	n := 0
	for some := range slices.Chunk(requests, most) {
		var steps []step
		for _, r := range some {
			steps = append(steps, r)
			if !r.kind.read {
				steps = append(steps, b.looks()...)
			}
		}
		b.script(fmt.Sprintf("%s %d", name, n), append(steps, b.looks()...)...)
		n += len(some)
	}
}

// padded returns a request whose frame has a length, by its buffer at slot i. Roots are as long as rootOf makes them.
func (b *book) padded(word string, i, length int) step {
	args := ordinary(word)
	args[i] = ""
	s := b.step(0, word, args...)
	const header = 8
	rest := header + len(b.body(nil, &s, rootOf(1), func(string) int64 { return 0 }))
	s.args[i].text = strings.Repeat("d", length-rest)
	if length > maxBuffer {
		s.kind.risky = true
	}
	return s
}

// boundaries returns values of an argument.
func boundaries(word string, s slot) (all []any) {
	switch s.typ {
	case typPath:
		return paths(word)
	case typString:
		all = []any{nil, "x", "world", "ip", "auth", "sasl", "x509", "DIGEST", "\x00", "é", "server.1=a:1:2", "1,2"}
		for _, n := range sizeClasses {
			all = append(all, strings.Repeat("x", n))
		}
	case typBuffer:
		all = []any{nil, ":", "a:", ":b", "a:b", "\x00", "\xff"}
		for _, n := range sizeClasses {
			all = append(all, strings.Repeat("d", n))
		}
	case typInt:
		for _, n := range []int{-2, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, math.MaxInt32, math.MinInt32} {
			all = append(all, n)
		}
	case typLong:
		for _, n := range []int64{-2, -1, 0, 1, 0xffffffffff, 0x10000000000, math.MaxInt64, math.MinInt64} {
			if word != "reconfig" || n > 0 {
				all = append(all, n) // -1 and the current version would change the configuration
			}
		}
	case typBool:
		all = []any{false, true, value{n: 2}, value{n: 0xff}}
	case typZxid:
		all = []any{"0", "last", "max"}
	case typACL:
		all = acls()
	case typPaths:
		all = []any{nil, []string{}}
		for _, path := range paths(word) {
			if path != nil {
				all = append(all, []string{path.(string)})
			}
		}
	default:
		panic("differ: no boundary values of type " + s.typ)
	}
	return all
}

// paths returns paths that exist, that don't, that can't, and long ones.
func paths(word string) []any {
	all := []any{nil, "~/parent", "~/parent/child", "~/parent/other", "~/missing/x", "~"}
	for _, path := range slices.Concat(badPaths, specialPaths) {
		all = append(all, path)
	}
	for _, n := range sizeClasses {
		all = append(all, "~/"+strings.Repeat("n", n), "~/parent"+strings.Repeat("/n", n))
	}
	return all
}

// acls returns lists of ACL entries of every form and length.
func acls() []any {
	all := []any{nil, []string{}}
	for _, entry := range []string{
		"0 world anyone", "32 world anyone", "-1 world anyone", "1 world anyone", "31 world nobody", "31 world ", "31 auth ",
		"31 auth x", "31 digest joe:hash", "31 digest joe", "31 digest a:b:c", "31 digest ", "31 ip 127.0.0.1", "31 ip x",
		"31 ip 1.2.3.4/33", "31 ip 1.2.3.4/0", "31 ip ::1", "31 x509 CN=a", "31 sasl joe", "31 super x", "31 nothing x",
		"31  x", "31 - x", "31 world -", "31 - -",
	} {
		all = append(all, []string{entry}, []string{worldAll, entry})
	}
	for _, n := range append([]int{256, 257}, sizeClasses[1:]...) {
		list := []string{worldAll}
		for i := range n - 1 {
			list = append(list, fmt.Sprintf("1 ip 10.0.%d.%d", i>>8, i&0xff))
		}
		all = append(all, list, slices.Repeat([]string{worldAll}, n))
	}
	return all
}
