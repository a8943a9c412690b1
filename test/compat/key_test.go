package compat

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// TestKeyFromJava: Apache's shell, and with it its Java client, sees the same of Apache's sample scheme "key" on Zooid,
// where the provider is written against package authprovider, as on Apache. Until /key is there each credential is
// taken, afterwards multiples of the number in it.
func TestKeyFromJava(t *testing.T) {
	reference, subject := programs(t)
	opts := Options{Config: map[string]string{
		"authProvider.1": "org.apache.zookeeper.server.auth.KeyAuthenticationProvider",
	}}
	apache, zooid := Start(t, reference, opts), Start(t, subject, opts)
	play := func(script string) {
		t.Helper()
		var said [2]string
		for i, s := range []*Server{apache, zooid} {
			var err error
			if said[i], err = runShell(reference.java, reference.classPath, s.Addr, script); err != nil {
				t.Fatalf("on %s: %v\n%s", s.Addr, err, said[i])
			}
		}
		if said[0] != said[1] {
			t.Error(difference(t, said[0], said[1]))
		}
		t.Log(said[1])
	}
	guess := func(credential string) { // not from the shell: it hangs once a login has failed
		t.Helper()
		a, z := logsIn(t, apache, credential), logsIn(t, zooid, credential)
		if errors.Is(a, zk.ErrAuthFailed) != errors.Is(z, zk.ErrAuthFailed) {
			t.Errorf("a login with %q: %v on %s, %v on %s", credential, a, reference.Name, z, subject.Name)
		}
	}
	play(`
		addauth key whatever
		create /key 7
		get /key
		whoami`)
	play(`
		addauth key 21
		create /private secret key::cdrwa
		create /mine secret auth::cdrwa
		getAcl /private
		getAcl /mine
		get /private
		set /private more
		setAcl /private key::r
		set /private less`)
	play(`
		getAcl /private
		get /private
		get /mine
		set /mine x`)
	for _, credential := range []string{"14", "-7", "+14", "0", "22", "seven", "", "7.0", " 7", "99999999999"} {
		guess(credential)
	}
	play(`
		addauth key 0
		get /private
		addauth digest ann:secret
		get /mine
		set /key none`)
	guess("14")
}

// logsIn returns why a login of scheme "key" fails.
func logsIn(t *testing.T, s *Server, credential string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, s.Addr, zk.Options{Auth: []zk.Auth{{Scheme: "key", Auth: []byte(credential)}}})
	if err != nil {
		return err
	}
	defer c.Close()
	_, _, err = c.Exists(ctx, "/")
	return err
}
