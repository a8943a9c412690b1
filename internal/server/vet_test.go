package server

import (
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// doorbell listens on a port and counts who connects to it.
func doorbell(t *testing.T) (addr string, rung *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	rung = &atomic.Int64{}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			rung.Add(1)
			c.Close()
		}
	}()
	return l.Addr().String(), rung
}

// TestReconfigDialsNobodyForStrangers: only a reconfig that could be carried out
// makes the server dial the addresses in it. The others get the same answer
// whether something listens there or not.
func TestReconfigDialsNobodyForStrangers(t *testing.T) {
	t.Parallel()
	many := make([]string, reachAddressesMax)
	for i := range many {
		many[i] = fmt.Sprintf("%d OPEN", i+2)
	}
	for name, tc := range map[string]struct {
		settings tree.Settings
		members  string // behind the server's own line
		version  int64
		want     jute.Code
		dials    bool
	}{
		"disabled":      {tree.Settings{SkipACL: true}, "2 OPEN,3 OPEN", -1, jute.ErrReconfigDisabled, false},
		"not permitted": {tree.Settings{ReconfigEnabled: true}, "2 OPEN,3 OPEN", -1, jute.ErrNoAuth, false},
		"old version": {
			tree.Settings{ReconfigEnabled: true, SkipACL: true}, "2 OPEN,3 OPEN", 0, jute.ErrBadVersion, false,
		},
		"too many": {
			tree.Settings{ReconfigEnabled: true, SkipACL: true}, strings.Join(many, ","), -1, jute.ErrBadArguments, false,
		},
		"ids alike": {tree.Settings{ReconfigEnabled: true, SkipACL: true}, "257 OPEN", -1, jute.ErrBadArguments, false},
		"may be executed": {
			tree.Settings{ReconfigEnabled: true, SkipACL: true}, "2 OPEN,3 OPEN", -1, jute.ErrNewConfigNoQuorum, true,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			own := "1 " + freeport.Address(t)
			m := lineMembership(own)
			members, _ := m.Parse(own)
			opt := Options{
				ID: 1, DataDir: t.TempDir(), Listen: []string{freeport.Address(t)}, PeerListen: members[0].Addrs[0],
				Members: members, Membership: m, Settings: tc.settings,
			}
			openAll(t, []Options{opt})
			c := connect(t, opt.Listen[0], 0, nil)
			eventually(t, "the membership is in the log", func() bool {
				h, body := c.call(jute.OpGetData, reading("/zookeeper/config", false))
				return h.Err == jute.OK && len(jute.NewDecoder(body).Buffer()) > 0
			})
			open, rung := doorbell(t)
			for _, addr := range []string{open, freeport.Address(t)} {
				lines := own + "," + strings.ReplaceAll(tc.members, "OPEN", addr)
				req := jute.ReconfigRequest{NewMembers: &lines, CurConfigID: tc.version}
				if h, _ := c.call(jute.OpReconfig, req.Append); h.Err != tc.want {
					t.Errorf("with members at %s: %v, want %v", addr, h.Err, tc.want)
				}
			}
			if tc.dials {
				eventually(t, "the server dials", func() bool { return rung.Load() > 0 })
				return
			}
			time.Sleep(50 * time.Millisecond) // for a connection that is on the way
			if n := rung.Load(); n != 0 {
				t.Errorf("the server dialled %d times", n)
			}
		})
	}
}

// TestReconfigOfTheMute: voters that accept connections and say nothing are waited for
// no longer than reachTimeout, and count as missing.
func TestReconfigOfTheMute(t *testing.T) {
	t.Parallel()
	own := "1 " + freeport.Address(t)
	m := lineMembership(own)
	members, _ := m.Parse(own)
	opt := Options{ID: 1, DataDir: t.TempDir(), Listen: []string{freeport.Address(t)}, PeerListen: members[0].Addrs[0],
		Members: members, Membership: m,
		Settings: tree.Settings{ReconfigEnabled: true, SkipACL: true}}
	openAll(t, []Options{opt})
	c := connect(t, opt.Listen[0], 0, nil)
	eventually(t, "the membership is in the log", func() bool {
		h, body := c.call(jute.OpGetData, reading("/zookeeper/config", false))
		return h.Err == jute.OK && len(jute.NewDecoder(body).Buffer()) > 0
	})
	mute, err := net.Listen("tcp", "127.0.0.1:0") // the kernel accepts, nobody reads
	if err != nil {
		t.Fatal(err)
	}
	defer mute.Close()
	lines := own + ",2 " + mute.Addr().String() + ",3 " + mute.Addr().String()
	req := jute.ReconfigRequest{NewMembers: &lines, CurConfigID: -1}
	if h, _ := c.call(jute.OpReconfig, req.Append); h.Err != jute.ErrNewConfigNoQuorum {
		t.Errorf("with two mute voters: %v, want %v", h.Err, jute.ErrNewConfigNoQuorum)
	}
}
