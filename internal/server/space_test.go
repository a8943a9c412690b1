package server

import (
	"path/filepath"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// TestNoRoom shows what a client meets on a server whose disk is nearly full:
// writes are refused in their place among the replies, and take no zxid; reads,
// syncs, new sessions and the end of sessions go on.
func TestNoRoom(t *testing.T) {
	t.Parallel()
	s := open(t, Options{spacePause: time.Hour})
	addr := s.Addrs()[0].String()
	c := connect(t, addr, 0, nil)
	before, _ := c.call(jute.OpCreate, creating("/n", []byte("a"), 0))
	s.replica.Space(storage.SpaceState{Level: storage.SpaceRefuse}, false)
	var stream []byte
	stream = c.request(stream, jute.OpSetData, setting("/n", []byte("b")))
	stream = c.request(stream, jute.OpGetData, reading("/n", false))
	stream = c.request(stream, jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") })
	stream = c.request(stream, jute.OpCreate, creating("/no", nil, 0))
	if _, err := c.conn.Write(stream); err != nil {
		t.Fatal(err)
	}
	for i, want := range []jute.Code{jute.ErrThrottledOp, jute.OK, jute.OK, jute.ErrThrottledOp} {
		h, body := c.reply()
		if h.Xid != c.xid-3+int32(i) || h.Err != want || h.Zxid != before.Zxid {
			t.Errorf("reply %d: xid %d, %v, zxid 0x%x; want xid %d, %v, zxid 0x%x", i, h.Xid, h.Err, h.Zxid, c.xid-3+int32(i),
				want, before.Zxid)
		}
		if i == 1 && string(jute.NewDecoder(body).Buffer()) != "a" {
			t.Errorf("a refused write has changed the data: %q", body)
		}
	}
	other := connect(t, addr, 0, nil)
	if h, _ := other.call(jute.OpCloseSession, nil); h.Err != jute.OK {
		t.Errorf("close a session: %v", h.Err)
	}
	s.replica.Space(storage.SpaceState{}, false)
	if h, _ := c.call(jute.OpSetData, setting("/n", []byte("c"))); h.Err != jute.OK {
		t.Errorf("set when there is room again: %v", h.Err)
	}
}

// TestSpaceGauges: mntr has the free space, and what it allows.
func TestSpaceGauges(t *testing.T) {
	t.Parallel()
	s := open(t, Options{})
	free, level := s.metric("disk_free_bytes"), storage.SpaceLevel(s.metric("disk_level"))
	if free <= 0 || level < storage.SpaceOK || level > storage.SpaceRefuse {
		t.Errorf("%d bytes are free, level %d", free, level)
	}
}

// TestSpaceLimits: the limit is known before the data directory is there.
func TestSpaceLimits(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	there := spaceLimits(Options{DataDir: dir, LogDir: dir})
	later := spaceLimits(Options{DataDir: filepath.Join(dir, "not", "yet"), LogDir: dir})
	if there != later || there.RefuseBytes <= 0 || there.RefuseBytes > 1<<30 {
		t.Errorf("limits %+v and %+v", there, later)
	}
}
