package crash

import (
	wire "encoding/binary"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/quorum/peer"
)

// forgedAppends are at least as many as there are entries when the insider begins: one of them follows the follower's
// last entry, whatever that is.
const forgedAppends = 1 << 15

// appends sends a follower forged entries of a term, one after each that it may have, each of them committed.
func (i *insider) appends(term uint64) {
	i.t.Helper()
	for index := range uint64(forgedAppends) {
		i.forge(&pb.Message{
			Type: pb.MsgApp.Enum(), Term: new(term), Index: new(index), LogTerm: new(term), Commit: new(index + 1),
			Entries: []*pb.Entry{{Index: new(index + 1), Term: new(term), Data: []byte("forged")}},
		})
	}
}

// forgeSnapshot streams a snapshot of a term in the name of server from, and returns when the server has read it.
func forgeSnapshot(t *testing.T, c net.Conn, from int, to *Server, term uint64) {
	t.Helper()
	m := &pb.Message{
		Type: pb.MsgSnap.Enum(), From: new(uint64(from)), To: new(uint64(to.ID)), Term: new(term),
		Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
			Index: new(uint64(1 << 30)), Term: new(term), ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}},
		}},
	}
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	const size = 1000
	head := append(wire.BigEndian.AppendUint32(nil, uint32(len(b))), b...)
	c.SetDeadline(time.Now().Add(startPatience))
	var at [8]byte
	_, err = c.Write(wire.BigEndian.AppendUint64(head, size))
	if err == nil {
		_, err = io.ReadFull(c, at[:])
	}
	if err == nil {
		_, err = c.Write(make([]byte, size))
	}
	if err == nil {
		_, err = io.ReadFull(c, at[:1])
	}
	if err != nil {
		t.Errorf("server %d doesn't read a snapshot: %v", to.ID, err)
	}
}

// TestForgedLeader: somebody knows the ensemble's secret, and sends what only a leader sends: entries and snapshots. In
// the name of a server that runs, the leader or another, he isn't let in. In that of a follower that is down he gets
// in, and what he sends in the leader's term is refused: that term has a leader. In that of a leader that was lost he
// gets in, too, and comes too late: its term is over, and the next one has another leader.
func TestForgedLeader(t *testing.T) {
	seed, _ := hurtful(t)
	r := Begin(t, trio(seed, 500))
	r.WaitAnswered(100)
	keys, cluster := keysOf(t, defaultConfig["quorum.secret"]), clusterOf(t, r.Servers[0])
	secure := peer.Secure{Keys: keys}
	leads := r.leader()
	leader, down, follower := r.Servers[leads], r.Servers[(leads+1)%3], r.Servers[(leads+2)%3]
	streams := func(from int) (net.Conn, error) {
		return peer.DialSnapshot(t.Context(), follower.Peer, secure, cluster, uint64(from), uint64(follower.ID))
	}
	messages := func(from int) (i *insider) {
		await(t, fmt.Sprintf("the insider enters as server %d", from), func() bool {
			c, err := enters(t, keys, nil, cluster, from, follower)
			i = &insider{t: t, from: uint64(from), to: follower, Conn: c}
			return err == nil
		})
		return i
	}
	for _, s := range []*Server{leader, down} {
		await(t, "a server that is connected to another takes nobody else for it", func() bool {
			c, err := enters(t, keys, nil, cluster, s.ID, follower)
			if err == nil {
				c.Close() // they haven't connected yet
			}
			return err != nil
		})
		if c, err := streams(s.ID); err == nil {
			c.Close()
			t.Errorf("the insider sends a snapshot as server %d, which runs", s.ID)
		}
	}

	// As a follower that is down.
	r.Down(down.ID - 1)
	down.Kill()
	term := follower.term(t)
	refusal := fmt.Sprintf("of term %d, which server %d leads", term, leader.ID)
	i := messages(down.ID)
	i.forge(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(term)})
	i.appends(term)
	i.forge(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), Term: new(term)})
	c, err := streams(down.ID)
	if err != nil {
		t.Fatal(err)
	}
	forgeSnapshot(t, c, down.ID, follower, term)
	c.Close()
	for _, what := range []string{"MsgHeartbeat ", "MsgSnap "} {
		follower.awaitLog(t, what+refusal)
	}
	r.WaitAnswered(100)
	if now := follower.term(t); now != term {
		t.Errorf("the term was %d and is %d", term, now)
	}
	if strings.Contains(follower.Log(), fmt.Sprintf("leader=%d term=%d", down.ID, term)) {
		t.Errorf("server %d has followed the insider", follower.ID)
	}
	i.Close()
	r.Restart(down.ID - 1)
	r.Up(down.ID - 1)

	// As the leader, which is lost.
	r.Down(leads)
	leader.Kill()
	i = messages(leader.ID)
	await(t, "there is another leader", func() bool { return follower.term(t) > term })
	r.WaitAnswered(100)
	later := follower.term(t)
	i.appends(term)
	r.WaitAnswered(100)
	if now := follower.term(t); now != later {
		t.Errorf("after entries of the former term the term is %d and was %d", now, later)
	}
	i.Close()
	r.Restart(leads)
	r.Up(leads)
	r.undisturbedVerdict()
}
