// Package scram implements the client's side of SCRAM-SHA-256 (RFC 7677), a login by password. The password isn't sent,
// and the server needs only a verifier of it. Zooid's servers support it; Apache ZooKeeper's don't.
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

// The server says how many times to hash the password. Fewer times than iterationsMin would help an eavesdropper, and
// more than iterationsMax would keep the client busy.
const (
	iterationsMin = 4096
	iterationsMax = 1_000_000
)

// SHA256 returns the mechanism for a user and a password. The server must prove that it has the password's verifier;
// otherwise the client closes the connection and tries the next server. It may ask for 4,096 to 1,000,000 iterations of
// the hash. If user or password has characters that SASLprep (RFC 4013) forbids, every attempt to connect fails. Use
// TLS too: SCRAM protects the password but not the requests that follow, and an eavesdropper can try passwords offline.
func SHA256(user, password string) zk.SASLMechanism { return mechanism{user, password} }

type mechanism struct{ user, password string }

// Name returns "SCRAM-SHA-256".
func (m mechanism) Name() string { return name }

// Begin fails if the name or password has characters that SASLprep forbids.
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

// Step implements zk.SASLLogin.
func (l *login) Step(challenge []byte) (token []byte, done bool, err error) {
	if l.failed { // the library would continue, and then accept an empty proof
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
		return nil, false, errors.New("the server does not prove that it knows the password: it isn't the server that it should be")
	}
	return nil, true, nil
}

// checkIterations refuses a server's first message with too many iterations. The library checks only a lower bound.
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
