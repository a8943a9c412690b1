package bench

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/keeperbench"
	"github.com/zooid-project/zooid/jute"
)

// TestWorkloadRunsUnchanged runs the fixtures: every request of theirs must
// succeed, and nothing be left behind.
func TestWorkloadRunsUnchanged(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		file string
		ops  string
	}{{"keeperbench/testdata/reads.yaml", `"ops":3000`}, {"keeperbench/testdata/fill.yaml", `"ops":200`}} {
		s := startFake(t)
		var out, diag bytes.Buffer
		if code := Main([]string{"workload", tt.file, "-servers", s.addr, "-json"}, &out, &diag); code != exitOK {
			t.Fatalf("%s: exit code %d: %s", tt.file, code, &diag)
		}
		if !strings.Contains(out.String(), tt.ops+",") || strings.Contains(out.String(), `"errors"`) {
			t.Errorf("%s: %s", tt.file, &out)
		}
		if left := s.left(); len(left) > 0 {
			t.Errorf("%s: left behind: %v", tt.file, left)
		}
	}
}

func TestWorkloadEndsAtTheFirstErrorUnlessTold(t *testing.T) {
	t.Parallel()
	const file = "iterations: 100\n%sgenerator: {setup: {node: {name: a}}, requests: {set: {path: /a, data: x}}}\n"
	for _, tt := range []struct{ line, want string }{
		{"", "zookeeper: BadVersion"},
		{"continue_on_error: true\n", ""},
	} {
		s := startFake(t, func(s *fakeServer) {
			s.refuse = func(op jute.Op, _ string, n int) jute.Code {
				if op == jute.OpSetData && n == 50 {
					return jute.ErrBadVersion
				}
				return jute.OK
			}
		})
		f, err := keeperbench.Parse(fmt.Appendf(nil, file, tt.line))
		if err != nil {
			t.Fatal(err)
		}
		w := workload{f}
		o, _, err := parseOptions("workload", "-servers", s.addr)
		if err != nil {
			t.Fatal(err)
		}
		r, err := runTrial(context.Background(), scenario{name: "w", bare: true, run: w.run}, w.adjust(o), nil)
		if tt.want == "" && (err != nil || r.Ops != 100 || r.Errors["BadVersion"] != 1) {
			t.Errorf("%+v, %v", r, err)
		}
		if tt.want != "" && (err == nil || !strings.HasSuffix(err.Error(), tt.want)) {
			t.Errorf("error %v, want %s", err, tt.want)
		}
	}
}

func TestConcurrencyIsShared(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct{ total, parts int }{{20, 3}, {3, 20}, {8, 1}, {7, 7}} {
		sum, least, most := 0, tt.total, 0
		for i := range tt.parts {
			n := share(tt.total, tt.parts, i)
			sum, least, most = sum+n, min(least, n), max(most, n)
		}
		if sum != tt.total || most-least > 1 {
			t.Errorf("%+v: sum %d, from %d to %d", tt, sum, least, most)
		}
	}
}

func TestFlagsOverrideTheFile(t *testing.T) {
	t.Parallel()
	f, err := keeperbench.Read("keeperbench/testdata/reads.yaml")
	if err != nil {
		t.Fatal(err)
	}
	w := workload{f}
	o, _, err := parseOptions("workload")
	if err != nil {
		t.Fatal(err)
	}
	o = w.adjust(o)
	if strings.Join(o.servers, " ") != "localhost:9181 localhost:9181 localhost:9182" || o.conns != 3 || o.ops != 3000 ||
		o.time != time.Minute || o.timeout != 20*time.Second {
		t.Errorf("%+v", o)
	}
	if o, _, err = parseOptions("workload", "-servers", "x:1", "-ops", "5", "-time", "3s"); err != nil {
		t.Fatal(err)
	}
	o = w.adjust(o)
	if strings.Join(o.servers, " ") != "x:1" || o.conns != 3 || o.ops != 5 || o.time != 3*time.Second {
		t.Errorf("%+v", o)
	}
}
