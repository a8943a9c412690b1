package follow

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"testing"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/jute"
)

// recorded is what a leader sends of 10,000 znodes, each of which is created, and changed four times: 100 bytes of
// data, and Apache's digest with each.
func recorded(b *testing.B) (stream []byte, transactions int) {
	b.Helper()
	state := files.NewLive()
	stream = (&learner.Packet{Type: learner.LeaderHello, Zxid: 1 << 32, Data: jute.AppendInt(nil, 0x10000)}).Append(nil)
	stream = (&learner.Packet{Type: learner.Diff}).Append(stream)
	stream = (&learner.Packet{Type: learner.NewLeader, Zxid: 1 << 32, Data: []byte("server.1=a:1:2")}).Append(stream)
	stream = (&learner.Packet{Type: learner.UpToDate, Zxid: -1}).Append(stream)
	data := bytes.Repeat([]byte("x"), 100)
	const znodes, rounds = 10_000, 5
	for n := range znodes * rounds {
		zxid := int64(1<<32 + n + 1)
		path := fmt.Sprintf("/n%05d", n%znodes)
		op, body := jute.OpSetData, jute.AppendInt(jute.AppendBuffer(jute.AppendString(nil, path), data), int32(n/znodes))
		if n < znodes {
			op = jute.OpCreate2
			body = jute.AppendACLs(jute.AppendBuffer(jute.AppendString(nil, path), data), jute.WorldACL(jute.PermAll))
			body = jute.AppendInt(jute.AppendBool(body, false), int32(n+1))
		}
		record := jute.AppendInt(jute.AppendLong(nil, 1), 1)
		record = jute.AppendInt(jute.AppendLong(jute.AppendLong(record, zxid), 5), int32(op))
		record = append(record, body...)
		if _, err := state.Apply(record); err != nil {
			b.Fatal(err)
		}
		record = binary.BigEndian.AppendUint64(jute.AppendInt(record, files.DigestVersion), state.Digest())
		stream = (&learner.Packet{Type: learner.Inform, Zxid: zxid, Data: record}).Append(stream)
	}
	return stream, znodes * rounds
}

// replayed is a connection on which a leader has sent everything already.
type replayed struct{ io.Reader }

// Write drops.
func (replayed) Write(p []byte) (int, error) { return len(p), nil }

// BenchmarkFollow is how many of a leader's transactions a follower takes: read, logged, applied, and their digests
// compared.
func BenchmarkFollow(b *testing.B) {
	stream, transactions := recorded(b)
	b.ResetTimer()
	for range b.N {
		b.StopTimer()
		f, err := Open(Options{Dir: b.TempDir(), ID: 200, Say: func(string) {}})
		if err != nil {
			b.Fatal(err)
		}
		s := &session{f: f, conn: replayed{bytes.NewReader(stream)}}
		b.StartTimer()
		if err := s.run(); !errors.Is(err, io.EOF) {
			b.Fatal(err)
		}
		if err := f.keep.close(); err != nil {
			b.Fatal(err)
		}
		if at := f.Status(); at.Compared != int64(transactions) || at.Mismatch != nil {
			b.Fatalf("%+v", at)
		}
	}
	b.ReportMetric(float64(transactions*b.N)/b.Elapsed().Seconds(), "txn/s")
}
