package audit

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"
)

var at = time.Date(2026, 1, 2, 3, 4, 5, 6e6, time.UTC)

// TestLines: lines are those of Apache; JSON keeps users apart.
func TestLines(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		entry      Entry
		text, json string
	}{
		{
			Entry{
				Session: -0x7f00000000000000, Users: []string{"127.0.0.1", "al,ice"}, IP: "127.0.0.1", Operation: SetACL,
				Znode: "/a b\\", ACL: "world:anyone:cdrwa", Result: Failure,
			},
			"2026-01-02 03:04:05,006 ERROR o.a.z.a.Slf4jAuditLogger: session=0x8100000000000000\tuser=127.0.0.1,al,ice\tip=127.0.0.1\toperation=setAcl\tznode=/a b\\\tacl=world:anyone:cdrwa\tresult=failure\n",
			`{"time":"2026-01-02T03:04:05.006Z","level":"ERROR","session":"0x8100000000000000","user":["127.0.0.1","al,ice"],"ip":"127.0.0.1","operation":"setAcl","znode":"/a b\\","acl":"world:anyone:cdrwa","result":"failure"}` + "\n",
		},
		{
			Entry{Users: []string{"root"}, Operation: ServerStart, Result: Success},
			"2026-01-02 03:04:05,006 INFO o.a.z.a.Slf4jAuditLogger: user=root\toperation=serverStart\tresult=success\n",
			`{"time":"2026-01-02T03:04:05.006Z","level":"INFO","user":["root"],"operation":"serverStart","result":"success"}` + "\n",
		},
		{
			Entry{Operation: SetData, Znode: "/a", Result: Success, Before: "00", After: "11"},
			"2026-01-02 03:04:05,006 INFO o.a.z.a.Slf4jAuditLogger: operation=setData\tznode=/a\tresult=success\tbefore=00\tafter=11\n",
			`{"time":"2026-01-02T03:04:05.006Z","level":"INFO","operation":"setData","znode":"/a","result":"success","before":"00","after":"11"}` + "\n",
		},
	} {
		if got := string(c.entry.appendText(nil, at)); got != c.text {
			t.Errorf("got  %q\nwant %q", got, c.text)
		}
		if got := string(c.entry.appendJSON(nil, at)); got != c.json {
			t.Errorf("got  %s\nwant %s", got, c.json)
		}
	}
}

// TestClaimedNames: a name that only the client claims looks different from a confirmed one.
func TestClaimedNames(t *testing.T) {
	t.Parallel()
	e := Entry{
		Users: []string{"127.0.0.1", "CN=a,O=b"}, Claimed: []string{"admin", "admin,root", "x?"}, Operation: Delete,
		Result: Success,
	}
	text, json := string(e.appendText(nil, at)), string(e.appendJSON(nil, at))
	if want := `user=127.0.0.1,CN=a,O=b,admin?,admin\u002croot?,x??` + "\t"; !strings.Contains(text, want) {
		t.Errorf("no %q in %q", want, text)
	}
	if want := `"user":["127.0.0.1","CN=a,O=b"],"claimed":["admin","admin,root","x?"]`; !strings.Contains(json, want) {
		t.Errorf("no %q in %q", want, json)
	}
}

// TestFailuresLeaveRoom: a client with many failed requests doesn't push other lines out of the files, whether from one
// address or from many. Omitted lines are counted.
func TestFailuresLeaveRoom(t *testing.T) {
	t.Parallel()
	for _, addresses := range []int{1, 1000, 3 * sourcesMax} {
		path := filepath.Join(t.TempDir(), "audit.log")
		l, err := Open(Options{
			File: path, FileBytes: 256 << 10, FilesKept: 3, Log: slog.New(slog.DiscardHandler), Stderr: io.Discard,
		})
		if err != nil {
			t.Fatal(err)
		}
		l.Write(&Entry{IP: "10.0.0.9", Source: "10.0.0.9", Operation: Delete, Znode: "/evidence", Result: Success})
		l.Write(&Entry{IP: "10.0.0.9", Source: "10.0.0.9", Operation: Delete, Znode: "/tried", Result: Failure})
		for i := range 30_000 {
			from := fmt.Sprintf("10.1.%d.%d", i%addresses/256, i%addresses%256)
			l.Write(&Entry{IP: from, Source: from, Operation: Create, Znode: "/" + strings.Repeat("x", 100), Result: Failure})
		}
		l.Write(&Entry{IP: "10.0.0.9", Source: "10.0.0.9", Operation: SetData, Znode: "/after", Result: Success})
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
		var all []byte
		files, _ := filepath.Glob(path + "*")
		for _, file := range files {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, b...)
		}
		for _, want := range []string{"znode=/evidence\t", "znode=/tried\t", "znode=/after\t", "operation=" + LeftOut} {
			if !bytes.Contains(all, []byte(want)) {
				t.Errorf("%d addresses: no %q in %d files of %d bytes", addresses, want, len(files), len(all))
			}
		}
		lines := bytes.Count(all, newline)
		written, lost, leftOut := l.Counts()
		if int64(lines) != written || lost != 0 || leftOut < 20_000 || leftOut > 30_000-50 {
			t.Errorf("%d addresses: %d lines, %d written, %d lost, %d left out", addresses, lines, written, lost, leftOut)
		}
	}
}

// TestFailuresComeBack: the room for failures comes back over time, and the counts are written once a minute at most.
func TestFailuresComeBack(t *testing.T) {
	t.Parallel()
	f := newFailures(64 << 20) // one source: 1 MiB
	now := time.Unix(1e9, 0)
	fill := func() (n int) {
		for f.take("10.0.0.1", 1000, now) {
			n++
		}
		return n
	}
	if n := fill(); n != 1<<20/1000 {
		t.Errorf("at first %d lines are written", n)
	}
	if e := f.counts(now, false); e == nil || e.IP != "10.0.0.1" {
		t.Errorf("the counts: %+v", e)
	}
	now = now.Add(sourceRefill / 2)
	if n := fill(); n < 1<<20/1000/2-2 || n > 1<<20/1000/2+2 {
		t.Errorf("half an hour later %d lines are written", n)
	}
	if e := f.counts(now, false); e == nil {
		t.Error("no counts after half an hour")
	}
	fill()
	if e := f.counts(now.Add(leftOutInterval-1), false); e != nil {
		t.Errorf("counts again within a minute: %+v", e)
	}
}

// TestForgedLines: no path and no user ends a field or a line, or steers a terminal.
func TestForgedLines(t *testing.T) {
	t.Parallel()
	evil := "/a\n2026-01-02 ERROR\tresult=success\r\x1b[2J\u0085\u2028\u202e\xff\x00ü"
	e := Entry{
		Session: 1, Users: []string{evil}, IP: evil, Operation: Create, Znode: evil, ACL: evil, Result: Failure, Scheme: evil,
		Error: evil,
	}
	text := string(e.appendText(nil, at))
	if strings.Count(text, "\n") != 1 || strings.Count(text, "\t") != 8 {
		t.Errorf("%q", text)
	}
	for _, bad := range []string{"\r", "\x1b", "\u0085", "\u2028", "\u202e", "\xff", "\x00"} {
		if strings.Contains(text, bad) {
			t.Errorf("%q is in %q", bad, text)
		}
	}
	if want := `znode=/a\n2026-01-02 ERROR\tresult=success\r\u001b[2J\u0085\u2028\u202e\xff\u0000ü` +
		"\t"; !strings.Contains(text, want) {
		t.Errorf("no %q in %q", want, text)
	}
	line := e.appendJSON(nil, at)
	var back map[string]any
	if err := json.Unmarshal(line, &back); err != nil || bytes.Count(line, newline) != 1 ||
		!strings.HasPrefix(back["znode"].(string), "/a\n2026") {
		t.Errorf("%v: %s", err, line)
	}
}

// TestLongValues: of a long value the beginning is kept.
func TestLongValues(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("ü", valueBytesMax)
	e := Entry{Users: []string{"bob", long}, Operation: Create, Znode: "/" + long, ACL: long, Result: Failure}
	text := string(e.appendText(nil, at))
	if len(text) > 4*valueBytesMax || !strings.Contains(text, fmt.Sprintf("…(%d bytes more)\tacl=", valueBytesMax+2)) {
		t.Errorf("%d bytes: %.100q", len(text), text)
	}
	line := e.appendJSON(nil, at)
	var back jsonEntry
	if err := json.Unmarshal(line, &back); err != nil || len(line) > 4*valueBytesMax || back.Cut < 4*valueBytesMax ||
		len(back.User) != 1 {
		t.Errorf("%v: %d bytes, %d cut, %d users", err, len(line), back.Cut, len(back.User))
	}
}

// TestRotation: a full file is renamed between two lines, and the oldest one removed.
func TestRotation(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "audit.log")
	f := &file{path: path, most: 100, keep: 2}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	var all []byte
	for i := range 20 {
		all = append(all, fmt.Sprintf("%029d\n", i)...)
	}
	long := strings.Repeat("x", 150) + "\n"
	all = append(all, long...)
	for _, part := range [][]byte{all[:30], all[30:300], all[300:]} {
		if n, err := f.write(part); err != nil || n != len(part) {
			t.Fatal(n, err)
		}
	}
	if err := f.close(); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"audit.log": long, "audit.log.1": string(all[540:600]), "audit.log.2": string(all[450:540]),
	} {
		if got, err := os.ReadFile(filepath.Join(dir, name)); err != nil || string(got) != want {
			t.Errorf("%s: %v: %q", name, err, got)
		}
	}
	if names, err := os.ReadDir(dir); err != nil || len(names) != 3 {
		t.Errorf("%d files, %v", len(names), err)
	}
	if st, err := os.Stat(path); err != nil || st.Mode().Perm() != fileMode {
		t.Errorf("%v, %v", st.Mode(), err)
	}
}

// TestHalfLine: a line that a crash cut short is ended before the next one.
func TestHalfLine(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "audit.log")
	if err := os.WriteFile(path, []byte("whole\nhal"), 0o600); err != nil {
		t.Fatal(err)
	}
	f := &file{path: path, most: 100}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	if _, err := f.write([]byte("next\n")); err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != "whole\nhal\nnext\n" {
		t.Errorf("%v: %q", err, got)
	}
}

// TestFullDisk: lines that can't be written are counted and reported once, and callers continue.
func TestFullDisk(t *testing.T) {
	t.Parallel()
	if _, err := os.Stat("/dev/full"); err != nil {
		t.Skip("there is no /dev/full")
	}
	var told syncBuffer
	l, err := Open(Options{
		File: "/dev/full", FileBytes: 1 << 20, FilesKept: 1, Log: slog.New(slog.NewTextHandler(&told, nil)),
	})
	if err != nil {
		t.Fatal(err)
	}
	for range 100 {
		l.Write(&Entry{Operation: Create, Result: Success})
	}
	l.Close()
	if written, lost, _ := l.Counts(); written != 0 || lost != 100 {
		t.Errorf("%d written, %d lost", written, lost)
	}
	if text := told.String(); strings.Count(text, "ZD-2040") != 1 || !strings.Contains(text, "no space left") {
		t.Errorf("%q", text)
	}
}

// TestSlowDisk: while nothing is written, no more than queueBytesMax waits; nobody waits for the disk.
func TestSlowDisk(t *testing.T) {
	t.Parallel()
	r, w := io.Pipe()
	l, err := Open(Options{Stderr: w, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	const lines, first = 6000, 100
	e := Entry{Operation: Create, Znode: strings.Repeat("x", valueBytesMax), Result: Success}
	for range first {
		l.Write(&e)
	}
	for taken := false; !taken; time.Sleep(time.Millisecond) { // until they are being written
		l.mu.Lock()
		taken = len(l.waiting) == 0
		l.mu.Unlock()
	}
	if n := l.Memory(); n < first*valueBytesMax {
		t.Errorf("%d lines that are being written take %d bytes", first, n)
	}
	for range lines - first {
		l.Write(&e)
	}
	_, lost, _ := l.Counts()
	if lost == 0 {
		t.Errorf("%d lines of %d bytes wait", lines, len(e.Znode))
	}
	got := make(chan int)
	go func() {
		all, _ := io.ReadAll(r)
		got <- bytes.Count(all, newline)
	}()
	l.Close()
	w.Close()
	written, lost, _ := l.Counts()
	if n := <-got; int64(n) != written || written+lost != lines {
		t.Errorf("%d lines came, %d written, %d lost", n, written, lost)
	}
}

// TestOpenFails: a file that can't be opened is an error, and no log without one.
func TestOpenFails(t *testing.T) {
	t.Parallel()
	if _, err := Open(Options{File: filepath.Join(t.TempDir(), "no", "audit.log")}); err == nil {
		t.Error("a directory that doesn't exist was taken")
	}
}

// syncBuffer is a bytes.Buffer for several goroutines.
type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

// BenchmarkWrite is what a write to a znode pays while it is applied.
func BenchmarkWrite(b *testing.B) {
	l, err := Open(Options{
		File: filepath.Join(b.TempDir(), "audit.log"), FileBytes: 10 << 20, FilesKept: 2, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		b.Fatal(err)
	}
	e := Entry{
		Session: 0x100001a31940002, Users: []string{"127.0.0.1", "bob"}, IP: "127.0.0.1", Operation: SetData,
		Znode: "/service/0000000017", Result: Success,
	}
	for b.Loop() {
		l.Write(&e)
	}
	l.Close()
}
