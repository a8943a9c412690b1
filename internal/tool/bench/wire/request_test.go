package wire

import (
	"testing"

	"github.com/zooid-project/zooid/jute"
)

func TestNumberedRequestsAreWholeRequests(t *testing.T) {
	t.Parallel()
	n := NewNumbered("/a/b-", func(p string) []byte { return CreateFrame(p, []byte("xyz")) })
	for _, i := range []uint64{0, 7, 1234567890, 9999999999} {
		b := n.Append([]byte("before"), i)[len("before"):]
		want := CreateFrame(NumberedPath("/a/b-", int(i)), []byte("xyz"))
		if string(b) != string(want) {
			t.Errorf("%d: %q, want %q", i, b, want)
		}
	}
}

// TestMultiErrorSurvivesAnything: the body comes from a server, which may be a
// broken one.
func TestMultiErrorSurvivesAnything(t *testing.T) {
	t.Parallel()
	ok := []jute.MultiResult{{Op: jute.OpCreate, Path: "/a"}, {Op: jute.OpSetData}, {Op: jute.OpDelete},
		{Op: jute.OpGetData, Data: []byte("x")},
		{Op: jute.OpGetChildren, Children: []string{"a", "b"}}, {Op: jute.OpCreate2, Path: "/b"},
		{Op: jute.OpError, Err: jute.OK}}
	var body []byte
	for i := range ok {
		body = ok[i].Append(body)
	}
	bad := jute.MultiResult{Op: jute.OpError, Err: jute.ErrNotEmpty}
	if code := MultiError(jute.AppendMultiEnd(body)); code != jute.OK {
		t.Errorf("all well: %v", code)
	}
	if code := MultiError(jute.AppendMultiEnd(bad.Append(body))); code != jute.ErrNotEmpty {
		t.Errorf("one failed: %v", code)
	}
	for i := range body {
		if code := MultiError(body[:i]); code != jute.ErrMarshallingError {
			t.Fatalf("cut to %d bytes: %v", i, code)
		}
	}
}

func FuzzMultiError(f *testing.F) {
	r := jute.MultiResult{Op: jute.OpGetChildren, Children: []string{"a"}}
	f.Add(jute.AppendMultiEnd(r.Append(nil)))
	f.Fuzz(func(_ *testing.T, b []byte) { MultiError(b) })
}
