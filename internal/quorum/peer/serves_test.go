package peer

import (
	"net"
	"testing"
)

// TestServesAt: the first address counts at which something else than this server accepts connections.
func TestServesAt(t *testing.T) {
	t.Parallel()
	var at [2]string
	for i := range at {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		at[i] = l.Addr().String()
	}
	d := &Discovery{
		Clients: map[uint64][]string{2: {at[0], at[1]}, 3: {at[0]}},
		IsOwn:   func(c net.Conn) bool { return c.RemoteAddr().String() == at[0] },
	}
	for id, want := range map[uint64]string{2: at[1], 3: "", 4: ""} {
		if have := d.servesAt(t.Context(), id); have != want {
			t.Errorf("server %d serves at %q, want %q", id, have, want)
		}
	}
}
