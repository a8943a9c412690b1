// Package scram is the client's side of SCRAM-SHA-256 (RFC 7677), a login by password in
// which the password isn't sent, and for which a server needs to know only a verifier.
// Zooid's servers have it; Apache ZooKeeper's don't.
//
//	zk.Options{SASL: scram.SHA256("app", "secret")}
package scram

import (
	"errors"
	"fmt"
	"log/slog"
	"strconv"
	"strings"

	xdg "github.com/xdg-go/scram"

	"github.com/zooid-project/zooid/zk"
)

const name = "SCRAM-SHA-256"

// A server says how often the password is to be hashed: fewer times than iterationsMin
// would help an eavesdropper, more than iterationsMax would keep the client busy.
const (
	iterationsMin = 4096
	iterationsMax = 1_000_000
)

// SHA256 returns the mechanism for a user and a password. The server must prove that it
// knows the password's verifier.
func SHA256(user, password string) zk.SASLMechanism { return mechanism{user, password} }

type mechanism struct{ user, password string }

// Name returns "SCRAM-SHA-256".
func (m mechanism) Name() string { return name }

// Begin fails for a name or password with characters that SASLprep forbids.
func (m mechanism) Begin(string) (zk.SASLLogin, error) {
	client, err := xdg.SHA256.NewClient(m.user, m.password, "")
	if err != nil {
		return nil, errors.New("the name or the password has characters that SASLprep (RFC 4013) forbids")
	}
	return &login{exchange: client.WithMinIterations(iterationsMin).NewConversation()}, nil
}

// String hides the password from logs.
func (m mechanism) String() string { return name + " as " + m.user }

// GoString hides the password from logs.
func (m mechanism) GoString() string { return m.String() }

// LogValue hides the password from logs.
func (m mechanism) LogValue() slog.Value { return slog.StringValue(m.String()) }

type login struct {
	exchange *xdg.ClientConversation
	failed   bool
}

// Step is zk.SASLLogin.Step.
func (l *login) Step(challenge []byte) (token []byte, done bool, err error) {
	if l.failed { // the library would go on, and then accept an empty proof
		return nil, false, errors.New("the login has failed")
	}
	defer func() { l.failed = err != nil }()
	if err := checkIterations(string(challenge)); err != nil {
		return nil, false, err
	}
	answer, err := l.exchange.Step(string(challenge))
	switch {
	case err != nil:
		return nil, false, err
	case !l.exchange.Done():
		return []byte(answer), false, nil
	case !l.exchange.Valid():
		return nil, false, errors.New("the server does not prove that it knows the password: it is not who it should be")
	}
	return nil, true, nil
}

// checkIterations refuses a server's first message that asks for too much work; the library
// checks only a lower bound.
func checkIterations(challenge string) error {
	for part := range strings.SplitSeq(challenge, ",") {
		if text, ok := strings.CutPrefix(part, "i="); ok {
			if n, err := strconv.Atoi(text); err != nil || n > iterationsMax {
				return fmt.Errorf("the server asks for %.20q iterations; the most done is %d", text, iterationsMax)
			}
		}
	}
	return nil
}
