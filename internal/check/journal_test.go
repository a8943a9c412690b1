package check

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

func goodHistory() *History {
	e := newEnsemble(5, 4)
	h := e.run(300)
	e.dump()
	h.Servers = []ServerLog{{Server: 2, Entries: e.log}}
	return h
}

func written(t testing.TB, h *History) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := h.Write(&b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// normal makes empty bodies nil: the file doesn't tell them apart.
func normal(h *History) *History {
	for i := range h.Events {
		if len(h.Events[i].Body) == 0 {
			h.Events[i].Body = nil
		}
		if h.Events[i].Kind == KindNotification {
			h.Events[i].Xid = 0
		}
	}
	for s := range h.Servers {
		for i := range h.Servers[s].Entries {
			if e := &h.Servers[s].Entries[i]; len(e.Body) == 0 {
				e.Body = nil
			}
		}
	}
	return h
}

func TestHistoryFileKeepsEverything(t *testing.T) {
	want := goodHistory()
	got, err := Parse(written(t, want))
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(normal(want), normal(got)) {
		t.Error("what was read is not what was written")
	}
}

func TestHistoryCutAnywhere(t *testing.T) {
	whole := written(t, goodHistory())
	for n := headerSize; n < 4000; n += 7 {
		h, err := Parse(whole[:n])
		if err != nil && !errors.Is(err, ErrCutShort) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		if h == nil {
			t.Fatalf("%d bytes: what came before the cut is lost", n)
		}
	}
	if _, err := Parse(whole[:headerSize-1]); err == nil {
		t.Error("half a header passed for a history")
	}
}

func TestJournalTakesManyClients(t *testing.T) {
	var b bytes.Buffer
	j := NewJournal(&b)
	var wg sync.WaitGroup
	for range 8 {
		wg.Add(1)
		go func() {
			defer wg.Done()
			conn := j.NewConn()
			for i := range 200 {
				j.Record(Event{Kind: KindRequest, Conn: conn, Xid: int32(i), Body: []byte{byte(i)}})
			}
		}()
	}
	wg.Wait()
	if err := j.Flush(); err != nil {
		t.Fatal(err)
	}
	h, err := Read(&b)
	if err != nil {
		t.Fatal(err)
	}
	next := map[int32]int32{}
	last := int64(0)
	for _, e := range h.Events {
		if e.Time < last || e.Xid != next[e.Conn] || e.Body[0] != byte(e.Xid) {
			t.Fatalf("event %+v after time %d, connection's next xid %d", e, last, next[e.Conn])
		}
		last = e.Time
		next[e.Conn]++
	}
	if len(h.Events) != 1600 {
		t.Errorf("%d events of 1600", len(h.Events))
	}
}

func TestMergeRenumbersConnections(t *testing.T) {
	a := &History{WallStart: 1000, Events: []Event{{Time: 5, Kind: KindDisconnect}, {Time: 9, Kind: KindDisconnect, Conn: 1}}}
	b := &History{WallStart: 1002, Events: []Event{{Time: 4, Kind: KindDisconnect}}}
	m := Merge(a, b)
	var got []Event
	got = append(got, m.Events...)
	want := []Event{{Time: 5, Kind: KindDisconnect}, {Time: 6, Kind: KindDisconnect, Conn: 2}, {Time: 9, Kind: KindDisconnect, Conn: 1}}
	if !reflect.DeepEqual(got, want) {
		t.Errorf("got %+v", got)
	}
}

// FuzzCheck feeds any bytes through the reader and the checker: a damaged file
// is an error or a violation, never a crash.
func FuzzCheck(f *testing.F) {
	whole := written(f, goodHistory())
	f.Add(whole)
	f.Add(whole[:len(whole)/2])
	f.Fuzz(func(t *testing.T, b []byte) {
		h, _ := Parse(b)
		if h != nil && len(h.Events) < 5000 {
			Check(h, Options{ViolationsMax: 10})
			h.Servers = nil
			Check(h, Apache("3.8.0"))
		}
	})
}

func TestCheckCommand(t *testing.T) {
	dir := t.TempDir()
	file := func(name string, b []byte) string {
		p := filepath.Join(dir, name)
		if err := os.WriteFile(p, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return p
	}
	good := goodHistory()
	whole := written(t, good)
	bad := goodHistory()
	for i := range bad.Events {
		if e := &bad.Events[i]; e.Kind == KindReply && i > 200 {
			e.Xid += 1000
			break
		}
	}
	reader := &scribe{} // a session that never wrote ends without a zxid
	local := &reader.h
	reader.session(0, 1).answer(0, reader.ask(0, jute.OpCloseSession, nil), 0, jute.OK, nil)
	for _, c := range []struct {
		name string
		args []string
		code int
		says string
	}{
		{"good", []string{"-ttl", file("good", whole)}, exitOK, "no violation"},
		{"cut", []string{"-ttl", file("cut", written(t, &History{Events: good.Events})[:2000])}, exitOK, "cut short"},
		{"bad", []string{"-ttl", file("bad", written(t, bad))}, exitViolated, "X6: a reply to xid"},
		{"local", []string{"-local-sessions", file("local", written(t, local))}, exitOK, "no violation"},
		{"local and upgrading", []string{"-local-sessions-upgrading", file("local", written(t, local))}, exitOK, "no violation"},
		{"not local", []string{file("local", written(t, local))}, exitViolated, "X2: "},
		{"no file", []string{filepath.Join(dir, "none")}, exitUsage, "no such file"},
		{"not a history", []string{file("text", []byte("hello"))}, exitUsage, "not a history"},
		{"nothing", nil, exitUsage, "usage:"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out bytes.Buffer
			if code := Main(c.args, &out, &out); code != c.code || !strings.Contains(out.String(), c.says) {
				t.Errorf("exit code %d, want %d and %q in: %s", code, c.code, c.says, out.String())
			}
		})
	}
}

var (
	benchRequests = flag.Int("check.requests", 200_000, "how many requests BenchmarkCheck's histories have")
	keepFolder    = flag.String("check.keep", "", "the `folder` to leave BenchmarkCheck's histories in, for zooid check -ttl")
)

// BenchmarkCheck checks calm histories: of reads mostly, and of as many writes,
// the latter also with a server's log.
func BenchmarkCheck(b *testing.B) {
	for _, kind := range []struct {
		name              string
		mostlyReads, logs bool
	}{
		{name: "nine in ten reads", mostlyReads: true},
		{name: "half writes"},
		{name: "half writes and a log", logs: true},
	} {
		b.Run(kind.name, func(b *testing.B) {
			e := newEnsemble(1, 16)
			e.crashes, e.mostlyReads = false, kind.mostlyReads
			for _, c := range e.clients {
				c.mix.Wide = 20
			}
			h := e.run(*benchRequests)
			if kind.logs {
				h.Servers = []ServerLog{{Server: 1, Entries: e.log}}
			}
			file := written(b, h)
			if *keepFolder != "" {
				if err := os.WriteFile(filepath.Join(*keepFolder, strings.ReplaceAll(kind.name, " ", "-")), file, 0o600); err != nil {
					b.Fatal(err)
				}
			}
			h, err := Parse(file)
			if err != nil {
				b.Fatal(err)
			}
			e = nil // its znodes are as many as the checker's own
			requests := 0
			b.ReportAllocs()
			for b.Loop() {
				r := Check(h, Options{ExtendedTypes: true})
				if !r.OK() {
					b.Fatal(r.Rules())
				}
				requests += r.Requests
			}
			b.ReportMetric(float64(requests)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

func TestProgressTellsRate(t *testing.T) {
	var out bytes.Buffer
	p := newProgress(&out)
	p.reading("a file")
	p.checking(1, 2)
	p.end()
	if out.Len() > 0 {
		t.Errorf("what is no terminal was told %q", out.String())
	}
	p.w = &out
	h := goodHistory()
	Check(h, Options{ExtendedTypes: true, Progress: p.checking})
	if got := out.String(); !strings.HasPrefix(got, "\r\x1b[Kchecking: ") || !strings.HasSuffix(got, "/s") {
		t.Errorf("a terminal was told %q", got)
	}
}
