package auth

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/url"
	"strconv"
	"strings"
)

// A text shows a part of a secret if both have a run of this many bytes in common. The second length is for an encoded
// form of the secret, which has less information per byte.
const (
	repeatedMin        = 4
	repeatedEncodedMin = 6
)

// repeats reports whether a text may show a part of a credential. The part of a credential before the first colon is
// the user's name, which isn't secret unless nothing follows it. Anyone may have written the text. So repeats doesn't
// interpret it, but looks for a run of bytes in common with the secret as it was sent, in other case, quoted, or in a
// usual encoding.
func repeats(text string, credential []byte) bool {
	secret := credential
	if _, after, found := bytes.Cut(credential, []byte(":")); found && len(after) > 0 {
		secret = after
	}
	if len(secret) == 0 {
		return false
	}
	text = strings.ToLower(text)
	plain := strings.ToLower(string(secret))
	if common(text, plain, min(repeatedMin, len(plain))) {
		return true
	}
	quoted := strconv.Quote(plain)
	forms := []string{hex.EncodeToString(secret), url.QueryEscape(plain), quoted[1 : len(quoted)-1]}
	for at := range 3 { // the base64 of a longer text has it at one of three offsets
		if at < len(secret) {
			forms = append(forms, strings.TrimRight(base64.StdEncoding.EncodeToString(secret[at:]), "="),
				strings.TrimRight(base64.URLEncoding.EncodeToString(secret[at:]), "="))
		}
	}
	for _, form := range forms {
		if common(text, strings.ToLower(form), min(repeatedEncodedMin, len(form))) {
			return true
		}
	}
	return false
}

// common reports whether two texts have a run of n bytes in common.
func common(a, b string, n int) bool {
	for i := 0; i+n <= len(b); i++ {
		if strings.Contains(a, b[i:i+n]) {
			return true
		}
	}
	return false
}

// errConcealed hides the text of an error that may repeat a credential.
type errConcealed struct{ err error }

// Error returns a text that doesn't show the error.
func (e errConcealed) Error() string {
	return "the reason has text in common with the credential and isn't shown"
}

// Is compares the hidden error with target.
func (e errConcealed) Is(target error) bool { return errors.Is(e.err, target) }

// conceal returns err, or an error without its text if that may show a part of a credential.
func conceal(err error, credential []byte) error {
	if repeats(err.Error(), credential) {
		return errConcealed{err}
	}
	return err
}
