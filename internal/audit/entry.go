// Package audit writes the audit log: who did what to which znode. Lines have Apache's format or JSON, and go to a
// rotating file or to standard error. Writing never blocks or fails the caller. Lines that can't be written are
// counted.
package audit

import (
	"encoding/json"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"
)

// An Entry is one line of the log. Empty fields are omitted.
type Entry struct {
	Session   int64
	Users     []string // names of the connection's identities that someone other than the client confirms
	Claimed   []string // names that only the client claims
	IP        string
	Operation string
	Znode     string
	ZnodeType string
	ACL       string
	Result    Result

	// The following fields are Zooid's own. They come last in a line.
	Scheme        string // of a login
	Error         string // why a read, a login or a connection was refused
	Before, After string // SHA-256 of the data, in hexadecimal

	// Source isn't written. Failures with the same Source share an allowance (see failures).
	Source string
}

// A Result is the outcome of an operation.
type Result string

// Apache's results.
const (
	Success Result = "success"
	Failure Result = "failure"
	Invoked Result = "invoked"
)

// Undecided is Zooid's own result for a login whose credential couldn't be checked.
const Undecided Result = "undecided"

// Restore is Zooid's own operation: the admin server has replaced all znodes.
const Restore = "restore"

// Apache's names of operations.
const (
	ServerStart     = "serverStart"
	ServerStop      = "serverStop"
	Create          = "create"
	Delete          = "delete"
	SetData         = "setData"
	SetACL          = "setAcl"
	Multi           = "multiOperation"
	Reconfig        = "reconfig"
	EphemeralsGoing = "ephemeralZNodeDeletionOnSessionCloseOrExpire"
)

// valueBytesMax bounds the logged part of a value: a path, an ACL or a list of users may be as long as a request.
const valueBytesMax = 4 << 10

// failed reports whether an entry is about an operation that wasn't carried out.
func (e *Entry) failed() bool { return e.Result == Failure || e.Result == Undecided }

// level returns the level at which Apache logs an entry.
func (e *Entry) level() string {
	if e.failed() {
		return "ERROR"
	}
	return "INFO"
}

// each calls visit for each field that isn't empty, in Apache's order.
func (e *Entry) each(visit func(key, value string)) {
	field := func(key, value string) {
		if value != "" {
			visit(key, value)
		}
	}
	if e.Session != 0 {
		visit("session", sessionText(e.Session))
	}
	field("user", e.users())
	field("ip", e.IP)
	field("operation", e.Operation)
	field("znode", e.Znode)
	field("znode_type", e.ZnodeType)
	field("acl", e.ACL)
	field("result", string(e.Result))
	field("scheme", e.Scheme)
	field("error", e.Error)
	field("before", e.Before)
	field("after", e.After)
}

// users returns all names in the form of Apache's lines, separated by commas. A name that is only claimed ends in a
// question mark, and commas in it are escaped, so that no client can forge another's name.
func (e *Entry) users() string {
	if len(e.Claimed) == 0 {
		return strings.Join(e.Users, ",")
	}
	names := append(make([]string, 0, len(e.Users)+len(e.Claimed)), e.Users...)
	for _, name := range e.Claimed {
		names = append(names, strings.ReplaceAll(name, ",", `\u002c`)+"?")
	}
	return strings.Join(names, ",")
}

func sessionText(id int64) string { return "0x" + strconv.FormatUint(uint64(id), 16) }

// appendText appends the line that Apache writes with its default logback.xml.
func (e *Entry) appendText(b []byte, at time.Time) []byte {
	b = at.AppendFormat(b, "2006-01-02 15:04:05,000 ")
	b = append(b, e.level()...)
	b = append(b, " o.a.z.a.Slf4jAuditLogger: "...)
	first := true
	e.each(func(key, value string) {
		if !first {
			b = append(b, '\t')
		}
		first = false
		b = append(append(b, key...), '=')
		b = appendValue(b, value)
	})
	return append(b, '\n')
}

// appendValue appends a value chosen by a client. It escapes characters that could end the field or the line or control
// a terminal, as in a Go string: \t, \u000a, \x80. All others are written as Apache writes them, even a backslash.
func appendValue(b []byte, value string) []byte {
	value, cut := bounded(value)
	plain := 0 // most values are entirely plain
	for plain < len(value) && value[plain] >= ' ' && value[plain] < 0x7f {
		plain++
	}
	b = append(b, value[:plain]...)
	for i := plain; i < len(value); {
		c, n := utf8.DecodeRuneInString(value[i:])
		switch {
		case c == utf8.RuneError && n == 1:
			b = append(append(b, `\x`...), hexDigit(value[i]>>4), hexDigit(value[i]))
		case c == '\t':
			b = append(b, `\t`...)
		case c == '\n':
			b = append(b, `\n`...)
		case c == '\r':
			b = append(b, `\r`...)
		case unprintable(c):
			b = append(b, `\u`...)
			for shift := 12; shift >= 0; shift -= 4 {
				b = append(b, hexDigit(byte(c>>shift)))
			}
		default:
			b = append(b, value[i:i+n]...)
		}
		i += n
	}
	if cut > 0 {
		b = append(b, "…("...)
		b = strconv.AppendInt(b, int64(cut), 10)
		b = append(b, " bytes more)"...)
	}
	return b
}

// unprintable reports whether c is a control character, a line or paragraph separator, or a mark that changes the
// direction of text.
func unprintable(c rune) bool {
	return unicode.IsControl(c) || c >= 0x2028 && c <= 0x202e || c >= 0x2066 && c <= 0x2069 || c == 0x200e || c == 0x200f
}

func hexDigit(n byte) byte { return "0123456789abcdef"[n&15] }

// bounded returns the first part of a value, and the number of bytes omitted.
func bounded(value string) (kept string, cut int) {
	if len(value) <= valueBytesMax {
		return value, 0
	}
	n := valueBytesMax
	for n > valueBytesMax-utf8.UTFMax && !utf8.RuneStart(value[n]) {
		n--
	}
	return value[:n], len(value) - n
}

// jsonEntry is the JSON form of an entry: it keeps the users separate.
type jsonEntry struct {
	Time      string   `json:"time"`
	Level     string   `json:"level"`
	Session   string   `json:"session,omitempty"`
	User      []string `json:"user,omitempty"`
	Claimed   []string `json:"claimed,omitempty"`
	IP        string   `json:"ip,omitempty"`
	Operation string   `json:"operation"`
	Znode     string   `json:"znode,omitempty"`
	ZnodeType string   `json:"znode_type,omitempty"`
	ACL       string   `json:"acl,omitempty"`
	Result    Result   `json:"result"`
	Scheme    string   `json:"scheme,omitempty"`
	Error     string   `json:"error,omitempty"`
	Before    string   `json:"before,omitempty"`
	After     string   `json:"after,omitempty"`
	Cut       int      `json:"cut,omitempty"` // bytes omitted from long values
}

// appendJSON appends the entry as one line of JSON.
func (e *Entry) appendJSON(b []byte, at time.Time) []byte {
	j := jsonEntry{
		Time: at.Format("2006-01-02T15:04:05.000Z07:00"), Level: e.level(), Operation: e.Operation, ZnodeType: e.ZnodeType,
		Result: e.Result,
		Before: e.Before, After: e.After,
	}
	if e.Session != 0 {
		j.Session = sessionText(e.Session)
	}
	shorten := func(value string) string {
		kept, cut := bounded(value)
		j.Cut += cut
		return kept
	}
	room := valueBytesMax
	fitting := func(names []string) (list []string) {
		for _, name := range names {
			if len(name) > room {
				j.Cut += len(name)
				continue
			}
			room -= len(name)
			list = append(list, name)
		}
		return list
	}
	j.User, j.Claimed = fitting(e.Users), fitting(e.Claimed)
	j.IP, j.Znode, j.ACL, j.Scheme, j.Error = shorten(e.IP), shorten(e.Znode), shorten(e.ACL), shorten(e.Scheme),
		shorten(e.Error)
	line, err := json.Marshal(&j)
	if err != nil { // can't happen: strings and a number always have a JSON form
		return b
	}
	return append(append(b, line...), '\n')
}
