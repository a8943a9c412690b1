package zk_test

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/zooid-project/zooid/zk"
)

func ExampleOpen() {
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	c, err := zk.Open(ctx, "zk1:2181,zk2:2181/app", zk.Options{
		SessionTimeout: 20 * time.Second,
		Auth:           []zk.Auth{{Scheme: "digest", Auth: []byte("app:secret")}},
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

// Certificates are read for each connection, so renewed ones are picked up.
func ExampleOptions_tLS() {
	opt := zk.Options{TLS: func() (*tls.Config, error) {
		pair, err := tls.LoadX509KeyPair("client.crt", "client.key")
		return &tls.Config{Certificates: []tls.Certificate{pair}}, err
	}}
	c, err := zk.New("zk1:2281", opt)
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
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

// Arguments no server would take are refused before anything is sent.
func ExampleError() {
	c, err := zk.New("127.0.0.1:2181", zk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	_, err = c.Create(context.Background(), "/a//b", nil, zk.ModePersistent, zk.WorldACL(zk.PermAll))
	fmt.Println(err)
	e, _ := errors.AsType[*zk.Error](err)
	fmt.Println(e.Op, e.Path, zk.MaybeApplied(err))
	// Output:
	// zk: create /a//b: invalid path "/a//b" at byte 3: empty component
	// create /a//b false
}

// A conditional update, repeated until nobody was faster.
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
				continue // someone else was first
			case zk.MaybeApplied(err):
				return fmt.Errorf("the counter may or may not have been incremented: %w", err)
			}
			return err
		}
	}
	_ = increment
}

func ExampleClient_Multi() {
	move := func(ctx context.Context, c *zk.Client, from, to string, version int32, data []byte) error {
		_, err := c.Multi(ctx,
			zk.DeleteOp(from, version),
			zk.CreateOp(to, data, zk.ModePersistent, zk.WorldACL(zk.PermAll)))
		if failed, ok := errors.AsType[*zk.MultiError](err); ok {
			return fmt.Errorf("nothing was moved, because of %s: %w", failed.Path, err)
		}
		return err
	}
	_ = move
}

func ExampleClient_Pipeline() {
	load := func(ctx context.Context, c *zk.Client, paths []string) error {
		p := c.Pipeline()
		var open []zk.Future[zk.Node]
		for _, path := range paths {
			open = append(open, p.Get(ctx, path))
		}
		for i, f := range open {
			node, err := f.Wait(ctx)
			if err != nil {
				return err
			}
			fmt.Println(paths[i], len(node.Data))
		}
		return nil
	}
	_ = load
}

func ExampleWatch_Events() {
	follow := func(ctx context.Context, c *zk.Client) error {
		w, err := c.AddWatch(ctx, "/services", zk.AddWatchPersistentRecursive)
		if err != nil {
			return err
		}
		defer w.Close()
		for e, err := range w.Events(ctx) {
			if err != nil {
				return err
			}
			fmt.Println(e)
		}
		return nil
	}
	_ = follow
}

// Watches and states can be waited for together with anything else.
func ExampleClient_States() {
	hold := func(ctx context.Context, c *zk.Client, lock *zk.Watch) {
		states := c.States()
		defer states.Close()
		for {
			select {
			case <-states.Ready():
				if change, ok := states.Try(); ok && change.State != zk.StateConnected {
					return // the lock may be lost: stop acting on it
				}
			case <-lock.Ready():
				return
			case <-ctx.Done():
				return
			}
		}
	}
	_ = hold
}
