package server

import (
	"net"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestUnheardServerTurnsItsClientsAway: a follower whose leader has not answered
// it for its patience closes its connections and takes none, until it is answered.
func TestUnheardServerTurnsItsClientsAway(t *testing.T) {
	t.Parallel()
	servers, opts := threeServers(t, Options{Serving: Serving{Tick: time.Minute}}) // the test asks in place of the timers
	follower := (leader(t, servers) + 1) % 3
	r := servers[follower].replica
	c := connect(t, opts[follower].Listen[0], 0, nil)
	if h, _ := c.call(jute.OpCreate, creating("/q", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	const patience = 2000
	r.CheckReach(patience-1, patience)
	if h, _ := c.call(jute.OpCreate, creating("/r", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
	r.CheckReach(patience, patience)
	if !c.ends() {
		t.Fatal("a client's connection lives on")
	}
	if servers[follower].Status().Serving {
		t.Error("it says that it serves")
	}
	nc, err := net.Dial("tcp", opts[follower].Listen[0])
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	if handshake(t, nc, 0, nil) != nil {
		t.Error("it takes a client")
	}
	r.CheckReach(0, patience)
	c = connect(t, opts[follower].Listen[0], 0, nil)
	if h, _ := c.call(jute.OpCreate, creating("/s", nil, 0)); h.Err != jute.OK {
		t.Fatal(h.Err)
	}
}
