package differ

import (
	"strconv"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// step is one line of a script.
type step struct {
	conn int // index of the connection
	word string
	kind row
	args []value // one value per slot
	subs []step  // of a multi or multiRead
	cut  int     // number of bytes cut off the end of the request
	more string  // extra bytes at its end
	xid  int32   // 0 means the next one
}

// value is an argument; the slot's type says which fields are used.
type value struct {
	null bool
	text string
	n    int64
	list []string
}

// A vocabulary makes steps. It holds the rows with their parsed slots.
type vocabulary struct {
	rows  map[string]row
	slots map[string][]slot
}

func newVocabulary() *vocabulary {
	w := &vocabulary{rows: rows(), slots: map[string][]slot{}}
	for word, r := range w.rows {
		w.slots[word] = r.slots()
	}
	return w
}

// step makes a step with args in the order of the word's slots. Each is a string, integer, bool, []string or nil
// (null), and is converted to a value.
func (w *vocabulary) step(conn int, word string, args ...any) step {
	s := step{conn: conn, word: word, kind: w.rows[word]}
	if len(args) != len(w.slots[word]) {
		panic("differ: " + word + " takes " + strconv.Itoa(len(w.slots[word])) + " arguments")
	}
	for _, arg := range args {
		s.args = append(s.args, toValue(arg))
	}
	return s
}

func toValue(arg any) value {
	switch x := arg.(type) {
	case nil:
		return value{null: true}
	case string:
		return value{text: x}
	case int:
		return value{n: int64(x)}
	case int64:
		return value{n: x}
	case bool:
		if x {
			return value{n: 1}
		}
		return value{}
	case []string:
		return value{list: x, null: x == nil}
	case value:
		return x
	}
	panic("differ: no value for that type of argument")
}

// code returns the operation code in the step's header.
func (s *step) code() jute.Op {
	if s.word == "raw" {
		return jute.Op(s.args[0].n)
	}
	return s.kind.code
}

// body appends the request's record. zxid resolves symbolic zxids.
func (w *vocabulary) body(b []byte, s *step, root string, zxid func(string) int64) []byte {
	start := len(b)
	if s.word == "multi" || s.word == "multiRead" {
		for i := range s.subs {
			b = jute.AppendInt(jute.AppendBool(jute.AppendInt(b, int32(s.subs[i].code())), false), -1)
			b = w.body(b, &s.subs[i], root, zxid)
		}
		b = jute.AppendInt(jute.AppendBool(jute.AppendInt(b, -1), true), -1)
	}
	for i, slot := range w.slots[s.word] {
		if s.word == "raw" && i == 0 {
			continue
		}
		b = appendValue(b, slot.typ, s.args[i], root, zxid)
	}
	b = b[:max(start, len(b)-s.cut)]
	return append(b, s.more...)
}

func appendValue(b []byte, typ string, v value, root string, zxid func(string) int64) []byte {
	switch typ {
	case typInt:
		return jute.AppendInt(b, int32(v.n))
	case typLong:
		return jute.AppendLong(b, v.n)
	case typBool:
		return append(b, byte(v.n))
	case typBytes:
		return append(b, v.text...)
	case typZxid:
		return jute.AppendLong(b, zxid(v.text))
	}
	if v.null {
		return jute.AppendInt(b, -1)
	}
	switch typ {
	case typPath:
		return jute.AppendString(b, strings.ReplaceAll(v.text, "~", root))
	case typPaths:
		b = jute.AppendInt(b, int32(len(v.list)))
		for _, path := range v.list {
			b = jute.AppendString(b, strings.ReplaceAll(path, "~", root))
		}
		return b
	case typACL:
		b = jute.AppendInt(b, int32(len(v.list)))
		for _, entry := range v.list {
			b = appendEntry(b, entry)
		}
		return b
	}
	return jute.AppendString(b, v.text)
}

// appendEntry appends an ACL entry written as "perms scheme id"; "-" is the null string.
func appendEntry(b []byte, entry string) []byte {
	parts := strings.SplitN(entry, " ", 3)
	perms, _ := strconv.ParseInt(parts[0], 10, 32)
	b = jute.AppendInt(b, int32(perms))
	for _, part := range parts[1:] {
		if part == "-" {
			b = jute.AppendNullString(b)
		} else {
			b = jute.AppendString(b, part)
		}
	}
	return b
}
