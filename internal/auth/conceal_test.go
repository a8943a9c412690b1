package auth

import (
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// A talker is a provider that refuses everybody, and says why.
type talker struct {
	team
	why func(credential string) error
}

func (p talker) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	return authprovider.Identities{}, p.why(string(r.Auth))
}

// TestReasonsHideCredentials: the reason for which a provider refuses a credential is logged, unless it has a part of
// it, in whatever form.
func TestReasonsHideCredentials(t *testing.T) {
	t.Parallel()
	const secret = "Tr0ub4dor&3"
	said := func(text string) func(string) error { return func(string) error { return errors.New(text) } }
	for name, c := range map[string]struct {
		credential string
		why        func(string) error
		shown      bool
	}{
		"no such user":      {"ann:" + secret, said("no such user: ann"), true},
		"wrong":             {"ann:" + secret, said("wrong password"), true},
		"an endpoint":       {"ann:" + secret, said("403 from https://login.example/"), true},
		"all of it":         {"ann:" + secret, said("refused ann:" + secret), false},
		"the password":      {"ann:" + secret, said("the password " + secret + " is wrong"), false},
		"a part":            {"ann:" + secret, said("the password Tr0ub… is wrong"), false},
		"another case":      {"ann:" + secret, said("wrong: " + strings.ToUpper(secret)), false},
		"hex":               {"ann:" + secret, said(hex.EncodeToString([]byte("ann:" + secret))), false},
		"base64":            {"ann:" + secret, said(base64.StdEncoding.EncodeToString([]byte("ann:" + secret))), false},
		"base64, elsewhere": {"ann:" + secret, said(base64.RawURLEncoding.EncodeToString([]byte("xxann:" + secret))), false},
		"in a URL":          {"ann:a&b=c d&e", said("GET /?password=a%26b%3Dc+d%26e"), false},
		"quoted":            {"ann:\"\"\"\"", said(strconv.Quote("\"\"\"\"")), false},
		"short":             {"ann:xyz", said("not xyz"), false},
		"a token":           {"eyJhbGciOi", said("bad token eyJhb"), false},
		"a name alone":      {"ann:", said("ann: has no password"), false}, // it may be a token
		"nothing":           {"", said("say something"), true},
		"can't judge": {"ann:" + secret, func(c string) error {
			return fmt.Errorf("ask ?q=%s: %w", c, authprovider.ErrUndecided)
		}, false},
	} {
		r := registry(t, Options{Providers: []authprovider.Provider{talker{team{"talk"}, c.why}}})
		_, err := r.Authenticate(nil, jute.ID{}, &jute.AuthPacket{Scheme: "talk", Auth: []byte(c.credential)}, nil)
		why := c.why(c.credential)
		if undecided := errors.Is(why, authprovider.ErrUndecided); err == nil ||
			errors.Is(err, ErrFailed) == undecided || errors.Is(err, authprovider.ErrUndecided) != undecided {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if shown := strings.Contains(err.Error(), why.Error()); shown != c.shown {
			t.Errorf("%s: %v", name, err)
		}
		if !c.shown && repeats(err.Error(), []byte(c.credential)) {
			t.Errorf("%s: it is shown nevertheless: %v", name, err)
		}
	}
}
