package server

import (
	"fmt"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestRefusalsAreCounted has an ACL, a multi and two replies refused for their size: each is counted and told in one
// line of the log, what is refused for another reason is not.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	log := &logLines{}
	s := open(t, Options{Log: log.logger(), Serving: Serving{MaxFrame: 4 << 20}})
	eventually(t, "the feature level with the limits is in force",
		func() bool { return s.replica.View().FeatureLevel >= 2 })
	c := connect(t, s.Addrs()[0].String(), 0, nil)
	counts := func() (n [3]int) {
		for i, name := range []string{"acl", "multi", "reply"} {
			n[i] = int(s.metric(name + "_refused"))
		}
		return n
	}
	many := make([]jute.ACL, 300)
	for i := range many {
		many[i] = jute.ACL{Perms: jute.PermRead, ID: jute.ID{Scheme: "digest", ID: fmt.Sprintf("u%d:h", i)}}
	}
	multi := func(n int, op jute.MultiOp) func([]byte) []byte {
		ops := make([]jute.MultiOp, n)
		for i := range ops {
			ops[i] = op
		}
		return func(b []byte) []byte { return jute.AppendMulti(b, ops) }
	}
	withACL := func(acl []jute.ACL) func([]byte) []byte {
		return func(b []byte) []byte { return (&jute.CreateRequest{Path: "/a", ACL: acl}).Append(b) }
	}
	for _, step := range []struct {
		name  string
		op    jute.Op
		body  func([]byte) []byte
		code  jute.Code
		count [3]int
	}{
		{"an ACL without entries", jute.OpCreate, withACL(nil), jute.ErrInvalidACL, [3]int{}},
		{"an ACL of 300", jute.OpCreate, withACL(many), jute.ErrInvalidACL, [3]int{1}},
		{"a multi with an ACL of 300", jute.OpMulti, multi(1, jute.MultiOp{Op: jute.OpCreate, Path: "/a", ACL: many}),
			jute.OK, [3]int{2}},
		{"a malformed multi", jute.OpMulti, func(b []byte) []byte { return append(b, 1) }, jute.ErrMarshallingError,
			[3]int{2}},
		{"a multi of 65,537", jute.OpMulti, multi(65_537, jute.MultiOp{Op: jute.OpCheck, Path: "/", Version: -1}),
			jute.ErrMarshallingError, [3]int{2, 1}},
		{"a value", jute.OpCreate, creating("/v", make([]byte, 4_000_000), 0), jute.OK, [3]int{2, 1}},
		{"a multiRead of 20 MB", jute.OpMultiRead, multi(5, jute.MultiOp{Op: jute.OpGetData, Path: "/v"}),
			jute.ErrMarshallingError, [3]int{2, 1, 1}},
		{"a malformed multiRead", jute.OpMultiRead, func(b []byte) []byte { return append(b, 1) }, jute.ErrMarshallingError,
			[3]int{2, 1, 1}},
	} {
		if h, _ := c.call(step.op, step.body); h.Err != step.code {
			t.Errorf("%s: %v, want %v", step.name, h.Err, step.code)
		}
		if got := counts(); got != step.count {
			t.Errorf("after %s: counts %v, want %v", step.name, got, step.count)
		}
	}
	for text, want := range map[string]int{"limit=acl": 2, "limit=multi": 1, "limit=reply": 1} {
		if n := strings.Count(log.String(), text); n != want {
			t.Errorf("%d lines of the log with %s, want %d", n, text, want)
		}
	}
}
