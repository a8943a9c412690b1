package server

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/lograte"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/jute"
)

// TestSlowRequests: a request that takes longer than log.slowRequestMs leaves a line with its stages; no more lines are
// written than their limit allows.
func TestSlowRequests(t *testing.T) {
	t.Parallel()
	for limit, want := range map[time.Duration]bool{time.Nanosecond: true, time.Hour: false, 0: false} {
		var out syncBuffer
		began := time.Now()
		s := open(t, Options{Serving: Serving{SlowRequest: limit}, Log: slog.New(slog.NewTextHandler(&out, nil))})
		c := connect(t, s.Addrs()[0].String(), 0, nil)
		c.call(jute.OpCreate, creating("/a\n"+strings.Repeat("x", 1000), nil, jute.ModePersistent))
		var many []byte
		for range 1000 {
			many = c.request(many, jute.OpSetData, setting("/", nil))
		}
		if _, err := c.conn.Write(many); err != nil {
			t.Fatal(err)
		}
		for range 1000 {
			c.reply()
		}
		const large = 128 // with a megabyte of answers each, more than the sockets hold
		c.call(jute.OpSetData, setting("/", make([]byte, 1<<20-1000)))
		many = nil
		for range large {
			many = c.request(many, jute.OpGetData, reading("/", false))
		}
		if _, err := c.conn.Write(many); err != nil {
			t.Fatal(err)
		}
		for range large {
			c.reply()
		}
		s.Close()
		text := out.String()
		n := strings.Count(text, "a request was slow")
		most := lograte.Burst + lograte.LinesPerSecond*(1+int(time.Since(began).Seconds()))
		if (n > 0) != want || n > most {
			t.Errorf("with a limit of %v there are %d lines, at most %d are allowed", limit, n, most)
		}
		for line, part := range map[string]string{
			"a client's requests were accepted slowly": "decodeMs=", "a client was slow to read its answers": "sendMs=",
		} {
			if _, rest, found := strings.Cut(text, line); found != want || found && !strings.Contains(rest, part) {
				t.Errorf("with a limit of %v there is a line %q: %t", limit, line, found)
			}
		}
		if first, _, _ := strings.Cut(text[max(0, strings.Index(text, "a request was slow")):], "\n"); want {
			for _, part := range []string{
				"session=0x", "op=create", `path="/a\nx`, " ms=", "queueMs=", "quorumMs=", "applyMs=", "lastFsyncMs=",
			} {
				if !strings.Contains(first, part) {
					t.Errorf("no %s in %s", part, first)
				}
			}
			if len(first) > 600 {
				t.Errorf("a line of %d bytes: %s", len(first), first)
			}
		}
	}
}

// samples returns what Zooid's own histograms and counters have counted, by name and value of the label.
func (s *Server) samples() map[string]float64 {
	all := map[string]float64{}
	s.Metrics().Samples(func(m *metrics.Sample) {
		if m.Kind == metrics.KindHistogram {
			all[m.Name+" "+m.Value] = float64(m.Count)
		} else {
			all[m.Name+" "+m.Value] = m.Number
		}
	})
	return all
}

// TestStagesAreMeasured: each stage of requests, the delivery of events, and the ends of sessions are counted.
func TestStagesAreMeasured(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	addr := s.Addrs()[0].String()
	c, other := connect(t, addr, 0, nil), connect(t, addr, 0, nil)
	other.call(jute.OpExists, reading("/a", true))
	c.call(jute.OpCreate, creating("/a", nil, jute.ModePersistent))
	if h, _ := other.reply(); h.Xid != jute.XidNotification {
		t.Errorf("%+v came instead of an event", h)
	}
	for range 2 * sendEvery {
		c.call(jute.OpSetData, setting("/a", nil))
	}
	moved := connect(t, addr, other.session, other.passwd)
	knock(t, addr, moved.session, bytes.Repeat([]byte{1}, jute.PasswdSize)) // refused
	moved.call(jute.OpCloseSession, func(b []byte) []byte { return b })
	c.conn.Close()
	want := []string{"zooid_watch_delivery_seconds "}
	for _, stage := range []string{"decode", "queue", "log", "quorum", "apply", "send"} {
		want = append(want, "zooid_request_stage_seconds "+stage)
	}
	for _, how := range []string{"closed", "moved", "refused"} {
		want = append(want, "zooid_sessions_ended_total "+how)
	}
	for _, name := range want {
		eventually(t, name+" is counted", func() bool { return s.samples()[name] > 0 })
	}
	if got := s.samples(); got["zooid_sessions_ended_total closed"] != 1 || got["zooid_sessions_ended_total moved"] != 1 ||
		got["zooid_sessions_ended_total refused"] != 1 {
		t.Errorf("%v", got)
	}
}
