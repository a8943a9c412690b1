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
	words, _, err := splitQuoted(line)
	return words, err
}

// splitQuoted is split, and says for each word whether it was quoted.
func splitQuoted(line string) (words []string, quoted []bool, err error) {
	for {
		line = strings.TrimLeftFunc(line, unicode.IsSpace)
		if line == "" {
			return words, quoted, nil
		}
		if q := line[0]; q == '"' || q == '\'' {
			end := strings.IndexByte(line[1:], q)
			if end < 0 {
				return nil, nil, fmt.Errorf("the quote %c before %q is never closed", q, line[1:])
			}
			words, quoted = append(words, line[1:1+end]), append(quoted, true)
			line = line[end+2:]
			continue
		}
		end := strings.IndexFunc(line, unicode.IsSpace)
		if end < 0 {
			end = len(line)
		}
		words, quoted = append(words, line[:end]), append(quoted, false)
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
