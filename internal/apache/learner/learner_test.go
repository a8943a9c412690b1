package learner

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"reflect"
	"strings"
	"testing"

	"github.com/zooid-project/zooid/jute"
)

// txn is a transaction that does nothing, and is large if n is.
func txn(zxid int64, n int) []byte {
	b := jute.AppendInt(jute.AppendLong(nil, 1), 1)
	b = jute.AppendInt(jute.AppendLong(jute.AppendLong(b, zxid), 5), int32(jute.OpError))
	return append(jute.AppendInt(b, -101), make([]byte, n)...)
}

func epochPacket(epoch int64) Packet {
	return Packet{LeaderHello, epoch << 32, jute.AppendInt(nil, protocolVersion)}
}

// zxids returns those of records.
func zxids(records [][]byte) (all []int64) {
	for _, r := range records {
		all = append(all, int64(binary.BigEndian.Uint64(r[12:])))
	}
	return all
}

// TestJoin: an observer's way from its first word to the leader's pings.
func TestJoin(t *testing.T) {
	t.Parallel()
	l, send := New(Options{ID: 200, AcceptedEpoch: 4, CurrentEpoch: 3, Zxid: 0x300000005, ConfigVersion: 0x100})
	first, err := (&Reader{R: bytes.NewReader(send)}).Next()
	if err != nil || first.Type != ObserverHello || first.Zxid != 4<<32 || len(first.Data) != 20 || first.Data[7] != 200 ||
		first.Data[19] != 0 {
		t.Fatalf("%+v, %v", first, err)
	}
	config := "server.1=a:1:2\nversion=5"
	for i, step := range []struct {
		packet  Packet
		send    Packet // Type 0 for nothing
		zxids   []int64
		accept  int64
		current int64
		live    bool
		config  string
		pinged  int64
	}{
		{packet: epochPacket(5), accept: 5, send: Packet{AckEpoch, 0x300000005, jute.AppendInt(nil, 3)}},
		{packet: Packet{Type: Diff, Zxid: 0x500000000}},
		{packet: Packet{Proposal, 0x300000006, txn(0x300000006, 0)}},
		{packet: Packet{Type: Commit, Zxid: 0x300000006}, zxids: []int64{0x300000006}},
		{packet: Packet{Inform, 0x400000001, txn(0x400000001, 0)}, zxids: []int64{0x400000001}},
		{packet: Packet{NewLeader, 5 << 32, []byte(config)}, current: 5, send: Packet{Ack, 5 << 32, nil}},
		{packet: Packet{Inform, 0x500000001, txn(0x500000001, 0)}, zxids: []int64{0x500000001}},
		{packet: Packet{Type: UpToDate, Zxid: -1}, live: true, config: config, send: Packet{Ack, 5 << 32, nil}},
		{packet: Packet{Type: Ping, Zxid: 0x500000009}, pinged: 0x500000009, send: Packet{Ping, 0x500000009, []byte{}}},
		{packet: Packet{
			InformAndActivate, 0x500000002, append(jute.AppendLong(nil, 2), reconfig(0x500000002, "server.2=b:1:2")...),
		}, zxids: []int64{0x500000002}, config: "server.2=b:1:2"},
	} {
		have, err := l.Step(&step.packet)
		if err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
		var want []byte
		if step.send.Type != 0 {
			want = step.send.Append(nil)
		}
		if !bytes.Equal(have.Send, want) || !reflect.DeepEqual(zxids(have.Records), step.zxids) ||
			have.Accept != step.accept || have.Current != step.current ||
			have.Live != step.live || string(have.Config) != step.config || have.Proposed != step.pinged {
			t.Errorf("step %d, %v: %+v", i, step.packet.Type, have)
		}
	}
	if l.Zxid() != 0x500000002 {
		t.Errorf("at zxid %#x", l.Zxid())
	}
}

func reconfig(zxid int64, text string) []byte {
	b := txn(zxid, 0)
	binary.BigEndian.PutUint32(b[28:], uint32(jute.OpReconfig))
	b = jute.AppendString(b[:32], "/zookeeper/config")
	return jute.AppendInt(jute.AppendBuffer(b, []byte(text)), 1)
}

// at returns a learner that waits for NEWLEADER, with all up to zxid 0x500000003.
func at(t *testing.T, choice Type) *Learner {
	t.Helper()
	l, _ := New(Options{AcceptedEpoch: 5, CurrentEpoch: 5, Zxid: 0x500000003})
	hello := epochPacket(5)
	for _, p := range []*Packet{&hello, {Type: choice, Zxid: 0x500000003}} {
		if _, err := l.Step(p); err != nil {
			t.Fatal(err)
		}
	}
	return l
}

// TestSnapshotIsFuzzy: what a snapshot may have comes again, until the leader's state is taken over.
func TestSnapshotIsFuzzy(t *testing.T) {
	t.Parallel()
	l := at(t, Snap)
	for _, zxid := range []int64{0x500000002, 0x500000003, 0x500000004} {
		if s, err := l.Step(&Packet{Inform, zxid, txn(zxid, 0)}); err != nil || len(s.Records) != 1 {
			t.Errorf("%#x: %+v, %v", zxid, s, err)
		}
	}
	if _, err := l.Step(&Packet{Type: NewLeader, Zxid: 5 << 32}); err != nil {
		t.Fatal(err)
	}
	if _, err := l.Step(&Packet{Inform, 0x500000004, txn(0x500000004, 0)}); !errors.Is(err, ErrStartOver) {
		t.Errorf("again later: %v", err)
	}
}

// TestRefused: packets that don't belong where they come, or say what can't be.
func TestRefused(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from    Options
		packets []Packet
		says    string
	}{
		"old protocol":   {packets: []Packet{{Type: LeaderHello, Zxid: 1 << 32}}, says: "protocol"},
		"no epoch":       {packets: []Packet{epochPacket(0)}, says: "epoch is 0"},
		"large epoch":    {packets: []Packet{epochPacket(1<<31 - 1)}, says: "epoch"},
		"former leader":  {from: Options{AcceptedEpoch: 9}, packets: []Packet{epochPacket(8)}, says: "promised"},
		"out of place":   {packets: []Packet{{Type: UpToDate}}, says: "want LEADERINFO"},
		"ping too early": {packets: []Packet{{Type: Ping}}, says: "want LEADERINFO"},
		"no choice":      {packets: []Packet{epochPacket(5), {Type: NewLeader, Zxid: 5 << 32}}, says: "want DIFF"},
		"trunc":          {packets: []Packet{epochPacket(5), {Type: Trunc, Zxid: 3}}, says: "has another history"},
		"negative":       {packets: []Packet{epochPacket(5), {Type: Snap, Zxid: -3}}, says: "SNAP"},
		"other epoch": {
			packets: []Packet{epochPacket(5), {Type: Diff}, {Type: NewLeader, Zxid: 6 << 32}}, says: "but announced",
		},
		"large config": {
			packets: []Packet{epochPacket(5), {Type: Diff}, {NewLeader, 5 << 32, make([]byte, ConfigBytesMax+1)}},
			says:    "configuration",
		},
		"commit alone": {packets: []Packet{epochPacket(5), {Type: Diff}, {Type: Commit, Zxid: 1}}, says: "hasn't proposed"},
		"other zxid": {
			packets: []Packet{epochPacket(5), {Type: Diff}, {Inform, 1, txn(2, 0)}}, says: "transaction's is 0x2",
		},
		"short txn": {packets: []Packet{epochPacket(5), {Type: Diff}, {Type: Inform, Zxid: 1}}, says: "0 bytes"},
		"gap": {
			packets: []Packet{epochPacket(5), {Type: Diff}, {Inform, 2, txn(2, 0)}}, says: "has another history",
		},
		"backwards": {
			from: Options{Zxid: 7}, packets: []Packet{epochPacket(5), {Type: Diff}, {Inform, 7, txn(7, 0)}},
			says: "has another history",
		},
		"epoch's middle": {
			packets: []Packet{epochPacket(5), {Type: Diff}, {Inform, 0x500000002, txn(0x500000002, 0)}},
			says:    "has another history",
		},
		"short activate": {
			packets: []Packet{epochPacket(5), {Type: Diff}, {InformAndActivate, 1, []byte{1}}}, says: "INFORMANDACTIVATE",
		},
		"a follower's": {packets: []Packet{epochPacket(5), {Type: Diff}, {Type: Request}}, says: "REQUEST"},
		"unknown":      {packets: []Packet{epochPacket(5), {Type: Diff}, {Type: 77}}, says: "type 77"},
	} {
		l, _ := New(c.from)
		for i, p := range c.packets {
			_, err := l.Step(&p)
			if last := i == len(c.packets)-1; last && (err == nil || !strings.Contains(err.Error(), c.says)) ||
				!last && err != nil {
				t.Errorf("%s: packet %d: %v; want %q", name, i, err, c.says)
			}
		}
	}
}

// TestProposalsAreBounded: a leader that commits nothing fills no memory.
func TestProposalsAreBounded(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 1 << 20} {
		l := at(t, Diff)
		var err error
		n := 0
		for ; err == nil && n < 2*proposalsMax; n++ {
			_, err = l.Step(&Packet{Proposal, int64(n), make([]byte, size)})
		}
		if err == nil || len(l.proposals) > proposalsMax || l.bytes > proposalBytesMax {
			t.Errorf("%d proposals of %d bytes are taken: %v", n, size, err)
		}
	}
}

// TestPackets: a packet's limits, each cut of one, and what a length alone costs.
func TestPackets(t *testing.T) {
	t.Parallel()
	p := Packet{Inform, 7, []byte("data")}
	b := p.Append(nil)
	if have, err := (&Reader{R: bytes.NewReader(b)}).Next(); err != nil || !reflect.DeepEqual(have, p) {
		t.Errorf("%+v, %v", have, err)
	}
	for cut := range b {
		_, err := (&Reader{R: bytes.NewReader(b[:cut])}).Next()
		if want := io.ErrUnexpectedEOF; cut == 0 && !errors.Is(err, io.EOF) || cut > 0 && !errors.Is(err, want) {
			t.Errorf("cut at %d: %v", cut, err)
		}
	}
	head := jute.AppendLong(jute.AppendInt(nil, 8), 7)
	id := func(n int) []byte { return make([]byte, n) }
	for name, c := range map[string]struct {
		bytes []byte
		ok    bool
	}{
		"identities": {
			jute.AppendBuffer(jute.AppendBuffer(jute.AppendInt(jute.AppendInt(head[:12:12], -1), 1), id(authBytesMax)), id(3)),
			true,
		},
		"a large identity": {
			jute.AppendBuffer(jute.AppendInt(jute.AppendInt(head[:12:12], -1), 1), id(authBytesMax+1)), false,
		},
		"many identities": {
			append(jute.AppendInt(jute.AppendInt(head[:12:12], -1), authEntriesMax+1), make([]byte, 8*authEntriesMax+8)...),
			false,
		},
		"negative": {jute.AppendInt(head[:12:12], -2), false},
		"large":    {jute.AppendInt(head[:12:12], DataBytesMax+1), false},
	} {
		_, err := (&Reader{R: bytes.NewReader(c.bytes)}).Next()
		if (err == nil) != c.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
	r := &Reader{R: bytes.NewReader(jute.AppendInt(head[:12:12], DataBytesMax))}
	if _, err := r.Next(); err == nil || cap(r.buf) > 2*readStep {
		t.Errorf("a length alone: %v, %d bytes", err, cap(r.buf))
	}
	large := Packet{Inform, 7, make([]byte, DataBytesMax)}
	if have, err := (&Reader{R: bytes.NewReader(large.Append(nil))}).Next(); err != nil || len(have.Data) != DataBytesMax {
		t.Errorf("at the limit: %d bytes, %v", len(have.Data), err)
	}
}

// TestParseConfig: server lines of every form.
func TestParseConfig(t *testing.T) {
	t.Parallel()
	text := "dataDir=/x\nserver.3=c:2888:3888:observer;2181\n server.1 = a:1:2 \nserver.2=[::1]:2888:3888:participant|b:2889:3889;0.0.0.0:2181\ngroup.1=1:2\nversion=10000000a"
	members, version, err := ParseConfig(text)
	want := []Member{
		{1, []string{"a:1"}, []string{"a:2"}, false, ""},
		{2, []string{"[::1]:2888", "b:2889"}, []string{"[::1]:3888", "b:3889"}, false, "[::1]:2181"},
		{3, []string{"c:2888"}, []string{"c:3888"}, true, "c:2181"},
	}
	if err != nil || version != 0x10000000a || !reflect.DeepEqual(members, want) {
		t.Errorf("%+v, %#x, %v", members, version, err)
	}
	if members, _, err := ParseConfig("server.1=zk-1.ü_x:1:2;$(x):2181"); err != nil || members[0].Client != "" {
		t.Errorf("a client address that is no host: %+v, %v", members, err)
	}
	many := ""
	for n := range membersMax + 1 {
		many += fmt.Sprintf("server.%d=a:1:2\n", n)
	}
	for _, text := range []string{
		"server.x=a:1:2",
		"server.1=a", "server.1=a:1", "server.1=a:1:x", "server.1=a:0:1", "server.1=:1:2", "server.1=[::1:1:2",
		"server.1=$(x):1:2", "server.1=a b:1:2", "server.1=-oX:1:2", "server.1=a`x`:1:2", "server.1=a'x:1:2|b:1:2",
		"server.1=a:1:2:3:4", "version=x", many, strings.Repeat("#", ConfigBytesMax+1),
	} {
		if members, _, err := ParseConfig(text); err == nil {
			t.Errorf("%.40q is taken: %+v", text, members)
		}
	}
}

// FuzzLeader: whatever a leader sends, a learner neither panics nor goes back.
func FuzzLeader(f *testing.F) {
	var good []byte
	hello := epochPacket(5)
	for _, p := range []Packet{
		hello, {Type: Diff}, {Proposal, 1, txn(1, 0)}, {Type: Commit, Zxid: 1},
		{NewLeader, 5 << 32, []byte("server.1=a:1:2")}, {Type: UpToDate}, {Type: Ping, Zxid: 1}, {Inform, 2, txn(2, 0)},
	} {
		good = p.Append(good)
	}
	f.Add(good)
	f.Fuzz(func(t *testing.T, b []byte) {
		r := &Reader{R: bytes.NewReader(b)}
		l, _ := New(Options{})
		for {
			p, err := r.Next()
			if err != nil {
				return
			}
			before := l.Zxid()
			s, err := l.Step(&p)
			if err != nil {
				return
			}
			if l.Zxid() < before && !s.Snapshot {
				t.Fatalf("zxid %#x after %#x", l.Zxid(), before)
			}
			if _, _, err := ParseConfig(string(s.Config)); err != nil {
				return
			}
		}
	})
}
