package server

import (
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/jute"
)

// TestServerIDs: a server doesn't start in an ensemble whose ids can't be told
// apart in the ids of sessions, and says why.
func TestServerIDs(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		ids  []uint64
		want string // "" if they will do
	}{
		"usual":               {[]uint64{1, 2, 254}, ""},
		"large and different": {[]uint64{1, 300, 1002}, ""},
		"zero":                {[]uint64{1, 2, serverid.Raft(0)}, ""},
		"like zero":           {[]uint64{1, 256, serverid.Raft(0)}, "servers 256 and 0"},
		"255":                 {[]uint64{1, 2, 255}, "server id 255"},
		"511":                 {[]uint64{1, 2, 511}, "server id 511"},
		"alike":               {[]uint64{1, 2, 257}, "servers 1 and 257"},
		"twice":               {[]uint64{1, 2, 2}, "servers 2 and 2"},
	} {
		var members []Member
		for _, id := range tc.ids {
			members = append(members, Member{ID: id, Addrs: []string{"127.0.0.1:1"}})
		}
		err := checkIDs(members)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", name, err, tc.want)
		}
		if tc.want == "" {
			continue
		}
		stop := make(chan struct{})
		close(stop) // so that a server that would start ends too
		_, err = Open(Options{ID: 1, DataDir: t.TempDir(), PeerListen: freeport.Address(t), Members: members, Stop: stop})
		if err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: start a server: %v, want %q", name, err, tc.want)
		}
	}
}

// TestUnusualServerIDs: server 0, and servers whose ids are above 255 but differ in their last
// bytes, have sessions of their own, local ones too, and those write.
func TestUnusualServerIDs(t *testing.T) {
	t.Parallel()
	var members []Member
	for _, id := range []uint64{serverid.Raft(0), 258, 1003} {
		members = append(members, Member{ID: id, Addrs: []string{freeport.Address(t)}})
	}
	opts := make([]Options, len(members))
	for i, m := range members {
		opts[i] = Options{
			ID: m.ID, DataDir: t.TempDir(), Listen: []string{freeport.Address(t)}, Members: members, PeerListen: m.Addrs[0],
			Serving: Serving{LocalSessions: true},
		}
	}
	openAll(t, opts)
	for i, opt := range opts {
		c := connect(t, opt.Listen[0], 0, nil)
		if got := byte(uint64(c.session) >> 56); got != byte(opt.ID) {
			t.Errorf("server %d: session %#x", opt.ID, uint64(c.session))
		}
		if h, _ := c.call(jute.OpCreate, creating("/"+string(rune('a'+i)), nil, 0)); h.Err != jute.OK {
			t.Errorf("server %d: a first write: %v", opt.ID, h.Err)
		}
	}
}
