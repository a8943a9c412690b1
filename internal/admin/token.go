package admin

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/hex"
	"os"
	"path/filepath"
	"sync/atomic"
)

const (
	// TokenScheme is the scheme of an Authorization header with the content of Options.TokenFile. No authentication
	// provider can have that name.
	TokenScheme = "admin.token"
	tokenBytes  = 32
)

// A token is a secret readable only by users that can read the server's data anyway: its own user and root. A caller on
// the same host shows by it that it is one of them, which neither its address nor an identity of its own choice shows.
type token struct {
	path string // "" for none
	text atomic.Pointer[string]
}

// draw writes a new token in place of the former one. After an error no token is valid.
func (t *token) draw() error {
	t.text.Store(nil)
	if t.path == "" {
		return nil
	}
	secret := make([]byte, tokenBytes)
	rand.Read(secret) // which never fails
	text := hex.EncodeToString(secret)
	f, err := os.CreateTemp(filepath.Dir(t.path), filepath.Base(t.path)+".*") // with mode 0600
	if err != nil {
		return err
	}
	_, err = f.WriteString(text + "\n")
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err == nil {
		err = os.Rename(f.Name(), t.path)
	}
	if err != nil {
		os.Remove(f.Name())
		return err
	}
	t.text.Store(&text)
	return nil
}

// is reports whether a caller's text is the token.
func (t *token) is(text string) bool {
	known := t.text.Load()
	return known != nil && subtle.ConstantTimeCompare([]byte(*known), []byte(text)) == 1
}
