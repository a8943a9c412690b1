package expose_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"flag"
	"io"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"

	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/metrics/expose"
	"github.com/zooid-project/zooid/internal/socket"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// filled returns a registry with every kind of metric in it.
func filled() *metrics.Registry {
	r := &metrics.Registry{}
	r.Gauge("znode_count", func() metrics.Value { return metrics.Int(5) })
	r.Gauge("avg_latency", func() metrics.Value { return metrics.Float(0.7143) })
	r.GaugeSet("quota_count_limit_per_namespace", func() map[string]metrics.Value {
		return map[string]metrics.Value{
			"b": metrics.Int(2), "a": metrics.Int(1), `q"\` + "\n\xff": metrics.Int(3), "\xff": metrics.Int(4),
			"\xfe": metrics.Int(5),
		}
	})
	r.Counter("op_count_create").Add(7)
	r.Counter("op_count_total").Add(9)
	r.CounterSet("quota_exceeded_error_per_namespace").With("app").Add(3)
	r.CounterSet("nothing_yet")
	fsync := r.Summary("fsynctime", metrics.Basic)
	for _, v := range []int64{1, 2, 2, 4, 5, 0, 6} {
		fsync.Observe(v)
	}
	read := r.Summary("readlatency", metrics.Advanced)
	for v := int64(1); v <= 1000; v++ {
		read.Observe(v)
	}
	r.Summary("updatelatency", metrics.Advanced)
	r.SummarySet("ack_latency", metrics.Advanced).With("3").Observe(12)
	stages := r.Histograms("zooid_request_stage_seconds", "Time in each stage.", "stage", "decode", "apply")
	stages[1].Observe(3_000)
	stages[1].Observe(20_000_000_000)
	r.Counters("zooid_sessions_ended_total", "Sessions that ended.", "how", "closed", "expired")[1].Add(2)
	r.Gauges("zooid_raft_peer_lag_entries",
		"Entries.", "peer", func() map[string]float64 { return map[string]float64{"2": 7} })
	r.Gauges("zooid_raft_term", "Term.", "", func() map[string]float64 { return map[string]float64{"": 4} })
	return r
}

// asked returns the answer to a request with these headers, name and value in turn.
func asked(t *testing.T, o expose.Options, method string, header ...string) *http.Response {
	t.Helper()
	r := httptest.NewRequest(method, "/metrics", nil)
	for i := 0; i < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	expose.Handler(filled(), o).ServeHTTP(w, r)
	return w.Result()
}

func bodyOf(t *testing.T, r io.Reader) string {
	t.Helper()
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

const openMetrics = "application/openmetrics-text;version=1.0.0"

// TestNativeHistograms: who asks for the format that has them gets native histograms beside the others, of the same
// counts.
func TestNativeHistograms(t *testing.T) {
	t.Parallel()
	answer := asked(t, expose.Options{}, http.MethodGet, "Accept", "application/vnd.google.protobuf;proto=io.prometheus.client.MetricFamily;encoding=delimited")
	d := expfmt.NewDecoder(answer.Body, expfmt.ResponseFormat(answer.Header))
	seen := false
	for {
		var family dto.MetricFamily
		if err := d.Decode(&family); err == io.EOF {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		for _, m := range family.GetMetric() {
			if family.GetName() != "zooid_request_stage_seconds" || m.GetLabel()[0].GetValue() != "apply" {
				continue
			}
			seen = true
			h := m.GetHistogram()
			if h.Schema == nil || h.GetSchema() != 0 || h.GetZeroCount() != 0 || h.GetZeroThreshold() != 1./(1<<20) ||
				len(h.GetBucket()) != 25 {
				t.Errorf("%v", h)
			}
			// 3 µs are more than 2^-19 s and at most 2^-18; what is longer than 16 s is in the bucket to 32.
			index, n, at := h.GetPositiveSpan()[0].GetOffset(), int64(0), map[int32]int64{}
			for _, delta := range h.GetPositiveDelta() {
				if n += delta; n != 0 {
					at[index] = n
				}
				index++
			}
			if want := map[int32]int64{-18: 1, 5: 1}; !maps.Equal(at, want) || len(h.GetPositiveSpan()) != 1 {
				t.Errorf("counts by bucket %v, want %v; %v", at, want, h.GetPositiveSpan())
			}
		}
	}
	if !seen {
		t.Error("there is no such metric")
	}
}

// TestFormats holds what is shown against transcripts: the text format and OpenMetrics, with the names of Apache 3.9
// and with those of 3.10.
func TestFormats(t *testing.T) {
	t.Parallel()
	for file, c := range map[string]struct {
		o      expose.Options
		accept string
		typ    string
	}{
		"text.txt":        {expose.Options{}, "", "text/plain; version=0.0.4"},
		"text310.txt":     {expose.Options{CounterSuffix: true}, "text/plain", "text/plain; version=0.0.4"},
		"openmetrics.txt": {expose.Options{}, openMetrics, "application/openmetrics-text; version=1.0.0"},
		"open310.txt":     {expose.Options{CounterSuffix: true}, openMetrics, "application/openmetrics-text; version=1.0.0"},
	} {
		answer := asked(t, c.o, http.MethodGet, "Accept", c.accept)
		if typ := answer.Header.Get("Content-Type"); answer.StatusCode != http.StatusOK || !strings.HasPrefix(typ, c.typ) {
			t.Errorf("%s: status %d, type %q", file, answer.StatusCode, typ)
		}
		got, path := bodyOf(t, answer.Body), "testdata/"+file
		if *rewrite {
			if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		want, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if got != string(want) {
			t.Errorf("%s differs (run with -rewrite and read the diff):\n%s", path, got)
		}
	}
}

// TestNamesAreTheSameInBothFormats: a Prometheus that prefers OpenMetrics stores the same series as one that doesn't.
func TestNamesAreTheSameInBothFormats(t *testing.T) {
	t.Parallel()
	series := regexp.MustCompile(`(?m)^(\w+)(?:\{[^}\n]*\})? `)
	for _, suffix := range []bool{false, true} {
		names := func(accept string) map[string]bool {
			all := map[string]bool{}
			for _, m := range series.FindAllStringSubmatch(bodyOf(t,
				asked(t, expose.Options{CounterSuffix: suffix}, http.MethodGet, "Accept", accept).Body), -1) {
				all[m[1]] = true
			}
			return all
		}
		text, open := names(""), names(openMetrics)
		for name := range text {
			if !open[name] {
				t.Errorf("suffix %v: OpenMetrics has no %s", suffix, name)
			}
		}
		if len(text) != len(open) || len(text) < 15 {
			t.Errorf("suffix %v: %d names and %d", suffix, len(text), len(open))
		}
	}
}

// TestHTTP: compression if the client accepts it, no method but GET and HEAD.
func TestHTTP(t *testing.T) {
	t.Parallel()
	answer := asked(t, expose.Options{}, http.MethodGet, "Accept-Encoding", "gzip")
	if answer.Header.Get("Content-Encoding") != "gzip" {
		t.Fatal("not compressed")
	}
	plain, err := gzip.NewReader(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if text := bodyOf(t, plain); !strings.Contains(text, "znode_count 5\n") {
		t.Errorf("%q", text)
	}
	for _, method := range []string{http.MethodPost, http.MethodTrace, http.MethodPut, http.MethodDelete} {
		if answer := asked(t, expose.Options{}, method); answer.StatusCode != http.StatusMethodNotAllowed ||
			answer.Header.Get("Allow") != "GET, HEAD" {
			t.Errorf("%s: status %d", method, answer.StatusCode)
		}
	}
	if answer := asked(t, expose.Options{}, http.MethodHead); answer.StatusCode != http.StatusOK {
		t.Errorf("HEAD: status %d", answer.StatusCode)
	}
	if text := bodyOf(t, asked(t, expose.Options{Runtime: true}, http.MethodGet).Body); !strings.Contains(text,
		"go_goroutines ") {
		t.Error("nothing of Go's runtime")
	}
}

// TestSelectedNames: name[] selects metrics by the names of their samples, in both formats.
func TestSelectedNames(t *testing.T) {
	t.Parallel()
	h := expose.Handler(filled(), expose.Options{Runtime: true})
	for query, want := range map[string]string{
		"name[]=znode_count": "znode_count", "name[]=fsynctime_count&name[]=avg_latency": "avg_latency,fsynctime",
		"name[]=readlatency_sum":                    "readlatency",
		"name[]=zooid_request_stage_seconds_bucket": "zooid_request_stage_seconds",
		"name[]=go_goroutines":                      "go_goroutines", "name[]=nosuch": "", "name%5B%5D=op_count_total": "op_count_total",
	} {
		r := httptest.NewRequest(http.MethodGet, "/metrics?"+query, nil)
		for _, accept := range []string{"", openMetrics} {
			r.Header.Set("Accept", accept)
			w := httptest.NewRecorder()
			h.ServeHTTP(w, r)
			var got []string
			for _, m := range regexp.MustCompile(`(?m)^# TYPE (\w+) `).FindAllStringSubmatch(w.Body.String(), -1) {
				got = append(got, m[1])
			}
			if list := strings.Join(got, ","); w.Code != http.StatusOK || list != want && list+"_total" != want {
				t.Errorf("%s, %q: status %d, %q, want %q", query, accept, w.Code, list, want)
			}
		}
	}
}

// TestScrapesAreLimited: of more scrapes at a time than are answered, the others get 503 and cost nothing.
func TestScrapesAreLimited(t *testing.T) {
	t.Parallel()
	const most = 4 // scrapesMax
	r := &metrics.Registry{}
	entered, leave := make(chan bool, most), make(chan bool)
	r.Gauge("slow", func() metrics.Value {
		entered <- true
		<-leave
		return metrics.Int(1)
	})
	h := expose.Handler(r, expose.Options{})
	scrape := func() int {
		w := httptest.NewRecorder()
		h.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
		return w.Code
	}
	codes := make(chan int, most)
	for range most {
		go func() { codes <- scrape() }()
	}
	for range most {
		<-entered
	}
	if code := scrape(); code != http.StatusServiceUnavailable {
		t.Errorf("one scrape more has status %d", code)
	}
	close(leave)
	for range most {
		if code := <-codes; code != http.StatusOK {
			t.Errorf("status %d", code)
		}
	}
	if code := scrape(); code != http.StatusOK {
		t.Errorf("afterwards, status %d", code)
	}
}

// TestLongHeaders: a request with more headers than are read is refused.
func TestLongHeaders(t *testing.T) {
	t.Parallel()
	l, err := expose.Listen(&socket.Binder{}, "127.0.0.1", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go expose.Serve(l, expose.Handler(filled(), expose.Options{}), nil, slog.New(slog.DiscardHandler))
	for size, want := range map[int]int{1 << 10: http.StatusOK, 64 << 10: http.StatusRequestHeaderFieldsTooLarge} {
		r, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Long", strings.Repeat("x", size))
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		answer.Body.Close()
		if answer.StatusCode != want {
			t.Errorf("%d bytes of headers: status %d, want %d", size, answer.StatusCode, want)
		}
	}
}

// TestRevokedReader: a reader whose certificate isn't accepted any more is refused, on an open connection, too.
func TestRevokedReader(t *testing.T) {
	t.Parallel()
	certified := httptest.NewTLSServer(nil)
	certified.Close()
	var revoked atomic.Bool
	l, err := expose.Listen(&socket.Binder{}, "127.0.0.1", 0, &socket.TLS{
		Config: &tls.Config{Certificates: certified.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert},
		Check: func([]*x509.Certificate) error {
			if revoked.Load() {
				return errors.New("it was revoked")
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	go expose.Serve(l, expose.Handler(filled(), expose.Options{}), nil, slog.New(slog.DiscardHandler))
	client := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{
		Certificates: certified.TLS.Certificates, InsecureSkipVerify: true, // #nosec G402 -- the test's own server
	}}}
	defer client.CloseIdleConnections()
	for _, want := range []int{http.StatusOK, http.StatusForbidden} {
		res, err := client.Get("https://" + l.Addr().String() + "/metrics")
		if err != nil {
			t.Fatal(err)
		}
		_, _ = io.Copy(io.Discard, res.Body)
		res.Body.Close()
		if res.StatusCode != want {
			t.Errorf("the status is %d, want %d", res.StatusCode, want)
		}
		revoked.Store(true)
	}
}

// TestForeignHosts: whoever asks by a name that may be a stranger's gets no metrics and is told what to do; the log has
// one line about it.
func TestForeignHosts(t *testing.T) {
	t.Parallel()
	l, err := expose.Listen(&socket.Binder{}, "127.0.0.1", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	var log bytes.Buffer // written by handlers that have answered
	go expose.Serve(l, expose.Handler(filled(), expose.Options{}), []string{"zk1.example.com"},
		slog.New(slog.NewTextHandler(&log, nil)))
	for _, c := range []struct {
		host string
		want int
	}{
		{"zk1.example.com:7000", http.StatusOK}, {"evil.example.com", http.StatusMisdirectedRequest},
		{"evil.example.com:7000", http.StatusMisdirectedRequest}, {"[::1]:7000", http.StatusOK},
	} {
		r, err := http.NewRequest(http.MethodGet, "http://"+l.Addr().String()+"/metrics", nil)
		if err != nil {
			t.Fatal(err)
		}
		r.Host = c.host
		answer, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		body := bodyOf(t, answer.Body)
		answer.Body.Close()
		if answer.StatusCode != c.want || strings.Contains(body, "znode_count") != (c.want == http.StatusOK) {
			t.Errorf("as %s: status %d, want %d, and\n%.100s", c.host, answer.StatusCode, c.want, body)
		}
		if c.want != http.StatusOK && !strings.Contains(body, "admin.hostNames") {
			t.Errorf("as %s: the answer doesn't say what to do: %s", c.host, body)
		}
	}
	if n := strings.Count(log.String(), "ZD-4031"); n != 1 {
		t.Errorf("%d lines in the log, want 1:\n%s", n, &log)
	}
}

// TestConnectionsMax: a connection beyond those that are open at a time takes the place of the oldest.
func TestConnectionsMax(t *testing.T) {
	t.Parallel()
	const most = 100 // connectionsMax
	l, err := expose.Listen(&socket.Binder{}, "127.0.0.1", 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go expose.Serve(l, expose.Handler(filled(), expose.Options{}), nil, slog.New(slog.DiscardHandler))
	ask := func(conn net.Conn) error {
		conn.Write([]byte("GET /metrics HTTP/1.1\r\nHost: h\r\n\r\n")) // a failure shows below
		answer, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err == nil {
			_, err = io.Copy(io.Discard, answer.Body)
		}
		return err
	}
	var all []net.Conn
	for i := range most + 1 {
		conn, err := net.Dial("tcp", l.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		if err := ask(conn); err != nil {
			t.Fatalf("connection %d, and %d may be open: %v", i+1, most, err)
		}
		all = append(all, conn)
	}
	if ask(all[0]) == nil || ask(all[1]) != nil {
		t.Error("not the oldest connection has made room")
	}
}
