package crash

import (
	wire "encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"github.com/zooid-project/zooid/internal/quorum"
)

// challengeSize is what a server says to one that has proved nothing (internal/quorum/peer/handshake/proof.go).
const challengeSize = 64

// playBack says on a new connection what a dialler has said on another one, and returns what is answered until the
// server ends the connection.
func playBack(t *testing.T, addr string, said []byte) (answer []byte) {
	t.Helper()
	c, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(startPatience))
	c.Write(said)
	answer, err = io.ReadAll(io.LimitReader(c, recordedMax))
	if errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a replayed connection stays open, after %d bytes", len(answer))
	}
	return answer
}

// TestReplayedConnections records connections between the servers of a running ensemble and says the same again: to the
// server that heard it, to the others, to a later run of it, and, in the place of a server that is down, to those that
// dial it.
func TestReplayedConnections(t *testing.T) {
	seed, _ := hurtful(t)
	o := trio(seed, 1000)
	o.PeerProxies = true
	r := Begin(t, o)
	r.WaitAnswered(100)
	for _, p := range r.Peers {
		p.Record()
	}
	for i := range r.Servers {
		r.Down(i)
	}
	for _, p := range r.Peers {
		p.Reset()
	}
	for i := range r.Servers {
		r.Up(i)
	}
	r.WaitAnswered(300)
	// Servers dial the addresses in the configuration of the one that has founded the ensemble, by a proxy or without
	// one.
	var victim int
	var said []recording // the first one's answers are played back, too
	await(t, "a connection is recorded", func() bool {
		for pair, p := range r.Peers {
			if all := p.Recordings(); len(all) > 0 {
				victim, said = pair[1], all[:1:1]
			}
		}
		return len(said) > 0
	})
	for _, p := range r.Peers {
		said = append(said, p.Recordings()...)
	}
	replayed, accepted := 0, 0
	try := func(servers ...*Server) {
		t.Helper()
		for _, s := range servers {
			for _, rec := range said {
				replayed++
				if answer := playBack(t, s.Peer, rec.dialler); len(answer) > challengeSize {
					accepted++
					t.Errorf("server %d says %d bytes to a replayed connection", s.ID, len(answer))
				}
			}
		}
	}
	try(r.Servers...)
	r.Down(1)
	r.Servers[1].Stop()
	r.Restart(1)
	r.Up(1)
	try(r.Servers[1])

	other := r.Servers[victim]
	r.Down(victim)
	other.Kill()
	logs := map[*Server]int{}
	for i, s := range r.Servers {
		if i != victim {
			logs[s] = len(s.Log())
		}
	}
	l, err := net.Listen("tcp", other.Peer)
	if err != nil {
		t.Fatal(err)
	}
	const silent = 2 // connections on which the dialler may wait for more than was recorded
	for n := 0; n < 20; {
		c, err := l.Accept()
		if err != nil {
			t.Fatal(err)
		}
		c.SetDeadline(time.Now().Add(startPatience))
		c.Write(said[0].target)
		if n >= silent { // or 20 times two seconds pass, and the sessions of clients that use only this server end
			c.(*net.TCPConn).CloseWrite()
		}
		heard, err := io.ReadAll(c)
		if errors.Is(err, os.ErrDeadlineExceeded) {
			t.Error("a server stays connected to a listener that replays another's answers")
		}
		c.Close()
		if len(heard) > 0 {
			n++
		}
	}
	l.Close()
	for s, before := range logs {
		if strings.Contains(s.Log()[before:], fmt.Sprintf(`msg="a peer is reached" peer=%d`, other.ID)) {
			t.Errorf("server %d has taken a replaying listener for server %d", s.ID, other.ID)
		}
	}
	r.Restart(victim)
	r.Up(victim)
	t.Logf("%d connections replayed, %d accepted; 20 replayed answers, none believed", replayed, accepted)
	r.undisturbedVerdict()
}

// An insider knows the ensemble's secret, and speaks in the name of a server.
type insider struct {
	t    *testing.T
	from uint64
	to   *Server
	net.Conn
}

// forge sends a raft message on a connection of the insider's, which may end.
func (i *insider) forge(m *pb.Message) {
	i.t.Helper()
	if m.From == nil {
		m.From = new(i.from)
	}
	m.To = new(uint64(i.to.ID))
	b, err := proto.Marshal(m)
	if err != nil {
		i.t.Fatal(err)
	}
	frame := append(wire.BigEndian.AppendUint32(nil, uint32(len(b)+1)), byte(quorum.FrameRaft))
	i.SetDeadline(time.Now().Add(startPatience))
	if _, err := i.Write(append(frame, b...)); err != nil {
		i.t.Errorf("server %d ends the insider's connection at %v: %v", i.to.ID, m.GetType(), err)
	}
}

func entry(index, term uint64) []*pb.Entry { return []*pb.Entry{{Index: new(index), Term: new(term)}} }

var termInLog = regexp.MustCompile(`leads" term=(\d+)|leader=\d+ term=(\d+)`)

// term returns the term that a server was last elected or followed in.
func (s *Server) term(t *testing.T) uint64 {
	t.Helper()
	all := termInLog.FindAllStringSubmatch(s.Log(), -1)
	if len(all) == 0 {
		t.Fatalf("server %d has no term in its log", s.ID)
	}
	last := all[len(all)-1]
	term, err := strconv.ParseUint(last[1]+last[2], 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return term
}

// TestForgedMessages: somebody knows the ensemble's secret. As a server that runs nobody takes him for it. As one that
// is down he can do what that server could (decision 009): his messages are checked, and he can make the others elect
// a leader again. He can't make them lose what they have acknowledged, as long as he takes part in no majority, nor end
// them.
func TestForgedMessages(t *testing.T) {
	seed, _ := hurtful(t)
	r := Begin(t, trio(seed, 1000))
	keys, cluster := keysOf(t, defaultConfig["quorum.secret"]), clusterOf(t, r.Servers[0])
	for _, to := range r.Servers {
		for from := 1; from <= 3; from++ {
			await(t, "a server that is connected to another takes nobody else for it", func() bool {
				c, err := enters(t, keys, nil, cluster, from, to)
				if err == nil {
					c.Close() // they haven't connected yet
				}
				return err != nil
			})
		}
	}
	third, up := r.Servers[2], r.Servers[:2]
	r.Down(2)
	third.Kill()
	var inside []*insider
	for _, to := range up {
		await(t, "the insider enters", func() bool {
			c, err := enters(t, keys, nil, cluster, 3, to)
			if err == nil {
				inside = append(inside, &insider{t: t, from: 3, to: to, Conn: c})
			}
			return err == nil
		})
	}

	other := map[int]uint64{1: 2, 2: 1}
	refused := 0
	for _, i := range inside {
		term := i.to.term(t)
		for _, m := range []*pb.Message{
			{Type: pb.MsgHeartbeat.Enum(), Term: new(uint64(math.MaxUint64))},
			{Type: pb.MsgVote.Enum(), Term: new(term + 1<<33)},
			{Type: pb.MsgApp.Enum(), Term: new(term), From: new(other[i.to.ID]), Entries: entry(1, term)},
			{Type: pb.MsgVoteResp.Enum(), Term: new(term), From: new(other[i.to.ID])},
			{Type: pb.MsgApp.Enum(), Term: new(term), Index: new(uint64(1)), LogTerm: new(uint64(1)), Entries: entry(9, term)},
			{Type: pb.MsgHeartbeat.Enum(), Term: new(term), Commit: new(uint64(1 << 40))},
			{Type: pb.MsgAppResp.Enum(), Term: new(term), Index: new(uint64(1 << 40))},
			{Type: pb.MsgVote.Enum(), Term: new(term), LogTerm: new(term + 1)},
			{Type: pb.MsgSnap.Enum(), Term: new(term), Snapshot: &pb.Snapshot{Metadata: &pb.SnapshotMetadata{
				Index: new(uint64(1 << 30)), Term: new(term), ConfState: &pb.ConfState{Voters: []uint64{3}},
			}}},
			{Type: pb.MsgProp.Enum(), Term: new(uint64(0)), Entries: []*pb.Entry{{Data: []byte("x")}}},
			{Type: pb.MsgHup.Enum(), Term: new(term)},
		} {
			i.forge(m)
			refused++
		}
		await(t, "messages are refused", func() bool {
			return strings.Contains(i.to.Log(), "a peer's raft message was not accepted")
		})
	}
	r.WaitAnswered(100)
	for _, i := range inside {
		if term := i.to.term(t); term > 1<<20 {
			t.Errorf("server %d is in term %d", i.to.ID, term)
		}
	}

	// What the secret permits: the terms go up, and the others elect again.
	trusted := 0
	for range 3 {
		for _, i := range inside {
			term := i.to.term(t)
			i.forge(&pb.Message{
				Type: pb.MsgVote.Enum(), Term: new(term + 10), LogTerm: new(term), Index: new(uint64(1 << 40)),
				Context: []byte("CampaignTransfer"),
			})
			i.forge(&pb.Message{Type: pb.MsgHeartbeat.Enum(), Term: new(term + 20)})
			i.forge(&pb.Message{Type: pb.MsgTimeoutNow.Enum(), Term: new(term + 20)})
			trusted += 3
			r.WaitAnswered(100)
		}
	}
	for _, i := range inside {
		i.Close()
	}
	r.Restart(2)
	r.Up(2)
	t.Logf("%d forged messages are refused; after %d that server 3 may send servers 1 and 2 are in term %d", refused,
		trusted, up[0].term(t))
	r.undisturbedVerdict()
}
