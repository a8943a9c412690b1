package follow

import (
	"context"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/zk"
)

// TestAnotherEnsemble: a copy isn't continued with what another ensemble has, although zxids and epochs fit, and stays
// as it was.
func TestAnotherEnsemble(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		strip bool // the copy doesn't know its servers
		trunc bool // the leader sends everything
		more  int  // transactions of the other ensemble beyond the copy's
		says  string
	}{
		"its last transaction differs":        {true, false, 0, "different transactions with the zxid 0x100000003"},
		"so it does behind further ones":      {true, false, 5, "different transactions with the zxid 0x100000003"},
		"everything comes from other servers": {false, true, 5, "but the copy's were"},
		"everything comes, and nothing fits":  {false, true, 0, "but the copy's were"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l, other := startLeader(t), startLeader(t)
			l.create("/a", "1", zk.OpenACL())
			other.create("/other", "1", zk.OpenACL())
			for other.state.Zxid < 1<<32|3+int64(c.more) {
				other.set("/other", "x")
			}
			dir := copyOf(t, l)
			if c.strip {
				unmark(t, dir)
			}
			other.trunc = c.trunc
			before := contents(t, dir)
			o := other.options(dir)
			o.Adopt = c.strip
			f, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			if err := f.Run(ctx); err == nil || !strings.Contains(err.Error(), c.says) ||
				!strings.Contains(err.Error(), "Give a new directory") {
				t.Errorf("%v; want %q", err, c.says)
			}
			if s := f.Status(); s.Ended == nil || s.Live || s.Leader != "" {
				t.Errorf("after the end, its status is %+v", s)
			}
			after := contents(t, dir)
			for path, text := range before {
				if !strings.Contains(path, "Epoch") && !strings.Contains(path, "ZOOIDCOPY") && after[path] != text {
					t.Errorf("%s has changed", path)
				}
			}
			// Its own ensemble goes on with it.
			if f, err = Open(l.options(dir)); err != nil {
				t.Fatal(err)
			}
			stop := run(t, f)
			s := until(t, f, "its own leader", reached(l.create("/later", "x", zk.OpenACL())))
			stop()
			if s.Snapshots != 0 || s.Digest != l.state.Digest() {
				t.Errorf("%+v", s)
			}
		})
	}
}
