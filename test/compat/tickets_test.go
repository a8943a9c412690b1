package compat

import (
	"context"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/test/compat/kdc"
	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/kerberos"
	"github.com/zooid-project/zooid/zk/recipe"
)

// ticketLifeMax bounds how long tickets live that are to be used before they end.
const ticketLifeMax = time.Minute

// TestTicketsChange: keytabs of clients and of the server are replaced, tickets end, and their cache is emptied and
// filled again, while a server runs and clients come back; a recipe works by Kerberos.
func TestTicketsChange(t *testing.T) {
	_, subject := programs(t)
	k := kdc.Start(t, "zookeeper/localhost", "ann")
	jaas := k.Write(t, "server.jaas", fmt.Sprintf("Server { com.sun.security.auth.module.Krb5LoginModule required useKeyTab=true keyTab=%q principal=%q; };\n",
		k.Keytab("zookeeper/localhost"), kdcPrincipal))
	s := Start(t, subject, Options{
		Config:     map[string]string{"authProvider.1": "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"},
		Properties: map[string]string{"java.security.auth.login.config": jaas},
	})
	keytab := kerberos.Login{
		Principal: "ann@" + kdc.Realm, Keytab: k.Keytab("ann"), Config: k.File("krb5.conf"), Service: kdcPrincipal,
	}
	cache := kerberos.Login{Cache: k.File("cache"), Config: k.File("krb5.conf"), Service: kdcPrincipal}
	logIn := func(login kerberos.Login, within time.Duration) (*zk.Client, error) {
		ctx, cancel := context.WithTimeout(t.Context(), within)
		defer cancel()
		c, err := zk.Open(ctx, s.Addr, zk.Options{SASL: login})
		if err != nil {
			return nil, err
		}
		t.Cleanup(func() { c.Close() })
		ids, err := c.WhoAmI(ctx)
		if err == nil && !strings.Contains(fmt.Sprint(ids), "ann@"+kdc.Realm) {
			err = fmt.Errorf("the client is %v", ids)
		}
		return c, err
	}
	by := func(what string, login kerberos.Login) *zk.Client {
		t.Helper()
		c, err := logIn(login, shellPatience)
		if err != nil {
			t.Fatalf("%s: %v", what, err)
		}
		return c
	}
	fails := func(what string, login kerberos.Login, why string) {
		t.Helper()
		if _, err := login.Begin("localhost:2181"); err == nil || !strings.Contains(err.Error(), why) {
			t.Errorf("%s: %v, want %q", what, err, why)
		}
	}
	kinit := func(more ...string) {
		t.Helper()
		k.Run(t, "kinit", append(more, "-k", "-t", k.Keytab("ann"), "ann@"+kdc.Realm)...)
	}
	rekey := func(principal string) {
		t.Helper()
		if err := os.Remove(k.Keytab(principal)); err != nil {
			t.Fatal(err)
		}
		k.Run(t, "kadmin.local", "-r", kdc.Realm, "ktadd", "-k", k.Keytab(principal), principal) // which makes a new key
	}

	living := by("by keytab", keytab)
	fails("without a cache", cache, "run kinit")
	kinit()
	by("by the cache of kinit", cache)

	rekey("ann")
	by("by the client's new keytab", keytab)

	rekey("zookeeper/localhost")
	kinit() // the tickets in the cache are for the old key
	by("by keytab, to the server's new one", keytab)
	by("by the cache, to the server's new keytab", cache)
	if _, err := living.Create(t.Context(), "/living", nil, zk.ModePersistent, zk.CreatorACL()); err != nil {
		t.Errorf("a connection from before: %v", err)
	}

	// Tickets that end: nobody logs in by them, until there are others. Each attempt's live longer, for a busy machine.
	for life := 2 * time.Second; ; life *= 2 {
		began := time.Now()
		kinit("-l", fmt.Sprintf("%.0fs", life.Seconds()))
		_, err := logIn(cache, life)
		if err == nil {
			break
		}
		// A KDC counts whole seconds.
		if took := time.Since(began); took < life-time.Second || life > ticketLifeMax {
			t.Fatalf("no login by tickets of %v within %v: %v", life, took, err)
		}
	}
	for end := time.Now().Add(shellPatience); ; time.Sleep(100 * time.Millisecond) {
		if _, err := cache.Begin("localhost:2181"); err != nil {
			break
		}
		if time.Now().After(end) {
			t.Fatal("tickets that have ended are used on")
		}
	}
	kinit()
	by("by tickets that were renewed", cache)

	// A recipe, by clients of before and after the change of the keytab.
	opt := recipe.Options{ACL: zk.CreatorACL()}
	held, err := recipe.NewMutex(living, "/living/lock", opt).Lock(t.Context())
	if err != nil {
		t.Fatalf("lock: %v", err)
	}
	rekey("ann")
	other := recipe.NewMutex(by("by keytab, another", keytab), "/living/lock", opt)
	if second, err := other.TryLock(t.Context()); second != nil {
		t.Errorf("two clients hold the lock: %v", err)
	}
	if err := held.Unlock(t.Context()); err != nil {
		t.Errorf("unlock: %v", err)
	}
	if _, err := other.Lock(t.Context()); err != nil {
		t.Errorf("lock by another client: %v", err)
	}
	anonymous, err := zk.Open(t.Context(), s.Addr, zk.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer anonymous.Close()
	if _, _, err := anonymous.Get(t.Context(), "/living"); err == nil {
		t.Error("a client without a ticket reads what is the principal's")
	}
}
