package sasl

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// responseBytesMax is the size of the longest token accepted. RFC 2831 sets this limit for
// responses, and Java's server has the same one.
const responseBytesMax = 4096

// parseDirectives reads the directives of a DIGEST-MD5 token (RFC 2831, 2.1.2 and 7.1): names with
// values, bare or quoted, separated by commas. No directive may occur twice. Errors contain no
// values.
func parseDirectives(text string) (map[string]string, error) {
	if len(text) > responseBytesMax {
		return nil, fmt.Errorf("the token has %d bytes, more than the %d allowed", len(text), responseBytesMax)
	}
	if !utf8.ValidString(text) {
		return nil, errors.New("the token is not UTF-8")
	}
	all := map[string]string{}
	for {
		text = strings.TrimLeft(text, blank+",")
		if text == "" {
			return all, nil
		}
		name, rest, ok := strings.Cut(text, "=")
		name = strings.ToLower(strings.TrimRight(name, blank))
		if !ok || name == "" || strings.ContainsAny(name, blank+",\"") {
			return nil, errors.New("the token is not a list of name=value")
		}
		value, rest, err := directiveValue(strings.TrimLeft(rest, blank))
		if err != nil {
			return nil, fmt.Errorf("directive %.32q: %w", name, err)
		}
		if _, twice := all[name]; twice {
			return nil, fmt.Errorf("directive %.32q is there twice", name)
		}
		all[name] = value
		if text = strings.TrimLeft(rest, blank); text != "" && text[0] != ',' {
			return nil, fmt.Errorf("directive %.32q: no comma after its value", name)
		}
	}
}

const blank = " \t\r\n"

// directiveValue reads a value at the start of s and returns what follows it.
func directiveValue(s string) (value, rest string, err error) {
	if !strings.HasPrefix(s, `"`) {
		n := strings.IndexAny(s, blank+",")
		if n < 0 {
			n = len(s)
		}
		return s[:n], s[n:], nil
	}
	var b strings.Builder
	for i := 1; i < len(s); i++ {
		switch s[i] {
		case '"':
			return b.String(), s[i+1:], nil
		case '\\':
			if i++; i < len(s) {
				b.WriteByte(s[i])
			}
		default:
			b.WriteByte(s[i])
		}
	}
	return "", "", errors.New("its quoted value has no end")
}

// quote quotes a value, which may contain anything.
func quote(s string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s) + `"`
}
