package apachefiles

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"os"
	"path/filepath"
	"reflect"
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
		for _, r := range tail.Records {
			zxid, _ := TxnZxid(r)
			zxids = append(zxids, zxid)
		}
		if !reflect.DeepEqual(zxids, c.want) || tail.Last != 1<<32|2 || tail.Accepted != 5 || tail.Current != 1 ||
			tail.After != c.after {
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
	damaged := logOf(1, 2)
	damaged[40] ^= 1
	if _, err := ReadTail(apacheDir(t, map[string][]byte{"log.1": damaged}), "", 0); !errors.As(err, new(*DamageError)) {
		t.Errorf("a damaged log: %v", err)
	}
	if _, err := ReadTail(t.TempDir(), "", 0); err == nil {
		t.Error("a directory without Apache's files")
	}
}

// TestTailBytes: a tail is found behind what else a program prints, and none is taken that isn't whole.
func TestTailBytes(t *testing.T) {
	t.Parallel()
	tail := &Tail{After: 7, Accepted: 3, Current: 2, Last: 9, Records: [][]byte{[]byte("one"), []byte("two and more")}}
	b := tail.Append([]byte("Stopping zookeeper ... STOPPED\n"))
	got, err := ParseTail(bytes.NewReader(b))
	if err != nil || !reflect.DeepEqual(got, tail) {
		t.Fatalf("%+v, %v", got, err)
	}
	begin := bytes.Index(b, []byte(tailMagic))
	for n := range b {
		if _, err := ParseTail(bytes.NewReader(b[:n])); !errors.Is(err, ErrNoTail) && err == nil {
			t.Fatalf("cut at %d: %v", n, err)
		}
		if n < begin {
			continue
		}
		flipped := bytes.Clone(b)
		flipped[n] ^= 0x40
		if _, err := ParseTail(bytes.NewReader(flipped)); err == nil {
			t.Fatalf("byte %d flipped: it is taken", n)
		}
	}
}

// endless gives zeros for ever.
type endless struct{ read int }

func (e *endless) Read(p []byte) (int, error) {
	clear(p)
	e.read += len(p)
	return len(p), nil
}

// TestTailLimits: a program that prints without end, and a tail of too many transactions.
func TestTailLimits(t *testing.T) {
	t.Parallel()
	var e endless
	if _, err := ParseTail(&e); err == nil || e.read > 2*TailBytesMax {
		t.Errorf("%v after %d bytes", err, e.read)
	}
	b := jute.AppendInt(append([]byte(tailMagic), make([]byte, 32)...), tailRecordsMax+1)
	b = append(b, make([]byte, 4*(tailRecordsMax+1))...)
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	if _, err := ParseTail(bytes.NewReader(b)); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("too many transactions: %v", err)
	}
}
