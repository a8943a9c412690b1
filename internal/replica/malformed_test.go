package replica

import (
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// TestMalformedReads: a read whose body can't be decoded is answered with the code for that, sets no watch, and leaves
// the connection as it was.
func TestMalformedReads(t *testing.T) {
	t.Parallel()
	s, c := pipelined(t)
	raw := pipeline{}
	for _, op := range []jute.Op{
		jute.OpSync, jute.OpExists, jute.OpGetData, jute.OpGetACL, jute.OpGetChildren, jute.OpGetChildren2,
		jute.OpGetAllChildrenNumber, jute.OpGetEphemerals, jute.OpMultiRead, jute.OpAddWatch, jute.OpCheckWatches,
		jute.OpRemoveWatches,
	} {
		for name, body := range map[string][]byte{
			"nothing":              nil,
			"half a length":        {0, 0},
			"a length that lies":   {0, 0, 1, 0, '/'},
			"a negative length":    {0xff, 0xff, 0xff, 0xf0, '/', 'a'},
			"half of what follows": {0, 0, 0, 5, '/', 't', 'u', 'r'},
		} {
			record := func(b []byte) []byte { return append(b, body...) }
			if code := s.call(c, &raw, op, record)[0]; code != jute.ErrMarshallingError {
				t.Errorf("%v with %s: %v", op, name, code)
			}
		}
	}
	if n := s.rep.watches.table.Size(); n != 0 {
		t.Errorf("%d watches are set", n)
	}
	if code := s.call(c, &raw, jute.OpGetData, reading("/turn", false))[0]; code != jute.OK || c.Ending() != "" {
		t.Errorf("a read after them: %v; the connection: %q", code, c.Ending())
	}
}
