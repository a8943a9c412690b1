package server

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// pass is a provider of names that expire: name@s ends s seconds after 1970, name@ never. It
// can't judge "?".
type pass struct{ club }

func (pass) Scheme() string { return "pass" }
func (pass) HandleAuthentication(r authprovider.Request) (authprovider.Identities, error) {
	name, end, _ := strings.Cut(string(r.Auth), "@")
	if name == "?" {
		return authprovider.Identities{}, fmt.Errorf("look into the book: %w", authprovider.ErrUndecided)
	}
	ids := authprovider.Identities{IDs: strings.Fields(name)}
	if s, err := strconv.ParseInt(end, 10, 64); err == nil {
		ids.Expires = time.Unix(s, 0)
	}
	return ids, nil
}

// TestExpiredIdentities: a connection ends when what its client has proved does, unless the
// client has proved the same again; others stay.
func TestExpiredIdentities(t *testing.T) {
	t.Parallel()
	s := open(t, Options{Auth: auth.Options{Providers: []authprovider.Provider{pass{}}}})
	addr := s.Addrs()[0].String()
	far := time.Now().Unix() + 1e6 // s; only this test's clock gets there
	for _, c := range []struct {
		credentials []string // %d stands for far
		ends        bool
	}{
		{[]string{"ann@%d"}, true},
		{[]string{"ann@"}, false},
		{[]string{"ann@%d", "ann@"}, false},
		{[]string{"ann@", "ann@%d"}, false},
		{[]string{"ann@%d", "ann@9%[1]d"}, false},      // renewed
		{[]string{"ann@9%d", "ann@%[1]d"}, false},      // the older one lasts longer
		{[]string{"ann staff@%d", "ann@9%[1]d"}, true}, // staff isn't renewed
		{[]string{"ann@9%d", "bob@%[1]d"}, true},
	} {
		client := connect(t, addr, 0, nil)
		for _, credential := range c.credentials {
			credential = strings.ReplaceAll(strings.ReplaceAll(credential, "%[1]d", "%d"), "%d", strconv.FormatInt(far, 10))
			if h, _ := client.call(jute.OpAuth, authPacket("pass", credential)); h.Err != jute.OK {
				t.Fatalf("%q: %v", credential, h.Err)
			}
		}
		s.Replica().ExpireIdentities(far*1e9 - 1)
		if h, _ := client.call(jute.OpPing, nil); h.Err != jute.OK {
			t.Errorf("%q: ended too early: %v", c.credentials, h.Err)
		}
		s.Replica().ExpireIdentities(far * 1e9)
		if c.ends {
			if !client.ends() {
				t.Errorf("%q: it goes on under an identity that has ended", c.credentials)
			}
		} else if h, _ := client.call(jute.OpPing, nil); h.Err != jute.OK {
			t.Errorf("%q: ended: %v", c.credentials, h.Err)
		}
	}

	// The server looks by itself.
	client := connect(t, addr, 0, nil)
	if h, _ := client.call(jute.OpAuth,
		authPacket("pass", "ann@"+strconv.FormatInt(time.Now().Unix()+1, 10))); h.Err != jute.OK || !client.ends() {
		t.Errorf("an identity of a second: %v", h.Err)
	}
}

// TestUndecided: a client whose credential can't be judged gets no answer, which would be
// final. Many of them are throttled as guesses are, and let in a second later.
func TestUndecided(t *testing.T) {
	t.Parallel()
	addr := open(t, Options{Auth: auth.Options{Providers: []authprovider.Provider{pass{}}}}).Addrs()[0].String()
	unanswered := func(credential string) bool {
		c := connect(t, addr, 0, nil)
		if _, err := c.conn.Write(c.request(nil, jute.OpAuth, authPacket("pass", credential))); err != nil {
			t.Fatal(err)
		}
		return c.ends()
	}
	for range auth.FailedLoginsBurst {
		if !unanswered("?") {
			t.Fatal("it is answered")
		}
	}
	for { // or the test's time is over
		c := connect(t, addr, 0, nil)
		if _, err := c.conn.Write(c.request(nil, jute.OpAuth, authPacket("pass", "ann@"))); err != nil {
			t.Fatal(err)
		}
		if !c.ends() {
			break
		}
		time.Sleep(50 * time.Millisecond)
	}
}
