//go:build unix

package zkprom_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/zkprom"
	"github.com/zooid-project/zooid/zktest"
)

// This example prints the metrics of a client that makes two requests, as promhttp.HandlerFor serves them.
func Example() {
	servers, err := zktest.Serve(zktest.Options{})
	check(err)
	defer servers.Close()
	metrics := zkprom.New(zkprom.Options{})
	registry := prometheus.NewRegistry()
	registry.MustRegister(metrics)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, servers.Connect(), zk.Options{Hooks: []zk.Hooks{metrics.Hooks()}})
	check(err)
	defer c.Close()
	_, err = c.Create(ctx, "/a", nil, zk.ModePersistent, zk.OpenACL())
	check(err)
	_, _, err = c.Get(ctx, "/none")
	fmt.Println(errors.Is(err, zk.ErrNoNode))

	families, err := registry.Gather()
	check(err)
	for _, family := range families {
		if family.GetName() != "zk_client_requests_total" {
			continue
		}
		for _, m := range family.Metric {
			fmt.Println(m.Label[0].GetValue(), m.Label[1].GetValue(), m.Counter.GetValue())
		}
	}
	// Output:
	// true
	// create OK 1
	// getData NoNode 1
}

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
