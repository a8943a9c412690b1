package tree

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// BenchmarkSessionEnd is the end of a session with 1,000 ephemerals, near the root and far down.
func BenchmarkSessionEnd(b *testing.B) {
	for _, depth := range []int{1, 980} {
		b.Run(fmt.Sprintf("depth=%d", depth), func(b *testing.B) {
			const many = 1000
			t, _ := grown(b, 0)
			index := t.LastIndex()
			apply := func(qs ...Request) {
				batch := AppendBatchHeader(nil, int64(index))
				for i := range qs {
					batch = AppendRecord(batch, &qs[i])
				}
				index++
				if err := t.Apply(1, index, batch, func(r *Result) {
					if r.Err != jute.OK || len(r.Multi) > 0 && r.Multi[0].Op == jute.OpError {
						b.Fatal(r.Op, r.Err, r.Multi[0].Err)
					}
				}); err != nil {
					b.Fatal(err)
				}
			}
			parent := strings.Repeat("/d", depth)
			for n := 2; n <= len(parent); n += 2 {
				apply(Request{Op: jute.OpCreate, Session: 1, Cnx: 1, Seq: nextSeq(t) + 1,
					Body: (&jute.CreateRequest{Path: parent[:n], ACL: jute.WorldACL(jute.PermAll)}).Append(nil)})
			}
			ops := make([]jute.MultiOp, many)
			for n := range ops {
				ops[n] = plain(fmt.Sprintf("%s/%d", parent, n))
				ops[n].Flags = jute.ModeEphemeral
			}
			multi := jute.AppendMulti(nil, ops)
			for b.Loop() {
				b.StopTimer()
				apply(Request{Op: jute.OpCreateSession, Session: 2, Cnx: 2,
					Body: jute.AppendBuffer(jute.AppendInt(nil, 1000), make([]byte, 16))},
					Request{Op: jute.OpMulti, Session: 2, Cnx: 2, Seq: 1, Body: multi})
				b.StartTimer()
				apply(Request{Op: jute.OpCloseSession, Session: 2, Cnx: 2, Seq: 2})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/many, "ns/ephemeral")
		})
	}
}
