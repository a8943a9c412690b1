package quorum

import (
	"encoding/binary"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

var (
	wholeClaim = Claim{
		Life: 1, JoinsOnly: true, Ordered: true, Known: true, Misses: true, Follows: 2,
		Holds:   Holding{Lineage: 3, Index: 4, Term: 5, Digest: 6, Zxid: 7, Znodes: 8},
		Members: []Member{{ID: 9, Addrs: []string{"a:1", "b"}}, {ID: 10, Observer: true}}, Level: 11,
	}
	wholeFounding = Founding{
		Lineage: 20, Term: 21, Base: wholeClaim.Holds, Voters: []uint64{22, 23},
		With: []Founder{{ID: 22, Life: 24}, {ID: 23, Life: 25}}, Level: 26,
	}
)

const holdingHex = "0000000000000003" + "0000000000000004" + "0000000000000005" + "0000000000000006" +
	"0000000000000007" + "0000000000000008"

// TestAnswerBytes: servers of other versions read these bytes.
func TestAnswerBytes(t *testing.T) {
	const claim = "01" + "0000000000000001" + "0f" + "0000000000000002" + holdingHex + "0002" +
		"0000000000000009" + "00" + "02" + "0003613a31" + "000162" + "000000000000000a" + "01" + "00" + "0000000b"
	const founding = "0000000000000014" + "0000000000000015" + holdingHex + "0002" + "0000000000000016" +
		"0000000000000017" + "0002" + "0000000000000016" + "0000000000000018" + "0000000000000017" + "0000000000000019" +
		"0000001a"
	for _, c := range []struct {
		name, hex string
		b         []byte
		want      Answer
	}{
		{"a claim", claim, AppendClaim(nil, wholeClaim), Answer{Claim: &wholeClaim}},
		{
			"one that knows nothing", "01" + strings.Repeat("0", 2*65) + "0000" + "00000000", AppendClaim(nil, Claim{}),
			Answer{Claim: &Claim{}},
		},
		{
			"founded", "02" + "0000000000000014" + "000000000000001b" + "01" + founding,
			AppendBegun(nil, 20, false, 27, &wholeFounding), Answer{Cluster: 20, Leader: 27, Founding: &wholeFounding},
		},
		{
			"elected", "03" + "0000000000000014" + "000000000000001b" + "00", AppendBegun(nil, 20, true, 27, nil),
			Answer{Cluster: 20, Leader: 27, Elected: true},
		},
	} {
		if got := hex.EncodeToString(c.b); got != c.hex {
			t.Errorf("%s: %s, want %s", c.name, got, c.hex)
		}
		for _, more := range []string{"", "what a later version adds"} {
			got, err := DecodeAnswer(append(c.b[:len(c.b):len(c.b)], more...))
			if err != nil || !reflect.DeepEqual(got, c.want) {
				t.Errorf("%s, then %q: %+v, %v", c.name, more, got, err)
			}
		}
	}
	f, err := DecodeFounding(EncodeFounding(&wholeFounding))
	if err != nil || !reflect.DeepEqual(*f, wholeFounding) {
		t.Errorf("how it was founded: %+v, %v", f, err)
	}
	if f, err := DecodeFounding(nil); f != nil || err != nil {
		t.Errorf("no file: %v, %v", f, err)
	}
}

// TestAnswerCutShort: an answer that ends too early is refused as a whole. The level is missing in those of the first
// version, so what has no room for one has level 0.
func TestAnswerCutShort(t *testing.T) {
	const level = 4
	for name, b := range map[string][]byte{
		"claim": AppendClaim(nil, wholeClaim), "founding": AppendBegun(nil, 20, false, 27, &wholeFounding),
		"begun": append(AppendBegun(nil, 20, true, 27, nil), make([]byte, level)...),
	} {
		for n := range b {
			a, err := DecodeAnswer(b[:n])
			if whole := n >= len(b)-level; (err == nil) != whole {
				t.Errorf("%s, %d of %d bytes: %v", name, n, len(b), err)
			}
			if err != nil && !reflect.DeepEqual(a, Answer{}) {
				t.Errorf("%s, %d of %d bytes: refused, and yet %+v", name, n, len(b), a)
			}
			if a.Claim != nil && a.Claim.Level != 0 || a.Founding != nil && a.Founding.Level != 0 {
				t.Errorf("%s, %d of %d bytes: it has a level", name, n, len(b))
			}
		}
	}
	b := EncodeFounding(&wholeFounding)
	for n := range b[:len(b)-level] {
		if f, err := DecodeFounding(b[:n]); n > 0 && err == nil {
			t.Errorf("%d of %d bytes of a file: %+v", n, len(b), f)
		}
	}
}

// TestAnswerOfNobody: a server that has begun names its ensemble, and no founding but that of this one.
func TestAnswerOfNobody(t *testing.T) {
	if a, err := DecodeAnswer(AppendBegun(nil, 0, true, 1, nil)); err == nil {
		t.Errorf("one of no ensemble: %+v", a)
	}
	a, err := DecodeAnswer(AppendBegun(nil, 5, true, 1, &wholeFounding))
	if err != nil || a.Founding != nil || a.Cluster != 5 {
		t.Errorf("with another ensemble's founding: %+v, %v", a, err)
	}
	for _, state := range []byte{0, byte(claimElected) + 1, 0xff} {
		if a, err := DecodeAnswer(append([]byte{state}, make([]byte, 200)...)); err == nil {
			t.Errorf("of state %d: %+v", state, a)
		}
	}
}

// TestAnswerAtTheLimit: lists of the largest size are read, and no larger ones, whoever wrote them.
func TestAnswerAtTheLimit(t *testing.T) {
	servers := make([]Member, claimServersMax+1)
	addrs := make([]string, claimAddrsMax+1)
	long := strings.Repeat("a", claimAddrMax+1)
	f := Founding{Lineage: 1, Voters: make([]uint64, claimServersMax+1), With: make([]Founder, claimServersMax+1)}
	a, err := DecodeAnswer(AppendClaim(nil, Claim{Members: servers}))
	if err != nil || len(a.Claim.Members) != claimServersMax {
		t.Errorf("%d servers: %v", len(servers), err)
	}
	a, err = DecodeAnswer(AppendClaim(nil, Claim{Members: []Member{{Addrs: addrs}}}))
	if err != nil || len(a.Claim.Members[0].Addrs) != claimAddrsMax {
		t.Errorf("%d addresses: %v", len(addrs), err)
	}
	a, err = DecodeAnswer(AppendClaim(nil, Claim{Members: []Member{{Addrs: []string{long}}}}))
	if err != nil || a.Claim.Members[0].Addrs[0] != long[:claimAddrMax] {
		t.Errorf("an address of %d bytes: %v", len(long), err)
	}
	a, err = DecodeAnswer(AppendBegun(nil, 1, true, 1, &f))
	if err != nil || len(a.Founding.Voters) != claimServersMax || len(a.Founding.With) != claimServersMax {
		t.Errorf("%d voters and founders: %v", len(f.Voters), err)
	}

	const members = 1 + 8 + 1 + 8 + 48 // where the count of members begins
	head := AppendClaim(nil, Claim{})[:members]
	room := make([]byte, 8<<10)
	count := func(b []byte, n uint16) []byte { return binary.BigEndian.AppendUint16(b[:len(b):len(b)], n) }
	one := func(addrs byte) []byte { return append(count(head, 1), 0, 0, 0, 0, 0, 0, 0, 1, 0, addrs) }
	for name, b := range map[string][]byte{
		"servers":          append(count(head, claimServersMax+1), room...),
		"addresses":        append(one(claimAddrsMax+1), room...),
		"an address":       append(count(one(1), claimAddrMax+1), room...),
		"an address, room": append(count(one(1), claimAddrMax), "short"...),
	} {
		if a, err := DecodeAnswer(b); err == nil {
			t.Errorf("%s beyond the limit: %+v", name, a)
		}
	}
}

// TestPromiseOf: what a message commits its sender to, and what commits it to nothing.
func TestPromiseOf(t *testing.T) {
	yes, no := false, true
	for _, c := range []struct {
		typ    pb.MessageType
		reject bool
		want   Promise
	}{
		{pb.MsgApp, yes, Promise{Term: 5, Vote: 1}}, {pb.MsgHeartbeat, yes, Promise{Term: 5, Vote: 1}},
		{pb.MsgVoteResp, yes, Promise{Term: 5, Vote: 2}}, {pb.MsgVoteResp, no, Promise{}},
		{pb.MsgAppResp, yes, Promise{Term: 5, Acked: 7}}, {pb.MsgAppResp, no, Promise{}},
		{pb.MsgVote, yes, Promise{}}, {pb.MsgPreVoteResp, yes, Promise{}}, {pb.MsgHeartbeatResp, yes, Promise{}},
		{pb.MsgSnap, yes, Promise{}},
	} {
		m := pb.Message{
			Type: c.typ.Enum(), From: proto.Uint64(1), To: proto.Uint64(2), Term: proto.Uint64(5), Index: proto.Uint64(7),
			Reject: proto.Bool(c.reject),
		}
		b, err := proto.Marshal(&m)
		if err != nil {
			t.Fatal(err)
		}
		p, ok := PromiseOf(b)
		if ok != (c.want != Promise{}) || ok && p != c.want {
			t.Errorf("%v, refused %v: %+v, %v", c.typ, c.reject, p, ok)
		}
	}
	if p, ok := PromiseOf([]byte{0xff}); ok || p != (Promise{}) {
		t.Errorf("what is no message promises %+v", p)
	}
}

// TestFrameSizes: frames of a kind that grows with the membership only are small ones, all others may hold a batch.
func TestFrameSizes(t *testing.T) {
	small := map[FrameKind]bool{
		FrameMembers: true, FrameClock: true, FrameDigest: true, FrameDrain: true, FrameDrainAnswer: true,
	}
	for k := range FrameKind(255) {
		if want := k.SizeMax() == smallFrameSizeMax; want != small[k] {
			t.Errorf("a frame of kind %d has at most %d bytes", k, k.SizeMax())
		}
	}
}

// TestClaimFlags: each flag of a claim has a bit of its own.
func TestClaimFlags(t *testing.T) {
	t.Parallel()
	for _, c := range []Claim{{}, {JoinsOnly: true}, {Known: true}, {Misses: true}, {Ordered: true}} {
		a, err := DecodeAnswer(AppendClaim(nil, c))
		if err != nil {
			t.Fatal(err)
		}
		if got := a.Claim; got.JoinsOnly != c.JoinsOnly || got.Known != c.Known || got.Misses != c.Misses ||
			got.Ordered != c.Ordered {
			t.Errorf("%+v arrives as %+v", c, *got)
		}
	}
}
