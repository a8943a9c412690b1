package zktest

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
)

// readyWait bounds how long servers may take to become ready. It is long, since they share the machine with other
// tests.
const readyWait = 2 * time.Minute

// Expire ends c's session at the server, as if c had been silent for too long, and waits until c notices. First it
// waits until c is connected. connect names servers of c's ensemble that take connections; its chroot doesn't matter.
// Expire works with any ZooKeeper server that serves clients without TLS and without a login. It returns at once if c
// has already ended. It fails the test, but doesn't end it, if connect is invalid or c doesn't notice within two
// minutes.
func Expire(t testing.TB, c *zk.Client, connect string) {
	t.Helper()
	if err := expire(c, connect); err != nil {
		t.Errorf("zktest: expire session 0x%x: %v", c.Session().ID, err)
	}
}

func expire(c *zk.Client, connect string) error {
	ctx, cancel := context.WithTimeout(context.Background(), readyWait)
	defer cancel()
	states := c.States()
	defer states.Close()
	for {
		if err := c.Wait(ctx); err != nil {
			return ignoreLost(err)
		}
		// Another client takes over the session and closes it, unless c takes it back first.
		thief, err := zk.Open(ctx, connect, zk.Options{Resume: c.Session()})
		if err != nil {
			return ignoreLost(err)
		}
		thief.Close()
		noticed, cancel := context.WithTimeout(ctx, expireNotice)
		err = untilFinal(noticed, states)
		cancel()
		if err == nil || ctx.Err() != nil {
			return err
		}
	}
}

// expireNotice is how long Expire waits for a client to notice the end of its session before it tries again.
const expireNotice = 2 * time.Second

func untilFinal(ctx context.Context, states *zk.States) error {
	for {
		change, err := states.Next(ctx)
		switch {
		case err == nil && change.State.Final(), zk.SessionLost(err):
			return nil
		case err != nil:
			return fmt.Errorf("the client doesn't notice: %w", err)
		}
	}
}

// ignoreLost returns nil for an error that says that the session has ended.
func ignoreLost(err error) error {
	if zk.SessionLost(err) {
		return nil
	}
	return err
}
