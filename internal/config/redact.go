package config

import (
	"slices"
	"strings"
)

// IsSecret reports whether the value of a key, or of the property zookeeper.KEY, is never shown.
func IsSecret(name string) bool {
	return table()[strings.TrimPrefix(name, "zookeeper.")].kind == secret
}

// Redact returns the text of a zoo.cfg without its secrets, with one kind of line end. Of a text that can't be read as
// one, nothing is returned.
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
