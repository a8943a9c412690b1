package cli

import (
	"fmt"
	"strings"
	"unicode"
)

// split breaks a line into words as zkCli does: at white space, with "…" and '…'
// to hold words together. A quote inside a word is an ordinary character, and
// there are no escapes. Unlike zkCli, a quote that is never closed is an error.
func split(line string) ([]string, error) {
	var words []string
	for {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" {
			return words, nil
		}
		if q := line[0]; q == '"' || q == '\'' {
			end := strings.IndexByte(line[1:], q)
			if end < 0 {
				return nil, fmt.Errorf("the quote %c before %q is never closed", q, line[1:])
			}
			words = append(words, line[1:1+end])
			line = line[end+2:]
			continue
		}
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			end = len(line)
		}
		words = append(words, line[:end])
		line = line[end:]
	}
}

// quote returns word as split would read it back, if that is possible.
func quote(word string) string {
	if word != "" && !strings.ContainsFunc(word, unicode.IsSpace) && !strings.ContainsAny(word[:1], `"'`) {
		return word
	}
	if strings.Contains(word, `"`) {
		return "'" + word + "'"
	}
	return `"` + word + `"`
}
