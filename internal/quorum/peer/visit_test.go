package peer

import (
	"encoding/binary"
	"log/slog"
	"net"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// announcement is what server id at an address says of itself.
func announcement(id byte, addr string) []byte {
	b := append([]byte{0, 0, 0, 0, 0, 0, 0, id, 1, 0, byte(len(addr))}, addr...)
	return b
}

// TestAnnouncementsRefused: who doesn't prove who he is, says too much or too little, or is a
// member at another address, isn't let follow.
func TestAnnouncementsRefused(t *testing.T) {
	t.Parallel()
	four, strange, two := announcement(4, "a:1"), announcement(2, "a:1"), announcement(2, "two:1")
	tr := newTransport(1, 7, Secure{}, slog.New(slog.DiscardHandler))
	defer tr.close()
	tr.members = []quorum.Member{{ID: 2, Addrs: []string{"two:1"}}}
	heed := func(from uint64, proven bool, size uint32, b []byte) string {
		near, far := net.Pipe()
		defer far.Close()
		go func() {
			near.Write(append(binary.BigEndian.AppendUint32(nil, size), b...))
			near.Close()
		}()
		mode := handshake.ModeSecret
		if !proven {
			mode = 0
		}
		refusal, _ := tr.heed(arrival{Conn: far, hello: hello{from: from}, mode: mode})
		return refusal
	}
	for _, x := range []struct {
		from   uint64
		proven bool
		size   int
		b      []byte
		want   string
	}{
		{4, true, len(four), four, ""},
		{4, false, len(four), four, "proves"},
		{4, true, quorum.AnnouncementMax + 1, four, "at most"},
		{4, true, 30, four, "cut short"},
		{5, true, len(four), four, "can't be read"},
		{2, true, len(strange), strange, quorum.SameID},
		{2, true, len(two), two, ""},
	} {
		if got := heed(x.from, x.proven, uint32(x.size), x.b); (got == "") != (x.want == "") ||
			!strings.Contains(got, x.want) {
			t.Errorf("%+v: %q", x, got)
		}
	}
}
