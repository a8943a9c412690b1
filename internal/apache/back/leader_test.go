package back

import (
	"bytes"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// leading5 returns a leader in epoch 5 with the state of a new server.
func leading5() *Leader {
	l := newLeader(0, func(string) {})
	l.renew(files.NewLive(), 5)
	return l
}

func hello(id, accepted int64) []byte {
	data := jute.AppendLong(jute.AppendInt(jute.AppendLong(nil, id), protocolVersion), 0)
	return (&learner.Packet{Type: learner.ObserverHello, Zxid: accepted << 32, Data: data}).Append(nil)
}

func packet(typ learner.Type, zxid int64, data []byte) []byte {
	return (&learner.Packet{Type: typ, Zxid: zxid, Data: data}).Append(nil)
}

// A scripted connection reads what a peer has sent already, and takes what it is sent.
type scripted struct {
	net.Conn
	in  io.Reader
	out bytes.Buffer
}

func (s *scripted) Read(p []byte) (int, error)         { return s.in.Read(p) }
func (s *scripted) Write(p []byte) (int, error)        { return s.out.Write(p) }
func (s *scripted) Close() error                       { return nil }
func (s *scripted) SetDeadline(time.Time) error        { return nil }
func (s *scripted) SetReadDeadline(time.Time) error    { return nil }
func (s *scripted) SetWriteDeadline(t time.Time) error { return nil }

// TestHostileObservers: what no observer says ends its connection with the reason.
func TestHostileObservers(t *testing.T) {
	t.Parallel()
	joined := func(more ...[]byte) []byte {
		b := append(hello(1, 4), packet(learner.AckEpoch, 0, jute.AppendInt(nil, 4))...)
		return append(append(b, packet(learner.Ack, 5<<32, nil)...), bytes.Join(more, nil)...)
	}
	for name, c := range map[string]struct {
		sends []byte
		says  string
	}{
		"nothing":         {nil, "EOF"},
		"a participant":   {packet(learner.FollowerHello, 0, make([]byte, 20)), "FOLLOWERINFO; want OBSERVERINFO"},
		"an old protocol": {packet(learner.ObserverHello, 0, make([]byte, 8)), "older than"},
		"no protocol":     {packet(learner.ObserverHello, 0, nil), "older than"},
		"another history": {hello(1, 6), "has another history"},
		"a later zxid": {
			append(hello(1, 4), packet(learner.AckEpoch, 5<<32|1<<20, jute.AppendInt(nil, 4))...), "it has to wait",
		},
		"a large hello": {packet(learner.ObserverHello, 0, make([]byte, helloBytesMax+1)), "at most 1024"},
		"a large epoch": {
			append(hello(1, 5), packet(learner.AckEpoch, 0, make([]byte, helloBytesMax+1))...), "at most 1024",
		},
		"no epoch":           {append(hello(1, 5), packet(learner.Ack, 0, nil)...), "want ACKEPOCH"},
		"a large packet":     {joined(packet(learner.Ping, 0, make([]byte, packetBytesMax+1))), "at most 8388608"},
		"what a leader says": {joined(packet(learner.Inform, 7, nil)), "it sends INFORM"},
		"garbage":            {joined([]byte("GET / HTTP/1.1\r\n\r\n........")), "type"},
		"its end": {joined(packet(learner.Ping, 0, []byte{}), packet(learner.Request, -1, []byte("x")),
			packet(learner.Revalidate, -1, []byte("x")),
			packet(learner.Ack, 5<<32, nil)), "EOF"},
	} {
		l := leading5()
		l.hasRead()
		err := l.serve(&scripted{in: bytes.NewReader(c.sends)})
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v; want %q", name, err, c.says)
		}
	}
}

// TestUnread: what an observer has isn't judged before the log has been read, as after each start.
func TestUnread(t *testing.T) {
	t.Parallel()
	later := append(hello(1, 4), packet(learner.AckEpoch, 5<<32|1<<20, jute.AppendInt(nil, 4))...)
	for name, sends := range map[string][]byte{"a later epoch": hello(1, 6), "a later zxid": later} {
		if err := leading5().serve(&scripted{in: bytes.NewReader(sends)}); !errors.Is(err, errNotRead) {
			t.Errorf("%s: %v; want %v", name, err, errNotRead)
		}
	}
}

// TestObserversMax: one observer too many is refused, and one that connects again takes the place of its former
// connection.
func TestObserversMax(t *testing.T) {
	t.Parallel()
	l := leading5()
	var all []*observer
	for id := range int64(observersMax) {
		o := &observer{l: l, id: id, conn: &scripted{}}
		if err := l.enter(o); err != nil {
			t.Fatal(err)
		}
		all = append(all, o)
	}
	if err := l.enter(&observer{l: l, id: 100, conn: &scripted{}}); err == nil {
		t.Errorf("more than %d are let in", observersMax)
	}
	again := &observer{l: l, id: 3, conn: &scripted{}}
	if err := l.enter(again); err != nil {
		t.Error(err)
	}
	l.leave(all[3])
	if l.observers[3] != again {
		t.Error("a former connection has put out its successor")
	}
	l.leave(again)
	if err := l.enter(&observer{l: l, id: 100, conn: &scripted{}}); err != nil {
		t.Error(err)
	}
}

// TestHistoryIsBounded: an observer that is behind what is kept gets a snapshot, and one within it doesn't.
func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	l := leading5()
	data := make([]byte, 1<<20)
	for n := range int64(historyBytesMax>>20 + 8) {
		txn := files.Txn{Zxid: 5<<32 + n + 1}
		op := files.SetData("/", data, int32(n+1))
		if err := l.publish(txn.Zxid, txn.Record(&op)); err != nil {
			t.Fatal(err)
		}
	}
	if l.bytes > historyBytesMax || len(l.history) < 32 {
		t.Fatalf("%d bytes in %d transactions", l.bytes, len(l.history))
	}
	for last, want := range map[int64]bool{
		l.before: true, l.before - 1: false, l.before + 3: true, l.zxid: true, l.zxid + 1: false, 4<<32 + 1: false,
	} {
		l.seen[1] = l.life
		o := &observer{l: l, id: 1, epoch: 5}
		missing, ok, err := o.begin(last)
		if err != nil || ok != want || ok && int64(len(missing)) != l.zxid-last || !ok && len(missing) > 0 {
			t.Errorf("from %#x: %d transactions, %t, %v", last, len(missing), ok, err)
		}
	}
	stranger := &observer{l: l, id: 2, epoch: 5}
	if missing, ok, _ := stranger.begin(0); ok || len(missing) > 0 {
		t.Errorf("an observer whose state isn't from here gets a snapshot: %t, and %d transactions", !ok, len(missing))
	}
	behind := &observer{l: l, id: 1, epoch: 5, life: l.life, next: l.first - 1}
	if _, err := behind.news(); !errors.Is(err, errEpoch) {
		t.Errorf("of one that falls behind: %v", err)
	}
}

// TestHeldIsBounded: no more of the log is read than is known to be committed, but for a bound.
func TestHeldIsBounded(t *testing.T) {
	t.Parallel()
	z := &zooid{t: t, dir: t.TempDir()}
	z.start()
	z.stop()
	s := &source{dirs: []string{z.dir}, leader: newLeader(0, func(string) {}), say: func(string) {}}
	if err := s.open(); err != nil {
		t.Fatal(err)
	}
	defer s.close()
	step := storage.LogStep{
		Committed: s.committed, Entries: []storage.LoggedEntry{{Index: 1000, Term: 9, Data: make([]byte, heldBytesMax/2+1)}},
	}
	if err := s.step(step); err != nil {
		t.Error(err)
	}
	step.Entries[0].Index++
	if err := s.step(step); !errors.Is(err, errFull) {
		t.Errorf("%d bytes are held: %v", s.heldBytes, err)
	}
	step.Entries[0].Index, step.Entries[0].Data = 1000, nil // what replaces them
	if err := s.step(step); err != nil || s.heldBytes > 1<<20 {
		t.Errorf("%d bytes are held: %v", s.heldBytes, err)
	}
}

// election is what an observer sends on the election port.
func election(id int64, version int64, address string, notifications ...[]byte) []byte {
	b := jute.AppendString(jute.AppendLong(jute.AppendLong(nil, version), id), address)
	for _, n := range notifications {
		b = jute.AppendBuffer(b, n)
	}
	return b
}

// TestElection: who looks for a leader is told, by a notification of Apache's form; others aren't answered.
func TestElection(t *testing.T) {
	t.Parallel()
	looking := make([]byte, 44)
	following := append(jute.AppendInt(nil, 1), make([]byte, 40)...)
	for name, c := range map[string]struct {
		sends   []byte
		answers int
		fails   bool
	}{
		"3.5":               {election(3, electionV1, "a:1", looking, following, append(looking, "config"...)), 2, false},
		"several addresses": {election(3, electionV2, "a:1|b:1", looking), 1, false},
		"old":               {election(3, 7, "a:1", looking), 0, true},
		"no address":        {election(3, electionV1, "", looking), 0, true},
		"a long address":    {election(3, electionV1, strings.Repeat("a", addressBytesMax+1), looking), 0, true},
		"id 0":              {election(0, electionV1, "a:1", looking), 0, true},
		"a low id":          {election(-1, electionV1, "a:1", looking), 0, true},
		"short":             {election(3, electionV1, "a:1", looking[:notificationBytes-1], looking), 0, false},
		"long":              {election(3, electionV1, "a:1", make([]byte, notificationBytesMax+1), looking), 0, false},
		"cut":               {election(3, electionV1, "a:1", looking)[:40], 0, false},
		"nothing":           {nil, 0, true},
	} {
		conn := &scripted{in: bytes.NewReader(c.sends)}
		err := leading5().elect(conn)
		if (err != nil) != c.fails || conn.out.Len() != c.answers*(4+44-4) {
			t.Errorf("%s: %d bytes of answers, %v", name, conn.out.Len(), err)
		}
		if advice := err != nil && strings.Contains(err.Error(), "zooid export"); advice != (name == "id 0") {
			t.Errorf("%s: %v", name, err)
		}
		if c.answers == 0 {
			continue
		}
		be, b := binary.BigEndian, conn.out.Bytes()
		if be.Uint32(b) != 40 || be.Uint32(b[4:]) != stateLeading || be.Uint64(b[8:]) != 0 || be.Uint64(b[24:]) != 5 ||
			be.Uint64(b[32:]) != 5 || be.Uint32(b[40:]) != 1 {
			t.Errorf("%s: %x", name, b)
		}
	}
}

// TestStrangers: a connection from another address, and one too many, are closed unheard.
func TestStrangers(t *testing.T) {
	t.Parallel()
	open := newConnections()
	port, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		o := &Options{From: []netip.Addr{netip.MustParseAddr("192.0.2.1")}, Say: func(string) {}}
		accept(port, o, open, func(net.Conn) error { t.Error("it is served"); return nil })
	}()
	conn, err := net.Dial("tcp", port.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(make([]byte, 1)); err == nil {
		t.Error("a stranger gets an answer")
	}
	conn.Close()
	port.Close()
	<-done
	for range connectionsMax {
		if !open.add(&scripted{}) {
			t.Fatal("refused too early")
		}
	}
	if open.add(&scripted{}) {
		t.Errorf("more than %d connections", connectionsMax)
	}
}

// FuzzPeers: no bytes from an observer do more than end its connection.
func FuzzPeers(f *testing.F) {
	f.Add(append(hello(1, 4), packet(learner.AckEpoch, 0, jute.AppendInt(nil, 4))...))
	f.Add(election(3, electionV1, "a:1", make([]byte, 44)))
	f.Fuzz(func(_ *testing.T, sent []byte) {
		l := leading5()
		l.serve(&scripted{in: bytes.NewReader(sent)})
		l.elect(&scripted{in: bytes.NewReader(sent)})
		l.logins = &Logins{mechanism: sasl.NewPeerDigestMD5(map[string]string{"peer": "x"}, rand.Reader)}
		l.serve(&scripted{in: bytes.NewReader(sent)})
		l.elect(&scripted{in: bytes.NewReader(sent)})
	})
}
