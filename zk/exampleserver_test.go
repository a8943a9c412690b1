package zk_test

import (
	"context"
	"log"
	"os"
	"time"

	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/zk"
)

// withServer runs an example with a client of a server of its own.
func withServer(example func(ctx context.Context, c *zk.Client)) {
	dir, err := os.MkdirTemp("", "zk-example-")
	if err != nil {
		log.Fatal(err)
	}
	defer os.RemoveAll(dir)
	s, err := server.Open(server.Options{DataDir: dir, Listen: []string{"127.0.0.1:0"}})
	if err != nil {
		log.Fatal(err)
	}
	defer s.Close()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, s.Addrs()[0].String(), zk.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer c.Close()
	example(ctx, c)
}

// check ends an example that goes wrong.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
