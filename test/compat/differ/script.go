package differ

import (
	"fmt"
	"strconv"
	"strings"
)

// The text form of scripts. A line is a connection's number, a word, and arguments as key=value; a line that starts
// with "+" is one operation of the multi above; "#" starts a comment line. Values:
//
//	null   true   -1   "text with Go's escapes"   "x"*1048576   ["~/a", "~/b"]
const repeatMin = 64 // texts of at least this many equal bytes are written as "x"*n

// format writes steps as a script.
func (w *vocabulary) format(steps []step) string {
	var b strings.Builder
	for i := range steps {
		fmt.Fprintf(&b, "%d %s\n", steps[i].conn, w.formatStep(&steps[i]))
	}
	return b.String()
}

func (w *vocabulary) formatStep(s *step) string {
	var b strings.Builder
	b.WriteString(s.word)
	for i, slot := range w.slots[s.word] {
		fmt.Fprintf(&b, " %s=%s", slot.key, formatValue(slot.typ, s.args[i]))
	}
	if s.cut != 0 {
		fmt.Fprintf(&b, " cut=%d", s.cut)
	}
	if s.more != "" {
		fmt.Fprintf(&b, " more=%s", quote(s.more))
	}
	if s.xid != 0 {
		fmt.Fprintf(&b, " xid=%d", s.xid)
	}
	for i := range s.subs {
		fmt.Fprintf(&b, "\n+ %s", w.formatStep(&s.subs[i]))
	}
	return b.String()
}

func formatValue(typ string, v value) string {
	switch typ {
	case typInt, typLong:
		return strconv.FormatInt(v.n, 10)
	case typBool:
		return strconv.FormatBool(v.n != 0)
	}
	if v.null {
		return "null"
	}
	if typ == typPaths || typ == typACL {
		quoted := make([]string, len(v.list))
		for i, s := range v.list {
			quoted[i] = quote(s)
		}
		return "[" + strings.Join(quoted, ", ") + "]"
	}
	return quote(v.text)
}

func quote(s string) string {
	if len(s) >= repeatMin && strings.Count(s, s[:1]) == len(s) {
		return strconv.Quote(s[:1]) + "*" + strconv.Itoa(len(s))
	}
	return strconv.Quote(s)
}

// parse reads a script; an error names the line.
func (w *vocabulary) parse(script string) ([]step, error) {
	var steps []step
	for i, line := range strings.Split(script, "\n") {
		line = strings.TrimSpace(line)
		if line == "" || line[0] == '#' {
			continue
		}
		head, rest, _ := strings.Cut(line, " ")
		s, err := w.parseStep(rest)
		if err == nil && head == "+" {
			if len(steps) == 0 {
				err = fmt.Errorf("nothing above it")
			} else {
				last := &steps[len(steps)-1]
				last.subs = append(last.subs, s)
			}
		} else if err == nil {
			s.conn, err = strconv.Atoi(head)
			steps = append(steps, s)
		}
		if err != nil {
			return nil, fmt.Errorf("script line %d, %q: %w", i+1, line, err)
		}
	}
	return steps, nil
}

func (w *vocabulary) parseStep(line string) (step, error) {
	word, rest, _ := strings.Cut(line, " ")
	kind, ok := w.rows[word]
	if !ok {
		return step{}, fmt.Errorf("unknown word %q", word)
	}
	s := step{word: word, kind: kind, args: make([]value, len(w.slots[word]))}
	for rest = strings.TrimSpace(rest); rest != ""; rest = strings.TrimSpace(rest) {
		key, after, ok := strings.Cut(rest, "=")
		if !ok {
			return s, fmt.Errorf("want key=value at %q", rest)
		}
		v, after, err := parseValue(after)
		if err != nil {
			return s, fmt.Errorf("value of %s: %w", key, err)
		}
		rest = after
		if !w.assign(&s, key, v) {
			return s, fmt.Errorf("%s has no argument %s", word, key)
		}
	}
	return s, nil
}

// assign sets the argument called key.
func (w *vocabulary) assign(s *step, key string, v value) bool {
	switch key {
	case "cut":
		s.cut = int(v.n)
		return true
	case "more":
		s.more = v.text
		return true
	case "xid":
		s.xid = int32(v.n)
		return true
	}
	for i, slot := range w.slots[s.word] {
		if slot.key == key {
			s.args[i] = v
			return true
		}
	}
	return false
}

// parseValue parses one value at the start of s and returns the rest.
func parseValue(s string) (value, string, error) {
	switch {
	case strings.HasPrefix(s, `"`):
		text, rest, err := parseQuoted(s)
		return value{text: text}, rest, err
	case strings.HasPrefix(s, "["):
		v := value{list: []string{}}
		for s = s[1:]; ; {
			s = strings.TrimLeft(s, ", ")
			if strings.HasPrefix(s, "]") {
				return v, s[1:], nil
			}
			text, rest, err := parseQuoted(s)
			if err != nil {
				return v, rest, err
			}
			v.list, s = append(v.list, text), rest
		}
	}
	word, rest, _ := strings.Cut(s, " ")
	switch word {
	case "null":
		return value{null: true}, rest, nil
	case "true", "false":
		return toValue(word == "true"), rest, nil
	}
	n, err := strconv.ParseInt(word, 10, 64)
	return value{n: n}, rest, err
}

func parseQuoted(s string) (text, rest string, err error) {
	prefix, err := strconv.QuotedPrefix(s)
	if err != nil {
		return "", s, fmt.Errorf("want a quoted text at %q", s)
	}
	if text, err = strconv.Unquote(prefix); err != nil {
		return "", s, err
	}
	rest = s[len(prefix):]
	if !strings.HasPrefix(rest, "*") {
		return text, rest, nil
	}
	end := strings.IndexAny(rest, " ,]")
	if end < 0 {
		end = len(rest)
	}
	n, err := strconv.Atoi(rest[1:end])
	if err != nil || n < 0 || n > 1<<24 {
		return "", rest, fmt.Errorf("repeat count %q", rest[1:end])
	}
	return strings.Repeat(text, n), rest[end:], nil
}
