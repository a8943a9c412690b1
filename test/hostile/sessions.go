package main

import (
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// attackSessions moves sessions from connection to connection and from server
// to server, and closes them while requests are outstanding.
func attackSessions(f *field) error {
	f.workers(12, func(i int, rng *rand.Rand) {
		x := extreme{rng}
		for !f.over() {
			c := orNil(f.connect(f.addr(i), 4000))
			for n := 0; c != nil && n < 20 && !f.over(); n++ {
				for range x.IntN(30) {
					q := jute.CreateRequest{Path: hostileRoot + "/e", ACL: jute.WorldACL(jute.PermAll)}
					q.Flags = jute.ModeEphemeralSequential
					c.send(jute.OpCreate, q.Append(nil))
				}
				next := orNil(f.resume(f.addr(x.IntN(len(f.clients))), jute.ConnectRequest{
					LastZxidSeen: 0, Timeout: x.int(), SessionID: c.session, Passwd: c.passwd, HasReadOnly: true,
				}))
				if x.IntN(2) == 0 {
					c.send(jute.OpSetData, (&jute.SetDataRequest{Path: hostileRoot, Version: -1}).Append(nil))
				}
				c.close()
				if c = next; c != nil && x.IntN(6) == 0 {
					c.send(jute.OpCloseSession, nil)
				}
			}
			if c != nil {
				c.close()
			}
		}
	})
	return nil
}

// attackSessionIDs asks for sessions that never existed.
func attackSessionIDs(f *field) error {
	f.workers(32, func(i int, rng *rand.Rand) {
		for n := i; !f.over(); n++ {
			id := int64(rng.Uint64())
			if rng.IntN(2) == 0 {
				id = int64(1+rng.IntN(3))<<56 | rng.Int64N(1<<40)
			}
			q := newSession(4000)
			q.SessionID = id
			if c := orNil(f.resume(f.addr(n), q)); c != nil {
				c.close()
			}
		}
	})
	return nil
}

// passwordTimeout is the timeout of the session that attackPassword tries to
// keep alive; passwordSlack is the time that a busy machine may add to it.
const (
	passwordTimeout = 4 * time.Second
	passwordSlack   = time.Minute
)

// attackPassword asks for sessions without their passwords: for that of a
// client that is gone, whose ephemeral znode must go with it, and for that of a
// connected client, whose connection must stay.
func attackPassword(f *field) error {
	gone := fmt.Sprintf("/hostile-gone-%d", f.rng(0).Uint32())
	alive := orNil(f.connect(f.addr(0), 40_000))
	dead := orNil(f.connect(f.addr(0), int32(passwordTimeout.Milliseconds())))
	if alive == nil || dead == nil {
		return nil
	}
	defer alive.close()
	heard := time.Now() // the server hears from the client now, or later
	if err := dead.create(gone, nil, jute.ModeEphemeral); err != nil {
		dead.close()
		return nil
	}
	dead.close()
	died := time.Now()
	for n := 0; !f.over() || time.Since(died) < passwordTimeout+passwordSlack; n++ {
		for _, id := range []int64{dead.session, alive.session} {
			q := newSession(40_000)
			q.SessionID = id
			if c := orNil(f.say(f.addr(n), q)); c != nil {
				if c.connected() == nil {
					c.close()
					return fmt.Errorf("session %#x was given away without its password", id)
				}
				c.close()
			}
		}
		code, _, err := alive.call(jute.OpExists, readRecord(gone))
		if err != nil {
			return fmt.Errorf("the connection of session %#x ended when others asked for it with a wrong password: %w",
				alive.session, err)
		}
		if code == jute.ErrNoNode && f.over() {
			return nil
		}
		time.Sleep(100 * time.Millisecond)
		if code == jute.ErrNoNode && time.Since(heard) < passwordTimeout/2 {
			return fmt.Errorf("session %#x ended before its timeout", dead.session)
		}
		if code == jute.ErrNoNode {
			break
		}
	}
	if code, _, err := alive.call(jute.OpExists, readRecord(gone)); err == nil && code != jute.ErrNoNode {
		return fmt.Errorf("the ephemeral %s of a session with a timeout of %v is there %v after its client went: "+
			"wrong passwords kept it alive", gone, passwordTimeout, time.Since(died).Round(time.Second))
	}
	<-f.ctx.Done()
	return nil
}
