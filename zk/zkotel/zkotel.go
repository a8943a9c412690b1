// Package zkotel makes spans and metrics of a ZooKeeper client's requests with OpenTelemetry.
//
//	hooks, err := zkotel.New(zkotel.Options{})
//	if err != nil {
//		return err
//	}
//	c, err := zk.Open(ctx, "zk1,zk2,zk3/app", zk.Options{Hooks: []zk.Hooks{hooks}})
//
// Names and attributes are those of OpenTelemetry's semantic conventions for database clients,
// version 1.43. It is a module of its own, so that package zk needs no other module.
//
// # Spans
//
// Each request is a span of kind client, a child of the span in its call's context. Its name is the operation's, such
// as "getData", so there are few names. It begins when the call began, and is recorded when the call has ended: a
// program that crashes leaves no span of an unanswered call.
//
//	db.system.name           "zookeeper"
//	db.operation.name        ZooKeeper's name of the operation
//	db.response.status_code  the name of the error's code, such as "NoNode" or "ConnectionLoss", if it has one
//	server.address, .port    of the server that answered or whose connection was lost
//	error.type               zk.RequestEnd.Result, if the request failed; the status is then Error, with the error's text
//	db.operation.batch.size  the number of operations of a multi or multiRead, unless it is 1
//	zookeeper.path           as the caller gave it, unless Options.OmitPaths is set
//	zookeeper.zxid           in the form 0x100000001, if there was a reply
//	zookeeper.attempts       if the request was sent more than once
//
// A missing znode is not an error of the operation exists.
//
// # Metrics
//
//	db.client.operation.duration      histogram, in seconds up to 10, with the attributes above down to error.type
//	zookeeper.client.io               counter of bytes, each request once, by db.operation.name and network.io.direction
//	zookeeper.client.connections      connected clients, also to read-only servers, an up-down counter
//	zookeeper.client.connect.attempts counter, by server.address, .port and, for failures, error.type ("failed")
//	zookeeper.client.state.changes    counter, by zookeeper.state, such as "connected_read_only"
//	zookeeper.client.notifications    counter, by zookeeper.event.type, such as "NodeCreated"
//
// Metrics don't have paths as attributes. A duration begins with the call and includes waits for a connection, pauses
// and repetitions. The number of series is bounded by the operations, the codes, and the servers in the client's list.
package zkotel

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/metric"
	semconv "go.opentelemetry.io/otel/semconv/v1.43.0"
	"go.opentelemetry.io/otel/trace"

	"github.com/zooid-project/zooid/zk"
)

// Name is the instrumentation scope of all spans and metrics.
const Name = "github.com/zooid-project/zooid/zk/zkotel"

// Options configure New. The zero value is a good choice.
type Options struct {
	TracerProvider trace.TracerProvider // nil means the global one
	MeterProvider  metric.MeterProvider // nil means the global one

	// OmitPaths omits the paths of znodes from spans, and the texts of errors, which contain paths.
	OmitPaths bool
}

// durations are the bounds of the buckets of db.client.operation.duration, in seconds: those recommended by the
// conventions, and two below them, since many requests take less than a millisecond.
var durations = []float64{.00025, .0005, .001, .005, .01, .05, .1, .5, 1, 5, 10}

var system = semconv.DBSystemNameKey.String("zookeeper")

type instruments struct {
	opt      Options
	tracer   trace.Tracer
	duration metric.Float64Histogram
	io       metric.Int64Counter
	clients  metric.Int64UpDownCounter
	attempts metric.Int64Counter
	changes  metric.Int64Counter
	events   metric.Int64Counter
}

// New returns hooks for Options.Hooks of any number of clients. It fails if the MeterProvider refuses an instrument.
func New(opt Options) (zk.Hooks, error) {
	if opt.TracerProvider == nil {
		opt.TracerProvider = otel.GetTracerProvider()
	}
	if opt.MeterProvider == nil {
		opt.MeterProvider = otel.GetMeterProvider()
	}
	in := &instruments{opt: opt}
	in.tracer = opt.TracerProvider.Tracer(Name, trace.WithSchemaURL(semconv.SchemaURL))
	meter := opt.MeterProvider.Meter(Name, metric.WithSchemaURL(semconv.SchemaURL))
	var errs []error
	counter := func(name, unit, text string) metric.Int64Counter {
		c, err := meter.Int64Counter(name, metric.WithUnit(unit), metric.WithDescription(text))
		errs = append(errs, err)
		return c
	}
	var err error
	in.duration, err = meter.Float64Histogram("db.client.operation.duration", metric.WithUnit("s"),
		metric.WithDescription("Duration of database client operations."), metric.WithExplicitBucketBoundaries(durations...))
	errs = append(errs, err)
	in.clients, err = meter.Int64UpDownCounter("zookeeper.client.connections", metric.WithUnit("{connection}"),
		metric.WithDescription("Clients that are connected."))
	errs = append(errs, err)
	in.io = counter("zookeeper.client.io", "By", "Bytes of requests and replies.")
	in.attempts = counter("zookeeper.client.connect.attempts", "{attempt}", "Attempts to connect to a server.")
	in.changes = counter("zookeeper.client.state.changes", "{change}", "Changes of the clients' states, by the new state.")
	in.events = counter("zookeeper.client.notifications", "{notification}", "Notifications of watches.")
	if err := errors.Join(errs...); err != nil {
		return zk.Hooks{}, fmt.Errorf("zkotel: make the instruments: %w", err)
	}
	return zk.Hooks{Request: in.request, Connect: in.connect, State: in.state, Watch: in.watch}, nil
}

func (in *instruments) request(ctx context.Context, r zk.RequestEnd) {
	common := make([]attribute.KeyValue, 0, 12)
	common = append(common, system, semconv.DBOperationName(r.Op))
	common = appendServer(common, r.Server)
	if _, ok := errors.AsType[zk.Code](r.Err); ok {
		common = append(common, semconv.DBResponseStatusCode(r.Result()))
	}
	failed := r.Err != nil && !(r.Op == "exists" && errors.Is(r.Err, zk.ErrNoNode))
	if failed {
		common = append(common, semconv.ErrorTypeKey.String(r.Result()))
	}
	in.span(ctx, r, common, failed)

	in.duration.Record(ctx, r.Duration.Seconds(), metric.WithAttributeSet(attribute.NewSet(common...)))
	op := semconv.DBOperationName(r.Op)
	in.io.Add(ctx, int64(r.Sent), metric.WithAttributes(op, semconv.NetworkIODirectionTransmit))
	in.io.Add(ctx, int64(r.Received), metric.WithAttributes(op, semconv.NetworkIODirectionReceive))
}

// span records the span of a request that has ended.
func (in *instruments) span(ctx context.Context, r zk.RequestEnd, common []attribute.KeyValue, failed bool) {
	all := common[:len(common):len(common)]
	if (r.Op == "multi" || r.Op == "multiRead") && r.Ops != 1 {
		all = append(all, semconv.DBOperationBatchSize(r.Ops))
	}
	if r.Path != "" && !in.opt.OmitPaths {
		all = append(all, attribute.String("zookeeper.path", r.Path))
	}
	if r.Received > 0 {
		all = append(all, attribute.String("zookeeper.zxid", "0x"+strconv.FormatUint(uint64(r.Zxid), 16)))
	}
	if r.Attempts > 1 {
		all = append(all, attribute.Int("zookeeper.attempts", r.Attempts))
	}
	_, span := in.tracer.Start(ctx, r.Op, trace.WithSpanKind(trace.SpanKindClient), trace.WithTimestamp(r.Start),
		trace.WithAttributes(all...))
	if failed {
		text := r.Result()
		if !in.opt.OmitPaths {
			text = r.Err.Error()
		}
		span.SetStatus(codes.Error, text)
	}
	span.End(trace.WithTimestamp(r.Start.Add(r.Duration)))
}

// appendServer appends the attributes of a server, which is host:port, or "" for none.
func appendServer(attrs []attribute.KeyValue, server string) []attribute.KeyValue {
	host, port, err := net.SplitHostPort(server)
	if err != nil {
		return attrs
	}
	attrs = append(attrs, semconv.ServerAddress(host))
	if n, err := strconv.Atoi(port); err == nil {
		attrs = append(attrs, semconv.ServerPort(n))
	}
	return attrs
}

func (in *instruments) connect(server string, _ time.Duration, err error) {
	attrs := appendServer(nil, server)
	if err != nil {
		attrs = append(attrs, semconv.ErrorTypeKey.String("failed"))
	}
	in.attempts.Add(context.Background(), 1, metric.WithAttributes(attrs...))
}

func (in *instruments) state(before zk.State, now zk.StateChange) {
	ctx := context.Background()
	in.changes.Add(ctx, 1, metric.WithAttributes(attribute.String("zookeeper.state", word(now.State.String()))))
	if change := connections(now.State) - connections(before); change != 0 {
		in.clients.Add(ctx, change)
	}
}

func (in *instruments) watch(e zk.Event) {
	kind := attribute.String("zookeeper.event.type", e.Type.String())
	in.events.Add(context.Background(), 1, metric.WithAttributes(kind))
}

// word returns a state's name, such as "authentication failed", as one word.
func word(state string) string {
	return strings.NewReplacer(" ", "_", "-", "_").Replace(state)
}

// connections returns the number of connections of a client in state s.
func connections(s zk.State) int64 {
	if s == zk.StateConnected || s == zk.StateConnectedReadOnly {
		return 1
	}
	return 0
}
