package files

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"runtime"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// logOf returns a log with the transactions of these zxids, and zeros behind them.
func logOf(zxids ...int64) []byte {
	l := newLog()
	for _, zxid := range zxids {
		l.add(jute.OpCreate, 1, zxid, createBody("/a", "x", false, 1), 0)
	}
	return append(l.b, make([]byte, 100)...)
}

// TestReadTail: what the logs of a stopped server have behind a zxid, and how far they go.
func TestReadTail(t *testing.T) {
	t.Parallel()
	dir := apacheDir(t, map[string][]byte{"log.1": logOf(1, 2, 3), "log.4": logOf(4, 1<<32|1, 1<<32|2)})
	if err := WriteEpochs(dir, 5, 1); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after int64
		want  []int64
	}{
		{0, []int64{1, 2, 3, 4, 1<<32 | 1, 1<<32 | 2}}, {2, []int64{3, 4, 1<<32 | 1, 1<<32 | 2}},
		{4, []int64{1<<32 | 1, 1<<32 | 2}}, {1<<32 | 2, nil}, {1<<32 | 9, nil},
	} {
		tail, err := ReadTail(dir, "", c.after)
		if err != nil {
			t.Fatal(err)
		}
		var zxids []int64
		for range 2 { // it can be read again
			zxids = nil
			if err := tail.Each(func(r []byte) error {
				zxid, err := TxnZxid(r)
				zxids = append(zxids, zxid)
				return err
			}); err != nil {
				t.Fatal(err)
			}
		}
		if has, err := tail.Has(1<<32 | 2); err != nil || has != (c.after < 1<<32|2) {
			t.Errorf("behind %#x: has the last one: %v, %v", c.after, has, err)
		}
		if !reflect.DeepEqual(zxids, c.want) || int(tail.Count) != len(c.want) || tail.Last != 1<<32|2 ||
			tail.Accepted != 5 || tail.Current != 1 || tail.After != c.after {
			t.Errorf("behind %#x: %x, %+v", c.after, zxids, tail)
		}
	}
	// A server that was sent a snapshot and has no log of what is in it.
	name := filepath.Join(dir, Version2, "snapshot.100000007")
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := ReadTail(dir, "", 4); err == nil || !strings.Contains(err.Error(), "came as a snapshot") {
		t.Errorf("the log ends before the snapshot: %v", err)
	}
	if tail, err := ReadTail(dir, "", 1<<32|7); err != nil || tail.Last != 1<<32|7 {
		t.Errorf("the copy has what the snapshot has: %+v, %v", tail, err)
	}
}

// TestTailDamage: a log that is damaged, and one that is written to between two readings.
func TestTailDamage(t *testing.T) {
	t.Parallel()
	damaged := logOf(1, 2)
	damaged[40] ^= 1
	if _, err := ReadTail(apacheDir(t, map[string][]byte{"log.1": damaged}), "", 0); !errors.As(err, new(*DamageError)) {
		t.Errorf("a damaged log: %v", err)
	}
	if _, err := ReadTail(t.TempDir(), "", 0); err == nil {
		t.Error("a directory without Apache's files")
	}
	dir := apacheDir(t, map[string][]byte{"log.1": logOf(1, 2)})
	tail, err := ReadTail(dir, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	refused := errors.New("refused")
	err = tail.Each(func([]byte) error { return refused })
	if !errors.Is(err, refused) || errors.As(err, new(*DamageError)) {
		t.Errorf("what reads it has failed: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, Version2, "log.1"), logOf(1, 2, 3), 0o600); err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	if err := tail.Write(&b); err == nil || !strings.Contains(err.Error(), "the server still runs") {
		t.Errorf("a log that grows: %v", err)
	}
	if _, _, err := OpenTail(fileOf(t, b.Bytes())); !errors.Is(err, ErrNoTail) {
		t.Errorf("what was printed of it: %v", err)
	}
}

// fileOf returns a file of these bytes.
func fileOf(t testing.TB, b []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tail")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// encoded returns a tail as it is printed, behind a preface.
func encoded(t testing.TB, preface string, tail *Tail) []byte {
	t.Helper()
	b := bytes.NewBufferString(preface)
	if err := tail.Write(b); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

// TestTailBytes: a tail is found behind what else a program prints, and none is taken that isn't whole.
func TestTailBytes(t *testing.T) {
	t.Parallel()
	const preface = "Stopping zookeeper ... STOPPED\n"
	want := [][]byte{[]byte("one"), []byte("two and more")}
	b := encoded(t, preface, TailOf(Tail{After: 7, Accepted: 3, Current: 2, Last: 9}, want...))
	path := fileOf(t, append(bytes.Clone(b), "bye\n"...))
	tail, before, err := OpenTail(path)
	if err != nil || string(before) != preface {
		t.Fatalf("%q, %v", before, err)
	}
	var got [][]byte
	err = tail.Each(func(r []byte) error { got = append(got, bytes.Clone(r)); return nil })
	if err != nil || !reflect.DeepEqual(got, want) || tail.Count != 2 || tail.After != 7 || tail.Accepted != 3 ||
		tail.Current != 2 || tail.Last != 9 {
		t.Fatalf("%q, %+v, %v", got, tail, err)
	}
	begin := len(preface)
	for n := range b {
		if _, _, err := OpenTail(fileOf(t, b[:n])); !errors.Is(err, ErrNoTail) {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if n < begin {
			continue
		}
		flipped := bytes.Clone(b)
		flipped[n] ^= 0x40
		if _, _, err := OpenTail(fileOf(t, flipped)); err == nil {
			t.Fatalf("byte %d flipped: it is taken", n)
		}
	}
	if err := os.WriteFile(path, b[:len(b)-1], 0o600); err != nil {
		t.Fatal(err)
	}
	if err := tail.Each(func([]byte) error { return nil }); err == nil ||
		!strings.Contains(err.Error(), "changed while it was being read") {
		t.Errorf("the file was changed since: %v", err)
	}
}

// TestTailLimits: a program that prints without end, and a tail that is larger than permitted, as it is read from a
// server's log and from what was printed.
func TestTailLimits(t *testing.T) {
	t.Parallel()
	preface := make([]byte, TailPrefaceMax)
	b := encoded(t, "", TailOf(Tail{}, []byte("one")))
	if _, before, err := OpenTail(fileOf(t, append(preface, b...))); err != nil || len(before) != TailPrefaceMax {
		t.Errorf("%d bytes before it: %v", len(preface), err)
	}
	preface = append(preface, 0)
	if _, _, err := OpenTail(fileOf(t, append(preface, b...))); err == nil || errors.Is(err, ErrNoTail) {
		t.Errorf("%d bytes before it: %v", len(preface), err)
	}
	tail := TailOf(Tail{}, make([]byte, 100), make([]byte, 200))
	b = encoded(t, "", tail)
	if _, err := parseTail(bytes.NewReader(b), 308, nil); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := parseTail(bytes.NewReader(b), 307, nil); err == nil || !strings.Contains(err.Error(), "start over") {
		t.Errorf("over the limit: %v", err)
	}
	dir := apacheDir(t, map[string][]byte{"log.1": logOf(1, 2)})
	found, err := readLogs([]numbered{{path: filepath.Join(dir, Version2, "log.1")}}, 0, nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := readTail(dir, "", 0, found.bytes); err != nil {
		t.Errorf("at the limit: %v", err)
	}
	if _, err := readTail(dir, "", 0, found.bytes-1); err == nil || errors.As(err, new(*DamageError)) ||
		!strings.Contains(err.Error(), "start over") {
		t.Errorf("over the limit: %v", err)
	}
}

// TestTailStreams: a tail of 48 MB goes from a server's logs through a file without being in memory.
func TestTailStreams(t *testing.T) { // not parallel: it measures
	const txns, data = 96, 512 << 10
	var logs [2]*logBuilder
	payload := strings.Repeat("x", data)
	for i := range logs {
		logs[i] = newLog()
	}
	for n := range txns {
		logs[n*2/txns].add(jute.OpCreate, 1, int64(n+1), createBody(fmt.Sprintf("/%d", n), payload, false, 1), 0)
	}
	dir := apacheDir(t, map[string][]byte{"log.1": logs[0].b, fmt.Sprintf("log.%x", txns/2+1): logs[1].b})
	path := filepath.Join(t.TempDir(), "tail")
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	tail, err := ReadTail(dir, "", 0)
	if err != nil {
		t.Fatal(err)
	}
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(tail.Write(file), file.Close()); err != nil {
		t.Fatal(err)
	}
	read, _, err := OpenTail(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := 0
	if err := read.Each(func(r []byte) error { seen += len(r); return nil }); err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if allocated := after.TotalAlloc - before.TotalAlloc; seen < txns*data || allocated > 36<<20 {
		t.Errorf("%d of %d bytes, %d allocated on the way", seen, txns*data, allocated)
	}
}
