package quorum

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// claimOf returns an answer of a server that is finding out how to begin, with these data.
func claimOf(id uint64, holds Holding, more ...func(c *Claim)) Answer {
	c := &Claim{Life: id * 1000, Members: threeLines(), Holds: holds, Follows: 1, Level: 3}
	for _, m := range more {
		m(c)
	}
	return Answer{Claim: c}
}

func joinsOnly(c *Claim) { c.JoinsOnly = true }

// TestRound: what a server does after one round of questions, by the answers of the others. Unless changed, it is
// server 1 of three, and holds nothing.
func TestRound(t *testing.T) {
	t.Parallel()
	empty, nobody := claimOf(2, Holding{}), Answer{NobodyListens: true}
	three := claimOf(3, Holding{})
	founding := &Founding{Lineage: 5, Term: 3, Base: dataA, Voters: []uint64{1, 2, 3}, With: []Founder{{2, 2000}}}
	begun := func(elected bool, leader uint64, f *Founding) Answer {
		return Answer{Cluster: 5, Elected: elected, Leader: leader, Founding: f}
	}
	for _, c := range []struct {
		what     string
		is       func(q *Inquiry)
		two      Answer
		three    Answer
		founds   bool
		joins    bool
		says     string // a part of what it waits for; if it doesn't begin
		data     []uint64
		misses   bool
		follows  uint64
		nothing  bool // it waits for nothing else
		overtook bool
	}{
		{what: "all empty", two: empty, three: three, founds: true, follows: 1},
		{what: "let in", two: Answer{Cluster: 5, Elected: true, Join: JoinReply{Go: true, Index: 9, Term: 4}}, three: three,
			joins: true},
		{what: "let in, and it has data", is: func(q *Inquiry) { q.Holds = dataA },
			two:   Answer{Cluster: 5, Elected: true, Join: JoinReply{Go: true, Index: 9, Term: 4}},
			three: three, says: "server 2 belongs to an ensemble (cluster 0000000000000005), which this server's data isn't of",
			data: []uint64{2}},
		{what: "the same id", two: Answer{Join: JoinReply{DuplicateID: true}}, three: three,
			says: "server 2 says that a server 1 is running already: two servers have the same myid", data: []uint64{2}},
		{what: "an ensemble", two: begun(true, 2, nil), three: three,
			says: "server 2 belongs to an ensemble (cluster 0000000000000005), and its leader, server 2, must let this server in",
			data: []uint64{2}, nothing: true},
		{what: "an ensemble with a strange leader", two: begun(true, 9, nil), three: three,
			says: "whose leader, server 9, this server's lines don't name", data: []uint64{2}, nothing: true},
		{what: "an ensemble without a leader", two: begun(true, 0, nil), three: three,
			says: "that has no leader: start its other servers; if their data is lost, see 'zooid recover' on server 2",
			data: []uint64{2}, nothing: true},
		{what: "one that knows an ensemble", two: claimOf(2, Holding{}, func(c *Claim) { c.Known = true }), three: three,
			says: "server 2 belongs to no ensemble either, and knows a server that does", data: []uint64{2}, nothing: true},
		{what: "one that misses a server", two: claimOf(2, Holding{}, func(c *Claim) { c.Misses = true }), three: three,
			founds: true, data: []uint64{2}, follows: 1},
		{what: "it takes part", two: begun(false, 0, &Founding{
			Lineage: 5, Voters: []uint64{1, 2, 3}, With: []Founder{{1, 1000}},
		}), three: three, founds: true},
		{what: "it took part in an earlier start", two: begun(false, 0, &Founding{
			Lineage: 5, Voters: []uint64{1, 2, 3}, With: []Founder{{1, 999}},
		}), three: three, founds: true},
		{what: "founded with data", two: begun(false, 0, founding), three: three,
			says:    "server 2 has founded an ensemble (cluster 0000000000000005) without this server, which joins once",
			nothing: true},
		{what: "founded without it", two: begun(false, 0, &Founding{Lineage: 5, Voters: []uint64{2, 3}}), three: three,
			says: "which joins once that has a leader", nothing: true},
		{what: "founded, and one is missing", two: begun(false, 0, &Founding{Lineage: 5, Voters: []uint64{1, 2, 3}}),
			three: Answer{Err: errors.New("timeout")},
			says:  "it takes part once servers [3] answer and hold no other data. If one of these is lost permanently, stop server 2"},
		{what: "founded, and one has data", two: begun(false, 0, &Founding{Lineage: 5, Voters: []uint64{1, 2, 3}}),
			three: claimOf(3, dataA), says: "it takes part once servers [3] answer", data: []uint64{3}, nothing: true},
		{what: "overtaken", is: func(q *Inquiry) { q.Holds = dataA }, two: begun(true, 2, founding), three: nobody,
			overtook: true, data: []uint64{2}},
		{what: "overtaken by an election", is: func(q *Inquiry) { q.Holds = longer }, two: begun(true, 2, founding),
			three: nobody,
			says:  "this server has data of its own (11 znodes up to zxid 0x300000009, digest 0000000000000062, of cluster 0000000000000007), which no ensemble takes over",
			data:  []uint64{2}},
		{what: "one serves", two: Answer{NobodyListens: true, Serves: "h:2181"}, three: three,
			says: "server 2 serves clients at h:2181, and doesn't have these server lines", data: []uint64{2}},
		{what: "one held data", is: func(q *Inquiry) { q.Heard = []uint64{2} }, two: nobody, three: three,
			says: "server 2 held data, or knew of some, when it last answered (if", data: []uint64{2}, misses: true},
		{what: "one held data, and says why it doesn't answer", is: func(q *Inquiry) { q.Heard = []uint64{2} },
			two: Answer{Err: errOdd}, three: three, says: "doesn't answer now: " + errOdd.Error(), data: []uint64{2},
			misses: true},
		{what: "one held data and has none any more", is: func(q *Inquiry) { q.Heard = []uint64{2} }, two: empty,
			three:  three,
			founds: true, follows: 1},
		{what: "a stranger held data", is: func(q *Inquiry) { q.Heard = []uint64{9} }, two: empty, three: three,
			says: "server 9 held data, or knew of some, when it last answered, and isn't named by the server lines any more",
			data: []uint64{9}, misses: true},
		{what: "it held data itself under this id", is: func(q *Inquiry) { q.Heard = []uint64{1} }, two: empty, three: three,
			says: "server 1 held data, or knew of some", data: []uint64{1}, misses: true},
		{what: "one is silent", two: Answer{Err: errOdd}, three: three,
			says: "server 2 has not said what it holds: " + errOdd.Error()},
		{what: "one isn't running", two: nobody, three: three,
			says: "server 2 isn't running (nobody listens at h2:2888), and may be about to start"},
		{what: "one has no name", two: Answer{NoSuchName: true}, three: three,
			says: "server 2 isn't running (no such name: h2:2888), and may be about to start"},
		{what: "an observer is silent", is: func(q *Inquiry) { q.Members[1].Observer = true }, two: Answer{Err: errOdd},
			three: claimOf(3, Holding{}, func(c *Claim) { c.Members[1].Observer = true }), founds: true, follows: 1},
		{what: "an observer has data", is: func(q *Inquiry) { q.Members[1].Observer = true }, two: claimOf(2, dataA),
			three: claimOf(3, Holding{}, func(c *Claim) { c.Members[1].Observer = true }),
			says:  "server 2 is an observer and has data (10 znodes", data: []uint64{2}},
		{what: "other lines", two: claimOf(2, Holding{}, func(c *Claim) { c.Members = c.Members[:2] }), three: three,
			says: "server 2 has other voters in its server lines ([1 2]) than this server ([1 2 3])"},
		{what: "different data", is: func(q *Inquiry) { q.Holds = dataA }, two: claimOf(2, longer), three: three,
			says: "; server 2 has the latest zxid. Set the data of the others aside ('zooid recover -set-aside'), or run 'zooid found' on the one whose data counts (this is server 1)",
			data: []uint64{2}},
		{what: "the same data", is: func(q *Inquiry) { q.Holds = dataA }, two: claimOf(2, dataA), three: three, founds: true,
			data: []uint64{2}, follows: 1},
		{what: "another one's data", two: claimOf(2, dataA), three: three,
			says: "server 2 is to found the ensemble, with this server among others", data: []uint64{2}, follows: 2,
			nothing: true},
		{what: "it joins only", is: func(q *Inquiry) { q.JoinsOnly = true }, two: empty, three: three,
			says: "this server must not found an ensemble, only join one", follows: 2},
		{what: "all join only", is: func(q *Inquiry) { q.JoinsOnly = true }, two: claimOf(2, Holding{}, joinsOnly),
			three: claimOf(3, Holding{}, joinsOnly), says: "only join one", nothing: true},
		{what: "most join only", two: claimOf(2, Holding{}, joinsOnly), three: claimOf(3, Holding{}, joinsOnly),
			says: "1 of 3 voters are here, and an ensemble needs more than half", follows: 1, nothing: true},
		{what: "one joins only", two: claimOf(2, Holding{}, joinsOnly), three: three, founds: true, follows: 1},
		{what: "most join only, and it has data", is: func(q *Inquiry) { q.Holds = dataA },
			two: claimOf(2, Holding{}, joinsOnly), three: claimOf(3, Holding{}, joinsOnly), founds: true, follows: 1},
		{what: "one hasn't found out", two: claimOf(2, Holding{}, func(c *Claim) { c.Follows = 0 }), three: three,
			says: "server 2 has not found out yet that this server is to found the ensemble", follows: 1, nothing: true},
		{what: "an observer with data", is: func(q *Inquiry) {
			q.Members[0].Observer = true
			q.Holds = dataA
		}, two: claimOf(2, Holding{}, func(c *Claim) { c.Members[0].Observer = true }),
			three: claimOf(3, Holding{}, func(c *Claim) { c.Members[0].Observer = true }),
			says:  "and isn't a voter in its server lines"},
	} {
		q := &Inquiry{Self: 1, Life: 1000, Members: threeLines(), Lineage: 0xf01, Level: 4,
			Patience: Patience{Listens: testPatience, Name: 2 * testPatience}}
		if c.is != nil {
			c.is(q)
		}
		b, waiting, ok := q.Round(0, map[uint64]Answer{2: c.two, 3: c.three}, false)
		said := strings.Join(waiting, " | ")
		if begins := c.founds || c.joins || c.overtook; ok != begins || ok && len(waiting) > 0 || !ok && c.says == "" ||
			!strings.Contains(said, c.says) || c.nothing && len(waiting) != 1 {
			t.Errorf("%s: begins: %t, it waits for %q", c.what, ok, said)
		}
		if (b.Founding != nil) != c.founds || b.Overtaken != c.overtook ||
			c.joins && (b.Cluster != 5 || b.JoinedAfter != 9 || b.JoinedTerm != 4) || c.overtook && b.Cluster != 5 {
			t.Errorf("%s: %+v", c.what, b)
		}
		if got := q.Claim(); !slices.Equal(q.Data(), c.data) || got.Misses != c.misses || got.Follows != c.follows ||
			got.Life != q.Life || got.Level != q.Level || got.Holds != q.Holds || got.JoinsOnly != q.JoinsOnly {
			t.Errorf("%s: servers %v hold data; it claims %+v", c.what, q.Data(), got)
		}
	}
}

// TestPatienceOfRounds: an absent server is waited for, and longer if its name doesn't exist, counted from when it was
// first absent in that way.
func TestPatienceOfRounds(t *testing.T) {
	t.Parallel()
	const long = 10 * testPatience
	nobody, noName, three := Answer{NobodyListens: true}, Answer{NoSuchName: true}, claimOf(3, Holding{})
	for what, c := range map[string]struct {
		two    []Answer // of rounds, the last one at the time now
		now    int64
		founds bool
	}{
		"not long enough":             {[]Answer{nobody, nobody}, testPatience - 1, false},
		"long enough":                 {[]Answer{nobody, nobody}, testPatience, true},
		"no name, not long enough":    {[]Answer{noName, noName}, 2*testPatience - 1, false},
		"no name":                     {[]Answer{noName, noName}, 2 * testPatience, true},
		"no name, then nobody":        {[]Answer{noName, nobody}, long, false},
		"nobody, then no name":        {[]Answer{nobody, noName}, long, false},
		"an answer between":           {[]Answer{nobody, {Err: errOdd}, nobody}, long, false},
		"a timeout":                   {[]Answer{nobody, {Err: errOdd}}, long, false},
		"from the first round on":     {[]Answer{nobody, nobody, nobody}, testPatience, true},
		"only in the last two rounds": {[]Answer{{Err: errOdd}, nobody, nobody}, testPatience, true},
	} {
		q := &Inquiry{Self: 1, Life: 1000, Members: threeLines(), Lineage: 0xf01,
			Patience: Patience{Listens: testPatience, Name: 2 * testPatience}}
		founds := false
		for n, two := range c.two {
			now := int64(0)
			if n == len(c.two)-1 {
				now = c.now
			}
			_, _, founds = q.Round(now, map[uint64]Answer{2: two, 3: three}, false)
		}
		if founds != c.founds {
			t.Errorf("%s: it founds: %t", what, founds)
		}
	}
}

// TestFoundingRecord: with whom, and with what, a server founds.
func TestFoundingRecord(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		what    string
		holds   Holding
		two     Answer
		three   Answer
		ordered bool
		with    []Founder
		voters  []uint64
		term    uint64
		level   uint32
	}{
		{"empty", Holding{}, claimOf(2, Holding{}), claimOf(3, Holding{}), false,
			[]Founder{{1, 1000}, {2, 2000}, {3, 3000}}, []uint64{1, 2, 3}, bootstrapTerm, 3},
		{"one joins only", Holding{}, claimOf(2, Holding{}, joinsOnly), claimOf(3, Holding{}), false,
			[]Founder{{1, 1000}, {3, 3000}}, []uint64{1, 2, 3}, bootstrapTerm, 3},
		{"data", dataA, claimOf(2, Holding{}), claimOf(3, dataA), false, []Founder{{1, 1000}, {3, 3000}},
			[]uint64{1, 3}, 3, 3},
		{"data of its own", dataA, claimOf(2, Holding{}), claimOf(3, Holding{}), false, []Founder{{1, 1000}}, []uint64{1}, 3,
			4},
		{"by an order", Holding{}, claimOf(2, Holding{}), Answer{Err: errOdd}, true, []Founder{{1, 1000}, {2, 2000}},
			[]uint64{1, 2}, bootstrapTerm, 3},
		{"by an order, with other data than the others", dataA, claimOf(2, longer), Answer{Err: errOdd}, true,
			[]Founder{{1, 1000}}, []uint64{1}, 3, 4},
	} {
		q := &Inquiry{Self: 1, Life: 1000, Members: threeLines(), Holds: c.holds, Lineage: 0xf01, Level: 4}
		answers := map[uint64]Answer{2: c.two, 3: c.three}
		b, waiting, ok := q.Round(0, answers, c.ordered)
		if c.ordered {
			if ok || !q.Claim().Ordered {
				t.Errorf("%s: it founds before the others have heard of the order", c.what)
			}
			b, waiting, ok = q.Round(0, answers, true)
		}
		f := b.Founding
		if !ok || f == nil {
			t.Errorf("%s: it waits for %v", c.what, waiting)
			continue
		}
		if !slices.Equal(f.With, c.with) || !slices.Equal(f.Voters, c.voters) || f.Term != c.term || f.Level != c.level ||
			f.Lineage != 0xf01 || f.Base != c.holds || b.Cluster != 0xf01 || b.Address != "h1:2888" {
			t.Errorf("%s: %+v, %+v", c.what, b, *f)
		}
	}
}
