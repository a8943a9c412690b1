//go:build unix

package zkotel_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zk/zkotel"
	"github.com/zooid-project/zooid/zktest"
)

// This example prints the spans of a program's work and of its requests. A program has its own exporter instead of the
// one in memory. It usually sets the global provider, which zkotel.Options{} uses.
func Example() {
	servers, err := zktest.Serve(zktest.Options{})
	check(err)
	defer servers.Close()
	exported := tracetest.NewInMemoryExporter()
	provider := sdktrace.NewTracerProvider(sdktrace.WithSyncer(exported))
	hooks, err := zkotel.New(zkotel.Options{TracerProvider: provider})
	check(err)

	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := zk.Open(ctx, servers.Connect(), zk.Options{Hooks: []zk.Hooks{hooks}})
	check(err)
	defer c.Close()

	work, span := provider.Tracer("program").Start(ctx, "work")
	_, err = c.Create(work, "/a", nil, zk.ModePersistent, zk.OpenACL())
	check(err)
	_, _, err = c.Get(work, "/none")
	fmt.Println(errors.Is(err, zk.ErrNoNode))
	span.End()

	for _, s := range exported.GetSpans() {
		fmt.Println(s.Name, s.SpanKind, s.Status.Code, s.Parent.SpanID() == span.SpanContext().SpanID())
	}
	// Output:
	// true
	// create client Unset true
	// getData client Error true
	// work internal Unset false
}

// check ends an example that fails.
func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}
