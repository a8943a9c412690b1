package main

import (
	"math"
	"math/rand/v2"

	"github.com/zooid-project/zooid/jute"
)

// A state is the result of a hostile client's actions before its requests. enter returns
// nil if the state couldn't be reached, which isn't an error.
type state struct {
	name  string
	enter func(f *field, addr string, x extreme) *conn
}

// states are all states that a connection can be in.
var states = []state{
	{"unconnected", func(f *field, addr string, _ extreme) *conn { return orNil(f.open(addr)) }},
	{"connected", func(f *field, addr string, _ extreme) *conn { return orNil(f.connect(addr, 4000)) }},
	{"odd timeout", func(f *field, addr string, x extreme) *conn { return orNil(f.connect(addr, x.int())) }},
	{"read-only", func(f *field, addr string, _ extreme) *conn {
		q := newSession(4000)
		q.ReadOnly = true
		return orNil(f.resume(addr, q))
	}},
	{"old form", func(f *field, addr string, x extreme) *conn {
		q := newSession(4000)
		q.ProtocolVersion, q.HasReadOnly = x.int(), false
		return orNil(f.resume(addr, q))
	}},
	{"authenticated", func(f *field, addr string, x extreme) *conn {
		c := orNil(f.connect(addr, 4000))
		for i := 0; c != nil && i < 1+x.IntN(8); i++ {
			c.send(jute.OpAuth, (&jute.AuthPacket{Scheme: "digest", Auth: []byte{byte('a' + i), ':', 'x'}}).Append(nil))
		}
		return c
	}},
	{"in a SASL login", func(f *field, addr string, x extreme) *conn {
		c := orNil(f.connect(addr, 4000))
		if c != nil {
			c.send(jute.OpSASL, x.record(jute.OpSASL))
		}
		return c
	}},
	{"moved away", func(f *field, addr string, _ extreme) *conn {
		c := orNil(f.connect(addr, 4000))
		if c == nil {
			return nil
		}
		q := jute.ConnectRequest{Timeout: 4000, SessionID: c.session, Passwd: c.passwd, HasReadOnly: true}
		if moved := orNil(f.resume(f.clients[int(c.xid+1)%len(f.clients)], q)); moved != nil {
			moved.close()
		}
		return c
	}},
	{"closed", func(f *field, addr string, _ extreme) *conn {
		c := orNil(f.connect(addr, 4000))
		if c != nil {
			c.send(jute.OpCloseSession, nil)
		}
		return c
	}},
	{"wrong password", func(f *field, addr string, x extreme) *conn {
		c := orNil(f.connect(addr, 4000))
		if c == nil {
			return nil
		}
		defer c.close()
		passwd := make([]byte, pick(x, []int{0, 1, 15, 16, 17, 3000}))
		return orNil(f.say(addr, jute.ConnectRequest{Timeout: 4000, SessionID: c.session, Passwd: passwd, HasReadOnly: true}))
	}},
	{"made-up session", func(f *field, addr string, x extreme) *conn {
		q := newSession(4000)
		q.SessionID = x.long()
		return orNil(f.say(addr, q))
	}},
	{"ahead of all", func(f *field, addr string, x extreme) *conn {
		q := newSession(4000)
		q.LastZxidSeen = pick(x, []int64{math.MaxInt64, math.MinInt64, -1, 1 << 40})
		return orNil(f.say(addr, q))
	}},
}

func orNil(c *conn, err error) *conn {
	if err != nil {
		return nil
	}
	return c
}

// say sends a connect request and continues without its answer, as if it had
// been accepted.
func (f *field) say(addr string, q jute.ConnectRequest) (*conn, error) {
	c, err := f.open(addr)
	if err != nil {
		return nil, err
	}
	if err := c.write(jute.AppendFrame(nil, q.Append)); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

// requestsPerConnection is how many requests a hostile connection makes at most.
const requestsPerConnection = 200

// attackOperations goes through the states, and in each of them sends operations
// with extreme arguments.
func attackOperations(f *field) error {
	if c := orNil(f.connect(f.addr(0), 4000)); c != nil {
		c.create(hostileRoot, nil, jute.ModePersistent)
		c.close()
	}
	f.workers(8, func(i int, rng *rand.Rand) {
		x := extreme{rng}
		for n := i; !f.over(); n++ {
			c := states[n%len(states)].enter(f, f.addr(n/len(states)+i), x)
			if c == nil {
				continue
			}
			end := c.drain()
			for range 1 + x.IntN(requestsPerConnection) {
				op := pick(x, operations)
				if c.send(op, x.record(op)) != nil || f.over() {
					break
				}
			}
			end()
		}
	})
	return nil
}
