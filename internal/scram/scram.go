// Package scram implements the server's side of SCRAM-SHA-256 (RFC 7677) over SASL: passwords are never sent, and if
// the login file holds verifiers, the server doesn't know them either. ZooKeeper's own servers don't support it.
package scram

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"

	xdg "github.com/xdg-go/scram"

	"github.com/zooid-project/zooid/internal/sasl"
)

// Name is the name of the mechanism.
const Name = "SCRAM-SHA-256"

const (
	// Iterations is how often a password is hashed, the minimum of RFC 7677. The client does this at each login, the
	// server once for each plain-text password.
	Iterations = 4096
	// iterationsMax bounds the number in a verifier: more would keep clients busy for
	// seconds.
	iterationsMax = 1_000_000
	// tokenBytesMax bounds a token; those of clients have some hundred bytes.
	tokenBytesMax = 4096
	saltBytes     = 16
)

// Mechanism is SCRAM-SHA-256 for a server's users. It is immutable.
type Mechanism struct{ server *xdg.Server }

// New returns the mechanism for users with their passwords, or verifiers as returned by Verifier. secret is random and
// stays the same while the server runs: the salts are derived from it, including those for users that don't exist.
func New(users map[string]string, secret []byte) (*Mechanism, error) {
	known := make(map[string]xdg.StoredCredentials, len(users))
	for user, password := range users {
		stored, err := credentials(user, password, salt(secret, user))
		if err != nil {
			return nil, err
		}
		known[user] = stored
	}
	server, err := xdg.SHA256.NewServer(func(user string) (xdg.StoredCredentials, error) {
		if stored, ok := known[user]; ok {
			return stored, nil
		}
		// For an unknown user the exchange continues, and fails at its end like one with a wrong password.
		h := hmac.New(sha256.New, secret)
		h.Write([]byte("the key of nobody: " + user))
		none := h.Sum(nil)
		return xdg.StoredCredentials{KeyFactors: factors(salt(secret, user), Iterations), StoredKey: none, ServerKey: none},
			nil
	})
	return &Mechanism{server}, err
}

func factors(salt []byte, iterations int) xdg.KeyFactors {
	return xdg.KeyFactors{Salt: string(salt), Iters: iterations}
}

// salt returns a user's salt, which doesn't reveal whether the user exists.
func salt(secret []byte, user string) []byte {
	h := hmac.New(sha256.New, secret)
	h.Write([]byte(user))
	return h.Sum(nil)[:saltBytes]
}

// Verifier returns what a login file may hold in place of a password, in PostgreSQL's form:
// SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey.
func Verifier(user, password string, salt []byte) (string, error) {
	c, err := credentials(user, password, salt)
	if err != nil {
		return "", err
	}
	b64 := base64.StdEncoding.EncodeToString
	return fmt.Sprintf("%s$%d:%s$%s:%s", Name, c.Iters, b64([]byte(c.Salt)), b64(c.StoredKey), b64(c.ServerKey)), nil
}

// IsVerifier reports whether the text in place of a password is a verifier, which no other mechanism can use for
// logins.
func IsVerifier(password string) bool { return strings.HasPrefix(password, Name+"$") }

// credentials returns what the server stores about a user. Errors contain no password.
func credentials(user, password string, salt []byte) (c xdg.StoredCredentials, err error) {
	if IsVerifier(password) {
		if c, err = parseVerifier(password); err != nil {
			err = fmt.Errorf("read the SCRAM verifier of user %.64q: %w", user, err)
		}
		return c, err
	}
	client, err := xdg.SHA256.NewClient(user, password, "")
	if err == nil {
		c, err = client.GetStoredCredentialsWithError(factors(salt, Iterations))
	}
	if err != nil {
		return c, fmt.Errorf("prepare user %.64q for %s: name or password has characters that SASLprep forbids", user, Name)
	}
	return c, nil
}

func parseVerifier(text string) (c xdg.StoredCredentials, err error) {
	parts := strings.Split(text, "$")
	if len(parts) != 3 {
		return c, errors.New("it has not the form SCRAM-SHA-256$iterations:salt$StoredKey:ServerKey")
	}
	iterations, salt, ok := strings.Cut(parts[1], ":")
	stored, server, ok2 := strings.Cut(parts[2], ":")
	n, err := strconv.Atoi(iterations)
	if err != nil || !ok || !ok2 || n < Iterations || n > iterationsMax {
		return c, fmt.Errorf("its iterations aren't a number from %d to %d, or a colon is missing", Iterations, iterationsMax)
	}
	var decoded [3][]byte
	for i, part := range []string{salt, stored, server} {
		if decoded[i], err = base64.StdEncoding.DecodeString(part); err != nil || len(decoded[i]) == 0 ||
			i > 0 && len(decoded[i]) != sha256.Size {
			return c, errors.New("its salt or one of its keys isn't base64 of the right length")
		}
	}
	return xdg.StoredCredentials{KeyFactors: factors(decoded[0], n), StoredKey: decoded[1], ServerKey: decoded[2]}, nil
}

// Name returns "SCRAM-SHA-256".
func (m *Mechanism) Name() string { return Name }

// Begins reports whether token is a client's first SCRAM message: it starts with a channel binding flag.
func (m *Mechanism) Begins(token []byte) bool {
	return len(token) > 1 &&
		(token[1] == ',' && (token[0] == 'n' || token[0] == 'y') || token[0] == 'p' && token[1] == '=')
}

// Begin returns the state of one connection's login.
func (m *Mechanism) Begin() sasl.Login { return &login{exchange: m.server.NewConversation()} }

type login struct {
	exchange *xdg.ServerConversation
	over     bool
}

// Step is sasl.Login.Step.
func (l *login) Step(token []byte) (reply []byte, done bool, authorizationID string, err error) {
	fail := func(format string, args ...any) ([]byte, bool, string, error) {
		l.over = true
		return nil, false, "", fmt.Errorf("log in by "+Name+": "+format, args...)
	}
	switch {
	case l.over:
		return fail("the login is over; a new one needs a new connection")
	case len(token) > tokenBytesMax:
		return fail("the token has %d bytes, more than the %d allowed", len(token), tokenBytesMax)
	}
	answer, err := l.exchange.Step(string(token))
	user := l.exchange.Username()
	switch {
	case err != nil:
		return fail("user %.64q: %w", user, err)
	case !l.exchange.Done():
		if authzid := l.exchange.AuthzID(); authzid != "" && authzid != user {
			return fail("user %.64q asks to be %.64q: nobody may be another", user, authzid)
		}
		return []byte(answer), false, "", nil
	case !l.exchange.Valid():
		return fail("wrong password for user %.64q", user)
	}
	l.over = true
	return []byte(answer), true, user, nil
}
