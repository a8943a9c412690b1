package config

import (
	"fmt"
	"slices"
	"strings"
)

// hidden is the printed form of a Secret.
const hidden = "***"

// Secret is a password or key taken from a configuration. However it is printed, logged or encoded, *** comes out
// (nothing at all when it is empty). Only Reveal gives the value.
type Secret string

// Reveal returns the value itself. Never print or log the result.
func (s Secret) Reveal() string { return string(s) }

// String returns *** unless the secret is empty.
func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return hidden
}

// Format prints the hidden form for every verb, %x and %#v too.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// MarshalText encodes the hidden form; encoding/json and log/slog use it.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

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
