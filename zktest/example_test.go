//go:build unix

package zktest_test

import (
	"context"
	"fmt"
	"log"
	"testing"
	"time"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// This test checks a program's behaviour after its session has expired.
func ExampleExpire() {
	_ = func(t *testing.T) { // func TestExpired
		e := zktest.Start(t, zktest.Options{})
		c, err := zk.Open(t.Context(), e.Connect(), zk.Options{})
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		zktest.Expire(t, c, e.Connect())
		if _, _, err := c.Get(t.Context(), "/"); !zk.SessionLost(err) {
			t.Errorf("Get after the session has expired: %v", err)
		}
	}
}

// This example runs an ensemble outside of a test, and lets its leader fail.
func ExampleServe() {
	e, err := zktest.Serve(zktest.Options{Servers: 3})
	if err != nil {
		log.Fatal(err)
	}
	defer e.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, e.Connect(), zk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	before := c.Session().ID
	e.Stop(e.Leader())
	_, _, err = c.Get(ctx, "/")
	fmt.Println(err, c.Session().ID == before)
	// Output: <nil> true
}
