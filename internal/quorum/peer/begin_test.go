package peer

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// discovering runs Discover for server self of members, whose listeners are ls. The channel delivers how it begins.
func discovering(ctx context.Context, self uint64, members []quorum.Member, l net.Listener,
	secure Secure) <-chan quorum.Beginning {
	began := make(chan quorum.Beginning, 1)
	go func() {
		b, err := Discover(ctx, Discovery{
			Self: self, Level: 1, Members: members, Patience: FoundingPatience, Listener: l, Secure: secure,
			Log: slog.New(slog.DiscardHandler),
		})
		if err == nil {
			began <- b
		}
	}()
	return began
}

// TestServersFound is the first start of three servers that share a secret, or agree on one.
func TestServersFound(t *testing.T) {
	t.Parallel()
	for _, secret := range []string{"a secret", ""} {
		t.Run("secret="+secret, func(t *testing.T) {
			t.Parallel()
			var ls []net.Listener
			var members []quorum.Member
			for id := range uint64(3) {
				ls = append(ls, listenLocal(t))
				members = append(members, quorum.Member{ID: id + 1, Addrs: []string{ls[id].Addr().String()}})
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			secure := func() Secure {
				if secret != "" {
					return sharing(secret)
				}
				keys, err := OpenKeyring(t.TempDir(), nil)
				if err != nil {
					t.Fatal(err)
				}
				return Secure{Keys: keys}
			}
			var lineages []uint64
			first := discovering(ctx, 1, members, ls[0], secure())
			own := secure()
			second := discovering(ctx, 2, members, ls[1], own)
			third := discovering(ctx, 3, members, ls[2], secure())
			b := <-first
			lineages = append(lineages, b.Cluster)
			founder := newTransport(1, b.Cluster, secure(), slog.New(slog.DiscardHandler))
			defer founder.close()
			founder.founding, founder.standing = b.Founding, func() quorum.Status { return quorum.Status{} }
			for _, m := range members {
				founder.setPeer(m.ID, m.Addrs)
			}
			founder.listen(ls[0])
			for _, began := range []<-chan quorum.Beginning{second, third} {
				select {
				case b := <-began:
					lineages = append(lineages, b.Cluster)
				case <-time.After(patience):
					t.Fatal("the others don't begin with the founder")
				}
			}
			if lineages[0] == 0 || lineages[1] != lineages[0] || lineages[2] != lineages[0] {
				t.Errorf("they begin with lineages %x", lineages)
			}
		})
	}
}

// TestRefusedProofIsWaitedFor: a server of the lines that answers, but accepts no proof of this one, may have the data.
// Servers of an older version may too.
func TestRefusedProofIsWaitedFor(t *testing.T) {
	t.Parallel()
	self, other := listenLocal(t), listenLocal(t)
	members := []quorum.Member{
		{ID: 1, Addrs: []string{self.Addr().String()}}, {ID: 2, Addrs: []string{other.Addr().String()}},
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	began := discovering(ctx, 1, members, self, sharing("a secret"))
	answerJoins(ctx, other, sharing("another secret"), joinReplied{state: joinEmpty, cluster: 7})
	asker := newTransport(2, 0, sharing("a secret"), slog.New(slog.DiscardHandler))
	defer asker.cancel()
	for rounds := 0; rounds < 20; {
		a, err := asker.askWhatAt(ctx, members[0].Addrs[0], 1)
		if err != nil || a.Claim == nil || a.Claim.Follows != 0 {
			t.Fatalf("it says of itself %+v, %v", a.Claim, err)
		}
		select {
		case b := <-began:
			t.Fatalf("it begins with %+v beside a server that has refused its proof", b)
		case <-time.After(joinPause):
			rounds++
		}
	}
}

// answerJoins answers like a server of an earlier version: it accepts the secret, and answers requests to join.
func answerJoins(ctx context.Context, l net.Listener, ours Secure, reply joinReplied) {
	go func() {
		for ctx.Err() == nil {
			c, err := l.Accept()
			if err != nil {
				return
			}
			version, _ := handshake.ReadVersion(c)
			over, _, err := ours.Keys.Accept(c, version)
			if err != nil {
				c.Close()
				continue
			}
			if h, _ := readHello(over); h.kind == connJoin {
				writeAnswer(over, "")
				over.Write(reply.append(nil))
			} else {
				writeAnswer(over, "unknown kind of connection")
			}
			c.Close()
		}
	}()
}

// TestOlderVersions: an older version that says that it is empty is waited for, one that belongs to an ensemble is
// joined.
func TestOlderVersions(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		answer joinReplied
		joins  uint64
	}{
		{joinReplied{state: joinEmpty}, 0}, {joinReplied{state: joinEmpty, cluster: 7}, 0},
		{joinReplied{state: joinWait, cluster: 7}, 0},
		{joinReplied{state: joinGo, cluster: 7, index: 5, term: 2}, 7},
	} {
		self, other := listenLocal(t), listenLocal(t)
		members := []quorum.Member{
			{ID: 1, Addrs: []string{self.Addr().String()}}, {ID: 2, Addrs: []string{other.Addr().String()}}, {ID: 3},
		}
		ctx, cancel := context.WithCancel(t.Context())
		answerJoins(ctx, other, sharing("a secret"), c.answer)
		asker := newTransport(1, 0, sharing("a secret"), slog.New(slog.DiscardHandler))
		a := asker.askWhat(ctx, members[1], true, func(*quorum.Founding) bool { return false })
		if unknown := a.Err != nil; unknown != (c.answer.state == joinEmpty) || a.NobodyListens || a.Claim != nil {
			t.Errorf("%+v is understood as %+v", c.answer, a)
		}
		if c.joins != 0 {
			select {
			case b := <-discovering(ctx, 1, members, self, sharing("a secret")):
				if b.Cluster != c.joins || b.JoinedAfter != 5 || b.JoinedTerm != 2 || b.Founding != nil {
					t.Errorf("it begins with %+v", b)
				}
			case <-time.After(patience):
				t.Error("it doesn't join")
			}
		}
		cancel()
		asker.close()
	}
}

func listenLocal(t *testing.T) net.Listener {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestOvertakenFounder: a server that has founded an ensemble, and was down before another began with it, learns that
// the others have founded one without it. One whose founding has data that theirs hasn't does not give that up.
func TestOvertakenFounder(t *testing.T) {
	t.Parallel()
	for _, data := range []quorum.Holding{{}, {Lineage: 7, Index: 3}} {
		other := newTransport(2, 0xf02, sharing("a secret"), slog.New(slog.DiscardHandler))
		defer other.close()
		other.standing = func() quorum.Status { return quorum.Status{Elected: true} }
		other.founding = &quorum.Founding{Lineage: 0xf02}
		l := listenLocal(t)
		other.listen(l)
		founder := newTransport(1, 0xf01, sharing("a secret"), slog.New(slog.DiscardHandler))
		rounds := make(chan bool)
		founder.standing = func() quorum.Status {
			select {
			case rounds <- true:
			case <-founder.ctx.Done():
			}
			return quorum.Status{}
		}
		founder.founding = &quorum.Founding{Lineage: 0xf01, Base: data}
		found := make(chan error, 1)
		var wg sync.WaitGroup
		wg.Go(func() {
			members := []quorum.Member{{ID: 1}, {ID: 2, Addrs: []string{l.Addr().String()}}}
			founder.watchOvertaken(members, func(err error) { found <- err })
		})
		var err error
		for n := 0; n < 3 && err == nil; n++ {
			select {
			case <-rounds:
			case err = <-found:
			case <-time.After(patience):
				t.Fatal("it asks no more")
			}
		}
		if overtaken := errors.Is(err, ErrOvertaken); overtaken != (data == quorum.Holding{}) {
			t.Errorf("founded with %v: it is told %v", data, err)
		}
		founder.close()
		wg.Wait()
	}
}

// TestRivalFoundings: two servers have each founded an ensemble, and nobody was elected in either. That goes on, so an
// operator is told, with both ids and the commands that end it; not at the first sight, and not of one's own ensemble.
func TestRivalFoundings(t *testing.T) {
	t.Parallel()
	other := newTransport(2, 0xf02, sharing("a secret"), slog.New(slog.DiscardHandler))
	defer other.close()
	other.standing = func() quorum.Status { return quorum.Status{} }
	other.founding = &quorum.Founding{Lineage: 0xf02}
	l := listenLocal(t)
	other.listen(l)
	for _, own := range []uint64{0xf01, 0xf02} {
		var told bytes.Buffer
		founder := newTransport(1, own, sharing("a secret"), slog.New(slog.NewTextHandler(&told, nil)))
		rounds := 0
		founder.standing = func() quorum.Status { // called once at the begin of each round
			if rounds++; rounds <= rivalRounds && told.Len() > 0 {
				t.Errorf("told after %d rounds:\n%s", rounds-1, told.String())
			}
			return quorum.Status{Elected: rounds > rivalRounds}
		}
		founder.founding = &quorum.Founding{Lineage: own}
		founder.watchOvertaken([]quorum.Member{{ID: 1}, {ID: 2, Addrs: []string{l.Addr().String()}}}, func(err error) {
			t.Errorf("it gives up: %v", err)
		})
		for _, text := range []string{"neither has a leader", "server=2", "0000000000000f02", "0000000000000f01"} {
			if strings.Contains(told.String(), text) != (own == 0xf01) {
				t.Errorf("the server of %x is told:\n%s", own, told.String())
			}
		}
		founder.close()
	}
}

// TestAnotherServerAnswers: a server line leads to another server than it names. What that one says, whether it finds
// out how to begin or has data, isn't what the named one says.
func TestAnotherServerAnswers(t *testing.T) {
	t.Parallel()
	empty, full := listenLocal(t), listenLocal(t)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	discovering(ctx, 3, []quorum.Member{{ID: 1}, {ID: 2}, {ID: 3}}, empty, sharing("a secret"))
	running := newTransport(3, 7, sharing("a secret"), slog.New(slog.DiscardHandler))
	defer running.close()
	running.standing = func() quorum.Status { return quorum.Status{Elected: true} }
	running.setPeer(1, []string{"127.0.0.1:1"})
	running.listen(full)
	asker := newTransport(1, 0, sharing("a secret"), slog.New(slog.DiscardHandler))
	defer asker.cancel()
	never := func(*quorum.Founding) bool { return false }
	for what, l := range map[string]net.Listener{"empty": empty, "with data": full} {
		addrs := []string{l.Addr().String()}
		a := asker.askWhat(ctx, quorum.Member{ID: 3, Addrs: addrs}, false, never)
		if a.Err != nil || a.Claim == nil && a.Cluster == 0 {
			t.Errorf("server 3, %s, says nothing of itself: %+v", what, a)
		}
		for _, asksToJoin := range []bool{false, true} {
			a := asker.askWhat(ctx, quorum.Member{ID: 2, Addrs: addrs}, asksToJoin, never)
			if a.Claim != nil || a.Cluster != 0 || a.NobodyListens || a.Err == nil ||
				!strings.Contains(a.Err.Error(), "this is server 3, you asked for 2") {
				t.Errorf("server 3, %s, answers in the place of server 2: %+v", what, a)
			}
		}
		if !asker.reaches(ctx, addrs[0], 3) {
			t.Errorf("server 3, %s, isn't reached", what)
		}
	}
}

// TestClaimAnswerLimit reads answers of the largest size, and one byte more.
func TestClaimAnswerLimit(t *testing.T) {
	t.Parallel()
	for _, over := range []int{0, 1} {
		answer := quorum.AppendBegun(nil, 7, true, 2, nil)
		answer = append(answer, make([]byte, quorum.AnswerSizeMax+over-len(answer))...)
		b := append(binary.BigEndian.AppendUint32(nil, uint32(len(answer))), answer...)
		if a, err := readClaimAnswer(bytes.NewReader(b)); (err != nil) != (over > 0) || over == 0 && a.Cluster != 7 {
			t.Errorf("%d bytes are read as %+v, %v", len(answer), a, err)
		}
	}
}
