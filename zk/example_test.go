package zk_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// withServer runs an example with a client of its own server.
func withServer(example func(ctx context.Context, c *zk.Client)) {
	servers, err := zktest.Serve(zktest.Options{})
	check(err)
	defer servers.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, servers.Connect(), zk.Options{})
	check(err)
	defer c.Close()
	example(ctx, c)
}

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := zk.Open(ctx, "zk1:2181,zk2:2181/app", zk.Options{
		SessionTimeout: 20 * time.Second,
		Auth:           []zk.Auth{zk.DigestAuth("app", "secret")},
	})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	path, err := c.Create(ctx, "/workers/w-", nil, zk.ModeEphemeralSequential, zk.CreatorACL())
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("registered as", path)
}

// A program's configuration can describe the connection by one URL.
func ExampleDial() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := zk.Dial(ctx, os.Getenv("ZOOKEEPER_URL")) // zk://zk1:2181,zk2:2181/app?session_timeout=20s
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// Credentials aren't part of a URL. The program adds them to the Options that ParseURL returns.
func ExampleParseURL() {
	connect, opt, err := zk.ParseURL("zk://zk1:2181,[2001:db8::2]/app?session_timeout=20s&read_only=true")
	check(err)
	opt.Auth = []zk.Auth{zk.DigestAuth("app", os.Getenv("APP_PASSWORD"))}
	fmt.Println(connect, opt.SessionTimeout, opt.ReadOnly)

	_, _, err = zk.ParseURL("zk://app:secret@zk1/app")
	fmt.Println(err)
	_, _, err = zk.ParseURL("zk://zk1/app?session_timeout=20")
	fmt.Println(err)
	// Output:
	// zk1:2181,[2001:db8::2]:2181/app 20s true
	// zk: URL: no user or password belongs in it; see Options.Auth and Options.SASL (any other @ is written %40)
	// zk: URL: parameter session_timeout: "20" isn't a duration from 1ms to 596h31m23.647s, such as 10s
}

// records is a zk.Resolver with fixed records. Programs leave Options.Resolver nil.
type records []*net.SRV

func (r records) LookupSRV(_ context.Context, _, _, name string) (string, []*net.SRV, error) {
	fmt.Println("asked for", name)
	return name, r, nil
}

func (r records) LookupHost(context.Context, string) ([]string, error) {
	return []string{"127.0.0.1"}, nil
}

// DNS SRV records can list the servers.
func ExampleResolver() {
	servers, err := zktest.Serve(zktest.Options{})
	check(err)
	defer servers.Close()
	connect, opt, err := zk.ParseURL("zk+srv://example.com/app")
	check(err)
	address, err := net.ResolveTCPAddr("tcp", servers.Connect())
	check(err)
	opt.Resolver = records{{Target: "zk1.example.com.", Port: uint16(address.Port), Priority: 10, Weight: 1}}

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, connect, opt)
	check(err)
	defer c.Close()
	fmt.Println(c.State().State)
	// Output:
	// asked for _zookeeper._tcp.example.com
	// connected
}

// This program logs every request that takes longer than a second.
func ExampleHooks() {
	hooks := zk.Hooks{Request: func(_ context.Context, r zk.RequestEnd) {
		if r.Duration > time.Second {
			log.Print(r.Op, " ", r.Path, " at ", r.Server, " took ", r.Duration, ": ", r.Result())
		}
	}}
	c, err := zk.New("zk1:2181", zk.Options{Hooks: []zk.Hooks{hooks}})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// This program reads its certificates for each connection, so that it uses renewed ones.
func ExampleOptions_getTLSConfig() {
	opt := zk.Options{GetTLSConfig: func() (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair("client.crt", "client.key")
		return &tls.Config{Certificates: []tls.Certificate{pair}}, err
	}}
	c, err := zk.New("zk1:2281", opt)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// This client logs in by SASL DIGEST-MD5 on encrypted connections. RootCAs has the authorities that the client trusts.
// The name and password are only used inside of TLS, on the servers' secure ports. The printed identities are the
// client's address and the user, as in [{ip 10.0.0.5} {sasl app}] <nil>.
func Example_saslOverTLS() {
	authorities := x509.NewCertPool()
	pem, err := os.ReadFile("ca.pem")
	if err != nil {
		log.Fatal(err)
	}
	authorities.AppendCertsFromPEM(pem)
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := zk.Open(ctx, "zk1:2281,zk2:2281", zk.Options{
		TLSConfig: &tls.Config{RootCAs: authorities},
		SASL:      zk.DigestMD5("app", os.Getenv("APP_PASSWORD")),
	})
	if err != nil {
		log.Fatal(err) // also if the server refuses the login: zk.ErrAuthFailed
	}
	defer c.Close()
	who, err := c.WhoAmI(ctx)
	fmt.Println(who, err)
}

// This client logs in by SASL.
func ExampleDigestMD5() {
	servers, err := zktest.Serve(zktest.Options{Users: map[string]string{"app": "secret"}})
	check(err)
	defer servers.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, servers.Connect(), zk.Options{SASL: zk.DigestMD5("app", "secret")})
	check(err)
	defer c.Close()
	who, err := c.WhoAmI(ctx)
	check(err)
	fmt.Println(who[len(who)-1])

	_, err = zk.Open(ctx, servers.Connect(), zk.Options{SASL: zk.DigestMD5("app", "guessed")})
	fmt.Println(errors.Is(err, zk.ErrAuthFailed))
	// Output:
	// {sasl app}
	// true
}

// This znode is accessible to only one user.
func ExampleDigestACL() {
	withServer(func(ctx context.Context, c *zk.Client) {
		_, err := c.Create(ctx, "/secrets", nil, zk.ModePersistent, zk.DigestACL(zk.PermAll, "app", "secret"))
		check(err)
		_, _, err = c.Get(ctx, "/secrets")
		fmt.Println(errors.Is(err, zk.ErrNoAuth))
		check(c.AddAuth(ctx, "digest", []byte("app:secret")))
		_, _, err = c.Get(ctx, "/secrets")
		fmt.Println(err)
	})
	// Output:
	// true
	// <nil>
}

// A program can have its own retry policy. The client calls it only for requests that can be repeated without harm.
func ExampleOptions_retry() {
	patient := zk.RetrySafe(10)
	opt := zk.Options{Retry: func(attempt int, err error) (time.Duration, bool) {
		log.Printf("attempt %d: %v", attempt, err)
		return patient(attempt, err)
	}}
	c, err := zk.New("zk1,zk2,zk3", opt)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
}

// The client doesn't repeat a write that may have been applied. This program reads the znode to find out.
func ExampleRetryable() {
	write := func(ctx context.Context, c *zk.Client, path string, data []byte) error {
		for {
			before, stat, err := c.Get(ctx, path)
			if err != nil {
				return err
			}
			if bytes.Equal(before, data) {
				return nil // an earlier attempt or another client did it
			}
			_, err = c.Set(ctx, path, data, stat.Version)
			if err == nil || !zk.Retryable(err) && !zk.MaybeApplied(err) || ctx.Err() != nil {
				return err
			}
		}
	}
	withServer(func(ctx context.Context, c *zk.Client) {
		_, err := c.Create(ctx, "/color", []byte("blue"), zk.ModePersistent, zk.OpenACL())
		check(err)
		fmt.Println(write(ctx, c, "/color", []byte("red")))
	})
	// Output: <nil>
}

// With a chroot, a program sees only the znodes below it.
func ExampleClient_Chroot() {
	withServer(func(ctx context.Context, c *zk.Client) {
		check(c.EnsurePath(ctx, "/tenants/a", zk.OpenACL()))
		tenant, err := c.Chroot("/tenants/a")
		check(err)
		path, err := tenant.Create(ctx, "/config", nil, zk.ModePersistent, zk.OpenACL())
		fmt.Println(path, err)
		_, there, err := c.Exists(ctx, "/tenants/a/config")
		fmt.Println(there, err)
	})
	// Output:
	// /config <nil>
	// true <nil>
}

// This example creates a znode with its missing parents, and deletes a tree.
func ExampleClient_CreateAll() {
	withServer(func(ctx context.Context, c *zk.Client) {
		path, err := c.CreateAll(ctx, "/apps/shop/workers/w-", nil, zk.ModeEphemeralSequential, zk.OpenACL())
		fmt.Println(path, err)
		fmt.Println(c.DeleteAll(ctx, "/apps"))
		_, there, err := c.Exists(ctx, "/apps")
		fmt.Println(there, err)
	})
	// Output:
	// /apps/shop/workers/w-0000000000 <nil>
	// <nil>
	// false <nil>
}

// This program continues after its session has expired. Package recipe has locks, elections and caches for such
// programs.
func ExampleSessions_Run() {
	servers, err := zktest.Serve(zktest.Options{})
	check(err)
	defer servers.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	sessions := zk.NewSessions(func() (*zk.Client, error) {
		return zk.New(servers.Connect(), zk.Options{})
	})
	defer sessions.Close()
	err = sessions.Run(ctx, func(c *zk.Client) error { // again in each session
		_, err := c.Create(ctx, "/here", nil, zk.ModeEphemeral, zk.OpenACL())
		fmt.Println("registered:", err)
		return err // or work until the session ends
	})
	fmt.Println(err)
	// Output:
	// registered: <nil>
	// <nil>
}

func ExampleParseConnectString() {
	c, err := zk.ParseConnectString("zk1,zk2:2182,[::1]/app")
	fmt.Println(c.Servers, c.Chroot, err)
	_, err = zk.ParseConnectString("zk1,zk2:70000/app")
	fmt.Println(err)
	// Output:
	// [zk1:2181 zk2:2182 [::1]:2181] /app <nil>
	// zk: connect string "zk1,zk2:70000/app", byte 4: port "70000" is not a number from 1 to 65535
}

// The client refuses arguments that no server would accept, before it sends anything.
func ExampleError() {
	c, err := zk.New("127.0.0.1:2181", zk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	_, err = c.Create(context.Background(), "/a//b", nil, zk.ModePersistent, zk.OpenACL())
	fmt.Println(err)
	e, _ := errors.AsType[*zk.Error](err)
	fmt.Println(e.Op, e.Path, zk.MaybeApplied(err))
	// Output:
	// zk: create /a//b: invalid path "/a//b" at byte 3: empty component
	// create /a//b false
}

// This example repeats a conditional update until no other client is faster.
func ExampleMaybeApplied() {
	increment := func(ctx context.Context, c *zk.Client) error {
		for {
			data, stat, err := c.Get(ctx, "/counter")
			if err != nil {
				return err
			}
			var n int
			fmt.Sscan(string(data), &n)
			_, err = c.Set(ctx, "/counter", fmt.Append(nil, n+1), stat.Version)
			switch {
			case errors.Is(err, zk.ErrBadVersion):
				continue // another client was faster
			case zk.MaybeApplied(err):
				return fmt.Errorf("the counter may or may not have been incremented: %w", err)
			}
			return err
		}
	}
	withServer(func(ctx context.Context, c *zk.Client) {
		_, err := c.Create(ctx, "/counter", []byte("41"), zk.ModePersistent, zk.OpenACL())
		check(err)
		check(increment(ctx, c))
		data, _, err := c.Get(ctx, "/counter")
		fmt.Printf("%s %v\n", data, err)
	})
	// Output: 42 <nil>
}

// A multi applies both writes or none.
func ExampleClient_Multi() {
	move := func(ctx context.Context, c *zk.Client, from, to string, version int32, data []byte) error {
		_, err := c.Multi(ctx,
			zk.DeleteOp(from, version),
			zk.CreateOp(to, data, zk.ModePersistent, zk.OpenACL()))
		if failed, ok := errors.AsType[*zk.MultiError](err); ok {
			return fmt.Errorf("nothing was moved, because of %s: %w", failed.Path, failed.Code)
		}
		return err
	}
	withServer(func(ctx context.Context, c *zk.Client) {
		_, stat, err := c.CreateStat(ctx, "/a", []byte("x"), zk.ModePersistent, zk.OpenACL())
		check(err)
		fmt.Println(move(ctx, c, "/a", "/no/such/place", stat.Version, []byte("x")))
		fmt.Println(move(ctx, c, "/a", "/b", stat.Version, []byte("x")))
	})
	// Output:
	// nothing was moved, because of /no/such/place: zookeeper: NoNode
	// <nil>
}

// This client takes a job from a queue. Only the first client gets it, and only while it is registered.
func ExampleClient_Txn() {
	withServer(func(ctx context.Context, c *zk.Client) {
		var worker zk.Created
		check(c.Txn().
			Create("/workers", nil, zk.ModePersistent, zk.OpenACL()).
			Create("/workers/7", nil, zk.ModeEphemeral, zk.OpenACL(), &worker).
			Create("/jobs", nil, zk.ModePersistent, zk.OpenACL()).
			Create("/jobs/next", []byte("report"), zk.ModePersistent, zk.OpenACL()).
			Create("/done", []byte("0"), zk.ModePersistent, zk.OpenACL()).
			Commit(ctx))

		take := func() error {
			var done zk.Stat
			err := c.Txn().
				Check(worker.Path, worker.Stat.Version).
				Delete("/jobs/next", zk.AnyVersion).
				Set("/done", []byte("1"), zk.AnyVersion, &done).
				Commit(ctx)
			if failed, ok := errors.AsType[*zk.MultiError](err); ok {
				return fmt.Errorf("step %d, %s of %s: %w", failed.Index, failed.Op, failed.Path, failed.Code)
			}
			fmt.Println("/done has version", done.Version)
			return err
		}
		fmt.Println(take())
		fmt.Println(take())
	})
	// Output:
	// /done has version 1
	// <nil>
	// step 1, delete of /jobs/next: zookeeper: NoNode
}

// A pipeline sends many calls in one round trip.
func ExampleClient_Pipeline() {
	withServer(func(ctx context.Context, c *zk.Client) {
		p := c.Pipeline()
		var created []zk.Future[zk.Created]
		var read []zk.Future[zk.Node]
		for i := range 3 {
			path := fmt.Sprint("/n", i)
			created = append(created, p.Create(ctx, path, []byte("data of "+path), zk.ModePersistent, zk.OpenACL()))
			read = append(read, p.Get(ctx, path)) // it sees the create, since calls keep their order
		}
		for i := range created {
			_, err := created[i].Wait(ctx)
			check(err)
			node, err := read[i].Wait(ctx)
			fmt.Printf("%s %v\n", node.Data, err)
		}
	})
	// Output:
	// data of /n0 <nil>
	// data of /n1 <nil>
	// data of /n2 <nil>
}

// A recursive watch reports everything below a znode from the time it is set.
func ExampleWatch_Events() {
	withServer(func(ctx context.Context, c *zk.Client) {
		w, err := c.AddWatch(ctx, "/services", zk.AddWatchPersistentRecursive)
		check(err)
		for _, path := range []string{"/services", "/services/web", "/services/web/1"} {
			_, err := c.Create(ctx, path, nil, zk.ModePersistent, zk.OpenACL())
			check(err)
		}
		check(c.Delete(ctx, "/services/web/1", zk.AnyVersion))
		w.Close() // events received before can still be read
		for e, err := range w.Events(ctx) {
			check(err)
			fmt.Println(e)
		}
	})
	// Output:
	// NodeCreated /services
	// NodeCreated /services/web
	// NodeCreated /services/web/1
	// NodeDeleted /services/web/1
}

// A one-shot watch waits for a change.
func ExampleClient_GetW() {
	withServer(func(ctx context.Context, c *zk.Client) {
		_, err := c.Create(ctx, "/config", []byte("old"), zk.ModePersistent, zk.OpenACL())
		check(err)
		data, stat, w, err := c.GetW(ctx, "/config")
		check(err)
		fmt.Printf("%s, version %d\n", data, stat.Version)
		_, err = c.Set(ctx, "/config", []byte("new"), stat.Version)
		check(err)
		e, err := w.Next(ctx)
		fmt.Println(e, err)
	})
	// Output:
	// old, version 0
	// NodeDataChanged /config <nil>
}

// This example creates a znode exactly once, even if the reply is lost.
func ExampleClient_CreateProtected() {
	withServer(func(ctx context.Context, c *zk.Client) {
		path, _, err := c.CreateProtected(ctx, "/job-", nil, zk.ModeEphemeralSequential, zk.OpenACL())
		check(err)
		fmt.Println(path[:len("/_c_")], path[len(path)-len("-job-0000000000"):])
	})
	// Output: /_c_ -job-0000000000
}

// A program can wait for watches and states together with other channels. If its work depends on the session, it must
// stop the work when the state isn't StateConnected.
func ExampleClient_States() {
	withServer(func(ctx context.Context, c *zk.Client) {
		states := c.States()
		defer states.Close()
		_, _, lock, err := c.ExistsW(ctx, "/lock")
		check(err)
		defer lock.Close()
		changed := lock.Ready()
		go c.Close()
		for {
			select {
			case <-states.Ready():
				change, ok := states.Try()
				if ok {
					fmt.Println(change.State)
				}
				if ok && change.State.Final() {
					return
				}
			case <-changed:
				if e, ok := lock.Try(); ok {
					fmt.Println(e)
					changed = nil // a one-shot watch has only one event
				}
			case <-ctx.Done():
				return
			}
		}
	})
	// Output:
	// connected
	// closed
}

// This example reads the data of a znode as a Go type, and changes it while other clients may change it, too.
func ExampleTyped() {
	withServer(func(ctx context.Context, c *zk.Client) {
		type config struct{ Workers int }
		configs := zk.NewTyped(c, zk.JSON[config]())
		_, err := configs.Create(ctx, "/config", config{Workers: 2}, zk.ModePersistent, zk.WorldACL(zk.PermAll))
		check(err)
		now, stat, err := configs.Update(ctx, "/config", func(old config) (config, error) {
			old.Workers *= 2
			return old, nil
		})
		check(err)
		fmt.Println(now.Workers, "workers since version", stat.Version)
		// Output: 4 workers since version 1
	})
}
