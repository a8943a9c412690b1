package config

import "fmt"

// hidden is what a Secret prints as.
const hidden = "***"

// Secret is a password or key taken from a configuration. However it is printed, logged or encoded, *** comes out
// (nothing at all when it is empty). Only Reveal gives the value.
type Secret string

// Reveal returns the value itself. Never print or log what it returns.
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
