package config

import (
	"slices"
	"strings"
)

// IsSecret reports whether the value of a key, or of the property zookeeper.KEY, is never shown. A name that is not
// in the table is judged by the words in it: it may be a misspelt key, or a property of Java's such as
// javax.net.ssl.keyStorePassword.
func IsSecret(name string) bool {
	row, known := table()[strings.TrimPrefix(name, "zookeeper.")]
	if known {
		return row.kind == secret
	}
	name = strings.ToLower(name)
	return slices.ContainsFunc(secretWords, func(word string) bool { return strings.Contains(name, word) })
}

// secretWords are words that the names of secrets contain.
var secretWords = []string{"password", "passwd", "passphrase", "secret", "token", "credential", "superdigest"}

// Redact returns the text of a zoo.cfg without its secrets, with one kind of line end. It returns nothing for a text
// that can't be read as a zoo.cfg.
func Redact(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	props, bad := parseProperties([]byte(text))
	if bad != nil {
		return ""
	}
	lines := strings.SplitAfter(text, "\n")
	for _, p := range slices.Backward(props) {
		if IsSecret(p.key) {
			lines = slices.Replace(lines, p.line-1, p.last, p.key+"="+hidden+"\n")
		}
	}
	return strings.Join(lines, "")
}
