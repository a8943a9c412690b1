package replica

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/sasl"
)

// A countdown is a SASL mechanism: the client's tokens are 2:user, 1:user and 0:user, the last of which proves user.
type countdown struct{}

func (countdown) Name() string       { return "COUNTDOWN" }
func (countdown) Begins([]byte) bool { return true }
func (countdown) Begin() sasl.Login  { return &counting{} }

// A counting is a login by countdown. It is a sasl.Lasting, though it always holds.
type counting struct{ last string }

func (c *counting) Holds() bool { return true }

// Step takes a token and returns it.
func (c *counting) Step(token []byte) (reply []byte, done bool, user string, err error) {
	var n int
	if _, err := fmt.Sscanf(string(token), "%d:%s", &n, &user); err != nil {
		return nil, false, "", errors.New("the token is no number and user")
	}
	if c.last != "" && c.last != strconv.Itoa(n+1)+":"+user {
		return nil, false, "", errors.New("the token isn't the next one")
	}
	c.last = string(token)
	return token, n == 0, user, nil
}

// A doubtful is a provider whose credentials are names, such as carol, or carol@5000, who is that until then (ms since
// 1970); "?" can't be judged, and "!" is wrong.
type doubtful struct{}

func (doubtful) Scheme() string         { return "doubt" }
func (doubtful) IsValid(id string) bool { return id != "bad" }
func (doubtful) IsAuthenticated() bool  { return true }

// HandleAuthentication judges a credential.
func (doubtful) HandleAuthentication(r authprovider.Request) (ids authprovider.Identities, err error) {
	switch string(r.Auth) {
	case "?":
		return ids, fmt.Errorf("its service is away: %w", authprovider.ErrUndecided)
	case "!":
		return ids, errors.New("it is wrong")
	}
	name, until, expires := strings.Cut(string(r.Auth), "@")
	if ids.IDs = []string{name}; expires {
		ms, err := strconv.Atoi(until)
		if err != nil {
			return ids, err
		}
		ids.Expires = time.UnixMilli(int64(ms))
	}
	return ids, nil
}

// authOptions returns what a transcript's server authenticates by.
func authOptions(l line) auth.Options {
	o := auth.Options{SASL: l.has("sasl") || l.has("saslrequired"), Providers: []authprovider.Provider{doubtful{}}}
	if scheme := l.named["enforce"]; scheme != "" {
		o.EnforceSchemes = []string{scheme}
	}
	if name, ok := l.named["ensemble"]; ok {
		o.Ensemble = true
		if name != "" {
			o.EnsembleNames = []string{name}
		}
	}
	return o
}
