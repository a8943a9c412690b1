//go:build unix

package zkotel

import (
	"context"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/metric/metricdata"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/sdk/trace/tracetest"
	"go.opentelemetry.io/otel/trace"

	"github.com/zooid-project/zooid/zk"
	"github.com/zooid-project/zooid/zktest"
)

// observed is a client of a real server whose spans and metrics a test reads.
type observed struct {
	c      *zk.Client
	server string
	spans  *tracetest.InMemoryExporter
	reader *sdkmetric.ManualReader
}

func observe(t *testing.T, opt Options) observed {
	t.Helper()
	o := observed{spans: tracetest.NewInMemoryExporter(), reader: sdkmetric.NewManualReader()}
	opt.TracerProvider = sdktrace.NewTracerProvider(sdktrace.WithSyncer(o.spans))
	opt.MeterProvider = sdkmetric.NewMeterProvider(sdkmetric.WithReader(o.reader))
	hooks, err := New(opt)
	if err != nil {
		t.Fatal(err)
	}
	o.server = zktest.Start(t, zktest.Options{}).Connect()
	o.c, err = zk.Open(t.Context(), o.server, zk.Options{Hooks: []zk.Hooks{hooks}, SessionTimeout: 20 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { o.c.Close() })
	// Its reply comes after the connection was told.
	if _, _, err := o.c.Get(t.Context(), "/"); err != nil {
		t.Fatal(err)
	}
	o.spans.Reset()
	return o
}

// series returns the metric's values by their attributes as text; of a histogram the counts.
func (o observed) series(t *testing.T, name string) map[string]int64 {
	t.Helper()
	var all metricdata.ResourceMetrics
	if err := o.reader.Collect(context.Background(), &all); err != nil {
		t.Fatal(err)
	}
	values := map[string]int64{}
	for _, scope := range all.ScopeMetrics {
		for _, m := range scope.Metrics {
			if m.Name != name {
				continue
			}
			switch data := m.Data.(type) {
			case metricdata.Sum[int64]:
				for _, p := range data.DataPoints {
					values[p.Attributes.Encoded(attribute.DefaultEncoder())] = p.Value
				}
			case metricdata.Histogram[float64]:
				for _, p := range data.DataPoints {
					values[p.Attributes.Encoded(attribute.DefaultEncoder())] = int64(p.Count)
				}
			}
		}
	}
	return values
}

// TestSpans has each request made a span with the conventions' attributes.
func TestSpans(t *testing.T) {
	o := observe(t, Options{})
	host, port, _ := net.SplitHostPort(o.server)
	ctx := t.Context()
	for _, test := range []struct {
		do     func()
		name   string
		status codes.Code
		want   map[attribute.Key]string // "" for absent
	}{
		{func() { o.c.Create(ctx, "/a", nil, zk.ModePersistent, zk.OpenACL()) }, "create", codes.Unset,
			map[attribute.Key]string{
				"db.system.name": "zookeeper", "db.operation.name": "create", "zookeeper.path": "/a", "server.address": host,
				"server.port": port, "error.type": "", "db.response.status_code": "", "db.operation.batch.size": "",
			}},
		{func() { o.c.Get(ctx, "/none") }, "getData", codes.Error, map[attribute.Key]string{
			"error.type": "NoNode", "db.response.status_code": "NoNode", "zookeeper.path": "/none",
		}},
		{func() { o.c.Exists(ctx, "/none") }, "exists", codes.Unset, map[attribute.Key]string{
			"error.type": "", "db.response.status_code": "NoNode",
		}},
		{func() { o.c.Multi(ctx, zk.CheckOp("/a", 0), zk.SetOp("/a", nil, 0)) }, "multi", codes.Unset,
			map[attribute.Key]string{"db.operation.batch.size": "2", "zookeeper.path": ""}},
		{func() { o.c.Multi(ctx, zk.CheckOp("/a", 7)) }, "multi", codes.Error,
			map[attribute.Key]string{"db.operation.batch.size": "", "error.type": "BadVersion"}},
		{func() { o.c.Pipeline().Get(ctx, "/a").Wait(ctx) }, "getData", codes.Unset,
			map[attribute.Key]string{"zookeeper.path": "/a"}},
	} {
		o.spans.Reset()
		before := time.Now()
		test.do()
		spans := o.spans.GetSpans()
		if len(spans) != 1 {
			t.Fatalf("%s made %d spans", test.name, len(spans))
		}
		s := spans[0]
		if s.Name != test.name || s.SpanKind != trace.SpanKindClient || s.Status.Code != test.status {
			t.Errorf("span %s, %v, %v; want %s, %v", s.Name, s.SpanKind, s.Status, test.name, test.status)
		}
		if s.StartTime.Before(before) || !s.EndTime.After(s.StartTime) || s.EndTime.After(time.Now()) {
			t.Errorf("%s lasts from %v to %v", s.Name, s.StartTime, s.EndTime)
		}
		got := map[attribute.Key]string{}
		for _, a := range s.Attributes {
			got[a.Key] = a.Value.String()
		}
		for key, want := range test.want {
			if got[key] != want {
				t.Errorf("%s has %s %q, want %q", s.Name, key, got[key], want)
			}
		}
		if !strings.HasPrefix(got["zookeeper.zxid"], "0x") {
			t.Errorf("%s has zxid %q", s.Name, got["zookeeper.zxid"])
		}
	}
}

// TestOmitPaths leaves paths out of all that a span has.
func TestOmitPaths(t *testing.T) {
	o := observe(t, Options{OmitPaths: true})
	o.c.Get(t.Context(), "/secret-name")
	o.c.Multi(t.Context(), zk.CheckOp("/secret-name", 0))
	spans := o.spans.GetSpans()
	if text := fmt.Sprintf("%+v", spans); len(spans) != 2 || strings.Contains(text, "secret") {
		t.Errorf("%d spans: %s", len(spans), text)
	}
}

// TestMetrics counts requests, connections and notifications, and the number of series doesn't grow with paths.
func TestMetrics(t *testing.T) {
	o := observe(t, Options{})
	ctx := t.Context()
	host, port, _ := net.SplitHostPort(o.server)
	where := "server.address=" + host + ",server.port=" + port
	if got := o.series(t, "zookeeper.client.connections"); got[""] != 1 {
		t.Errorf("connections %v", got)
	}
	if got := o.series(t, "zookeeper.client.connect.attempts"); got[where] != 1 {
		t.Errorf("attempts %v", got)
	}
	w, err := o.c.AddWatch(ctx, "/a", zk.AddWatchPersistent)
	if err != nil {
		t.Fatal(err)
	}
	o.c.Create(ctx, "/a", make([]byte, 1000), zk.ModePersistent, zk.OpenACL())
	if _, err := w.Next(ctx); err != nil {
		t.Fatal(err)
	}
	for i := range 1000 {
		o.c.Get(ctx, fmt.Sprint("/none-", i))
	}
	durations := o.series(t, "db.client.operation.duration")
	missing := "db.operation.name=getData,db.response.status_code=NoNode,db.system.name=zookeeper,error.type=NoNode," +
		where
	if len(durations) != 4 || durations[missing] != 1000 {
		t.Errorf("durations %v", durations)
	}
	io := o.series(t, "zookeeper.client.io")
	if sent := io["db.operation.name=create,network.io.direction=transmit"]; sent < 1000 || sent > 1100 {
		t.Errorf("a create of 1000 bytes sent %d", sent)
	}
	if got := o.series(t, "zookeeper.client.notifications"); got["zookeeper.event.type=NodeCreated"] != 1 {
		t.Errorf("notifications %v", got)
	}
	o.c.Close()
	if got := o.series(t, "zookeeper.client.connections"); got[""] != 0 {
		t.Errorf("connections %v after Close", got)
	}
	if got := o.series(t, "zookeeper.client.state.changes"); got["zookeeper.state=connected"] != 1 ||
		got["zookeeper.state=closed"] != 1 {
		t.Errorf("changes %v", got)
	}
}
