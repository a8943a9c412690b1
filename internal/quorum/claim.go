package quorum

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

// The encoding of an Answer, and of a Founding in a file:
//
//	answer    state(1), then a claim if the state is claimFinding, else what the server has begun
//	claim     life(8) flags(1) follows(8) holding members level(4)
//	begun     cluster(8) leader(8) founded(1); if founded isn't 0: lineage(8) term(8) holding
//	          count(2) first voters(8 each) count(2), for each founder: id(8) life(8); level(4)
//	holding   lineage(8) index(8) term(8) digest(8) zxid(8) znodes(8)
//	members   count(2), for each: id(8) observer(1) count(1), for each address: length(2) text
//
// Bytes that follow in the answer are ignored: later versions may add fields. The first version sent no levels.
type claimState byte

const (
	claimFinding claimState = iota + 1 // it belongs to no ensemble
	claimFounded                       // it has begun, and no leader has been elected yet
	claimElected
)

// Flags of a claim.
const (
	claimJoinsOnly = 1 << iota
	claimKnown
	claimMisses // earlier versions ignore it and claimOrdered
	claimOrdered
)

const (
	// AnswerSizeMax bounds an answer, in bytes.
	AnswerSizeMax = 64 << 10
	// claimServersMax bounds the servers in a list of an answer: there are 255 ids.
	claimServersMax = 255
	// claimAddrsMax and claimAddrMax bound the addresses of a server, and the bytes of one.
	claimAddrsMax = 16
	claimAddrMax  = 512
)

var errClaim = errors.New("its answer can't be read")

// flagIf returns flag if is, else 0.
func flagIf(is bool, flag byte) byte {
	if is {
		return flag
	}
	return 0
}

// AppendClaim appends the answer of a server that is still finding out how to begin.
func AppendClaim(b []byte, c Claim) []byte {
	b = append(b, byte(claimFinding))
	b = binary.BigEndian.AppendUint64(b, c.Life)
	flags := flagIf(c.JoinsOnly, claimJoinsOnly) | flagIf(c.Known, claimKnown) | flagIf(c.Misses, claimMisses) |
		flagIf(c.Ordered, claimOrdered)
	b = binary.BigEndian.AppendUint64(append(b, flags), c.Follows)
	b = appendHolding(b, c.Holds)
	members := c.Members[:min(len(c.Members), claimServersMax)]
	b = binary.BigEndian.AppendUint16(b, uint16(len(members)))
	for _, m := range members {
		observer, addrs := flagIf(m.Observer, 1), m.Addrs[:min(len(m.Addrs), claimAddrsMax)]
		b = append(binary.BigEndian.AppendUint64(b, m.ID), observer, byte(len(addrs)))
		for _, a := range addrs {
			a = a[:min(len(a), claimAddrMax)]
			b = append(binary.BigEndian.AppendUint16(b, uint16(len(a))), a...)
		}
	}
	return binary.BigEndian.AppendUint32(b, c.Level)
}

func appendHolding(b []byte, h Holding) []byte {
	for _, v := range []uint64{h.Lineage, h.Index, h.Term, h.Digest, uint64(h.Zxid), h.Znodes} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	return b
}

// AppendBegun appends the answer of a server that has begun; f is nil unless it has taken part in a founding.
func AppendBegun(b []byte, cluster uint64, elected bool, leader uint64, f *Founding) []byte {
	state := claimFounded
	if elected {
		state = claimElected
	}
	b = binary.BigEndian.AppendUint64(append(b, byte(state)), cluster)
	b = binary.BigEndian.AppendUint64(b, leader)
	if f == nil {
		return append(b, 0)
	}
	return appendFounding(append(b, 1), f)
}

func appendFounding(b []byte, f *Founding) []byte {
	b = binary.BigEndian.AppendUint64(b, f.Lineage)
	b = binary.BigEndian.AppendUint64(b, f.Term)
	b = appendHolding(b, f.Base)
	voters, with := f.Voters[:min(len(f.Voters), claimServersMax)], f.With[:min(len(f.With), claimServersMax)]
	b = binary.BigEndian.AppendUint16(b, uint16(len(voters)))
	for _, id := range voters {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	b = binary.BigEndian.AppendUint16(b, uint16(len(with)))
	for _, w := range with {
		b = binary.BigEndian.AppendUint64(binary.BigEndian.AppendUint64(b, w.ID), w.Life)
	}
	return binary.BigEndian.AppendUint32(b, f.Level)
}

// HeardName is the name of the kept file with the servers that Inquiry.Data returns.
const HeardName = "heard"

// EncodeHeard returns the content of the file HeardName.
func EncodeHeard(ids []uint64) []byte { return fmt.Appendf(nil, "%d\n", ids) }

// DecodeHeard decodes the content of the file HeardName; b is nil if there is no such file.
func DecodeHeard(b []byte) (ids []uint64, err error) {
	for f := range strings.FieldsSeq(strings.Trim(string(b), "[]\n")) {
		id, _ := strconv.ParseUint(f, 10, 64)
		ids = append(ids, id)
	}
	if b != nil && !bytes.Equal(b, EncodeHeard(ids)) {
		return nil, fmt.Errorf("it is damaged: %.100q", b)
	}
	return ids, nil
}

// FoundingName is the name of the kept file (storage.Dir.Keep) in which a server records the founding it took part in.
const FoundingName = "founding"

// EncodeFounding returns the content of the file FoundingName.
func EncodeFounding(f *Founding) []byte { return appendFounding(nil, f) }

// DecodeFounding decodes the content of the file FoundingName. It returns nil if b is nil: there is no such file.
func DecodeFounding(b []byte) (*Founding, error) {
	if b == nil {
		return nil, nil
	}
	d := &claimDecoder{b: b}
	f := d.founding()
	if d.short {
		return nil, fmt.Errorf("read how the ensemble was founded: %w", errClaim)
	}
	return f, nil
}

// claimDecoder reads fields; short is set once there are too few bytes, or a count is too large.
type claimDecoder struct {
	b     []byte
	short bool
}

func (d *claimDecoder) take(n int) []byte {
	if n > len(d.b) || d.short {
		d.short = true
		return make([]byte, 8)
	}
	b := d.b[:n]
	d.b = d.b[n:]
	return b
}

func (d *claimDecoder) byte() byte     { return d.take(1)[0] }
func (d *claimDecoder) uint64() uint64 { return binary.BigEndian.Uint64(d.take(8)) }

// count reads a count, which may be at most most.
func (d *claimDecoder) count(most int) int {
	n := int(binary.BigEndian.Uint16(d.take(2)))
	if n > most || d.short {
		d.short = true
		return 0
	}
	return n
}

func (d *claimDecoder) holding() Holding {
	return Holding{
		Lineage: d.uint64(), Index: d.uint64(), Term: d.uint64(), Digest: d.uint64(), Zxid: int64(d.uint64()),
		Znodes: d.uint64(),
	}
}

func (d *claimDecoder) claim() *Claim {
	c := &Claim{Life: d.uint64()}
	flags := d.byte()
	c.JoinsOnly, c.Known = flags&claimJoinsOnly != 0, flags&claimKnown != 0
	c.Misses, c.Ordered = flags&claimMisses != 0, flags&claimOrdered != 0
	c.Follows, c.Holds = d.uint64(), d.holding()
	for range d.count(claimServersMax) {
		m := Member{ID: d.uint64(), Observer: d.byte() != 0}
		addrs := int(d.byte())
		if addrs > claimAddrsMax {
			d.short = true
		}
		for i := 0; i < addrs && !d.short; i++ {
			m.Addrs = append(m.Addrs, string(d.take(d.count(claimAddrMax))))
		}
		c.Members = append(c.Members, m)
	}
	c.Level = d.level()
	return c
}

func (d *claimDecoder) founding() *Founding {
	f := &Founding{Lineage: d.uint64(), Term: d.uint64(), Base: d.holding()}
	for range d.count(claimServersMax) {
		f.Voters = append(f.Voters, d.uint64())
	}
	for range d.count(claimServersMax) {
		f.With = append(f.With, Founder{ID: d.uint64(), Life: d.uint64()})
	}
	f.Level = d.level()
	return f
}

// level returns the last field, or 0 if it is missing.
func (d *claimDecoder) level() uint32 {
	if len(d.b) < 4 {
		return 0
	}
	return binary.BigEndian.Uint32(d.take(4))
}

// DecodeAnswer decodes an answer.
func DecodeAnswer(b []byte) (a Answer, err error) {
	d := &claimDecoder{b: b}
	switch state := claimState(d.byte()); state {
	case claimFinding:
		a.Claim = d.claim()
	case claimFounded, claimElected:
		a.Elected = state == claimElected
		a.Cluster, a.Leader = d.uint64(), d.uint64()
		if d.byte() != 0 {
			a.Founding = d.founding()
		}
		if a.Founding != nil && a.Founding.Lineage != a.Cluster {
			a.Founding = nil
		}
		if a.Cluster == 0 {
			return Answer{}, errClaim
		}
	default:
		return Answer{}, errClaim
	}
	if d.short {
		return Answer{}, errClaim
	}
	return a, nil
}
