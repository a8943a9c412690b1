package txnlog

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf16"
)

// A printer writes lines that are safe to show on a terminal: it quotes text chosen by clients and escapes unprintable
// characters.
type printer struct {
	w    io.Writer
	json bool
	data bool
	err  error // the first error of w
}

// line writes one line of text unchanged.
func (p *printer) line(text string) {
	if p.err == nil {
		_, p.err = io.WriteString(p.w, text+"\n")
	}
}

// note writes a remark about the files.
func (p *printer) note(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	if p.json {
		p.object(struct {
			Note string `json:"note"`
		}{text})
		return
	}
	quoted := strconv.Quote(text)
	p.line("# " + strings.ReplaceAll(quoted[1:len(quoted)-1], `\"`, `"`))
}

// object writes a JSON object.
func (p *printer) object(v any) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		p.err = err
		return
	}
	p.line(escape(strings.TrimSuffix(b.String(), "\n")))
}

// escape replaces unprintable runes in JSON by \u escapes. They can only occur in strings.
func escape(text string) string {
	var b strings.Builder
	for _, c := range text {
		switch {
		case c < 0x7f || unicode.IsPrint(c):
			b.WriteRune(c)
		case c > 0xffff:
			high, low := utf16.EncodeRune(c)
			fmt.Fprintf(&b, `\u%04x\u%04x`, high, low)
		default:
			fmt.Fprintf(&b, `\u%04x`, c)
		}
	}
	return b.String()
}

func (p *printer) transaction(t *transaction) {
	if p.json {
		p.object(t)
		return
	}
	var parts []string
	add := func(format string, args ...any) { parts = append(parts, fmt.Sprintf(format, args...)) }
	zxid := cmp.Or(t.Zxid, "-")
	add("%s  %s", zxid, t.Time)
	if t.Session != "" {
		add("session %s", t.Session)
	}
	if t.Cxid != nil {
		add("cxid %d", *t.Cxid)
	}
	parts = append(parts, p.operation(&t.operation))
	line := strings.Join(parts, "  ")
	if !t.Committed {
		line += "  (not known to be committed)"
	}
	p.line(line)
	for i := range t.Operations {
		p.line("    " + p.operation(&t.Operations[i]))
	}
	for _, path := range t.Deleted {
		p.line("    delete " + strconv.Quote(path))
	}
}

// operation returns the text of an operation with its result.
func (p *printer) operation(o *operation) string {
	var b strings.Builder
	b.WriteString(o.Op)
	if o.Path != "" {
		b.WriteString(" " + strconv.Quote(o.Path))
	}
	if o.Mode != "" {
		b.WriteString(" " + o.Mode)
	}
	if o.TTL != nil {
		fmt.Fprintf(&b, " %d ms", *o.TTL)
	}
	if o.Version != nil && *o.Version != -1 {
		fmt.Fprintf(&b, " version %d", *o.Version)
	}
	if o.Timeout != nil {
		fmt.Fprintf(&b, " timeout %d ms", *o.Timeout)
	}
	if o.Bytes != nil {
		fmt.Fprintf(&b, " %d bytes", *o.Bytes)
		if p.data {
			b.WriteString(" " + strconv.Quote(string(o.Data)))
		}
	}
	if o.Members != "" {
		b.WriteString(" " + strconv.Quote(o.Members))
	}
	if o.Result != "" {
		b.WriteString(": " + o.Result)
	}
	return b.String()
}

func sessionText(id int64) string { return fmt.Sprintf("%#x", uint64(id)) }
