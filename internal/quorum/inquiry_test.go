package quorum

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
)

// inquiryWorld has servers that find out how to begin, and those that have begun.
type inquiryWorld struct {
	inquiries map[uint64]*Inquiry
	begun     map[uint64]Beginning
	elected   map[uint64]bool
	silent    map[[2]uint64]bool // asker and asked: the question has no answer
	noName    bool               // of those that don't run
	mute      uint64             // a server whose answers say nothing
	serves    uint64             // a server that serves clients, and has no server lines
	now       int64
}

const testPatience = 10_000

func threeLines() []Member {
	at := func(id uint64, addr string) Member { return Member{ID: id, Addrs: []string{addr}} }
	return []Member{at(1, "h1:2888"), at(2, "h2:2888"), at(3, "h3:2888")}
}

func newInquiryWorld() *inquiryWorld {
	return &inquiryWorld{
		inquiries: map[uint64]*Inquiry{}, begun: map[uint64]Beginning{}, elected: map[uint64]bool{},
		silent: map[[2]uint64]bool{},
	}
}

// start starts a server with what it holds.
func (w *inquiryWorld) start(id uint64, holds Holding, lines ...Member) *Inquiry {
	if len(lines) == 0 {
		lines = threeLines()
	}
	q := &Inquiry{
		Self: id, Life: id*1000 + uint64(w.now) + 1, Members: lines, Holds: holds, Lineage: 0xf00 + id,
		Patience: Patience{Listens: testPatience, Name: 6 * testPatience},
	}
	w.inquiries[id] = q
	return q
}

// answer returns what asked answers to asker.
func (w *inquiryWorld) answer(asker, asked uint64) (a Answer) {
	b, begun := w.begun[asked]
	q := w.inquiries[asked]
	switch {
	case asked == w.mute:
		return Answer{}
	case asked == w.serves:
		return Answer{Serves: "h:2181"}
	case w.silent[[2]uint64{asker, asked}]:
		return Answer{Err: errors.New("i/o timeout")}
	case begun:
		return Answer{Cluster: b.Cluster, Elected: w.elected[asked], Founding: b.Founding}
	case q != nil:
		return Answer{Claim: new(q.Claim())}
	}
	return Answer{NobodyListens: !w.noName, NoSuchName: w.noName}
}

// round has a server ask all others.
func (w *inquiryWorld) round(id uint64, ordered bool) (waiting []string) {
	q := w.inquiries[id]
	answers := map[uint64]Answer{}
	for _, m := range q.Members {
		if m.ID != id {
			answers[m.ID] = w.answer(id, m.ID)
		}
	}
	b, waiting, ok := q.Round(w.now, answers, ordered)
	if ok {
		w.begun[id] = b
		delete(w.inquiries, id)
	}
	return waiting
}

// run has all servers ask in turn for a time.
func (w *inquiryWorld) run(ms int64) (waiting map[uint64]string) {
	waiting = map[uint64]string{}
	for end := w.now + ms; w.now < end; w.now += 100 {
		for id := range uint64(5) {
			if w.inquiries[id+1] != nil {
				waiting[id+1] = strings.Join(w.round(id+1, false), "; ")
			}
		}
	}
	return waiting
}

var (
	dataA  = Holding{Lineage: 7, Index: 50, Term: 3, Digest: 99, Zxid: 0x300000001, Znodes: 10}
	longer = Holding{Lineage: 7, Index: 60, Term: 3, Digest: 98, Zxid: 0x300000009, Znodes: 11}
)

// TestServesIsWaitedFor: a server that serves clients without having the server lines holds data, also when it has been
// stopped since. The others wait until it says how it begins.
func TestServesIsWaitedFor(t *testing.T) {
	t.Parallel()
	w := newInquiryWorld()
	w.serves = 1
	w.start(2, Holding{})
	w.start(3, Holding{})
	waiting := w.run(3 * testPatience)
	if len(w.begun) > 0 || !strings.Contains(waiting[2], "server 1 serves clients at h:2181") {
		t.Fatalf("beside a server that serves clients: %v, %v", w.begun, waiting)
	}
	w.serves = 0
	waiting = w.run(3 * testPatience)
	if len(w.begun) > 0 || !strings.Contains(waiting[3], "server 1 held data, or knew of some, when it last answered") {
		t.Fatalf("once it has been stopped: %v, %v", w.begun, waiting)
	}
	w.start(1, dataA)
	w.run(1000)
	if f := w.begun[1].Founding; f == nil || f.Base != dataA || len(w.begun) != 1 { // the empty ones join that
		t.Errorf("once it has its lines: %+v", w.begun)
	}
}

// TestEmptyServersFound: three empty servers found one ensemble at once, two of three after nobody has listened at
// the third for long enough, and the third then finds an ensemble.
func TestEmptyServersFound(t *testing.T) {
	t.Parallel()
	w := newInquiryWorld()
	w.start(2, Holding{})
	w.start(3, Holding{})
	w.run(testPatience - 500)
	if len(w.begun) > 0 {
		t.Fatalf("two servers begin before the third had time to start: %v", w.begun)
	}
	w.run(1500)
	if w.begun[2].Founding == nil || w.begun[2].Cluster != 0xf02 || w.begun[3].Cluster != 0xf02 {
		t.Fatalf("two of three empty servers begin with %+v", w.begun)
	}
	if !slices.Equal(w.begun[3].Founding.Voters, []uint64{1, 2, 3}) {
		t.Errorf("the first voters are %v", w.begun[3].Founding.Voters)
	}
	w.elected[2], w.elected[3] = true, true
	w.start(1, Holding{})
	if waiting := w.run(1000); len(w.begun) != 2 || !strings.Contains(waiting[1], "belongs to an ensemble") {
		t.Errorf("the third begins with %+v; it waits because %s", w.begun[1], waiting[1])
	}
	w.elected[2], w.elected[3] = false, false // all answer, and nothing can have been acknowledged
	if w.run(1000); w.begun[1].Cluster != 0xf02 {
		t.Errorf("the third begins with %+v", w.begun[1])
	}
	w = newInquiryWorld()
	w.start(2, Holding{})
	w.start(3, Holding{})
	w.noName = true
	if w.run(5 * testPatience); len(w.begun) > 0 {
		t.Errorf("two servers begin before the third may have got a name: %+v", w.begun)
	}
	if w.run(2 * testPatience); len(w.begun) != 2 {
		t.Errorf("two of three servers begin with %+v, and the third has no name", w.begun)
	}
	w = newInquiryWorld()
	for id := range uint64(3) {
		w.start(id+1, Holding{})
	}
	w.run(500)
	if len(w.begun) != 3 || w.begun[1].Cluster != 0xf01 || w.begun[2].Cluster != 0xf01 || w.begun[3].Cluster != 0xf01 {
		t.Errorf("three empty servers begin with %+v", w.begun)
	}
}

// TestUnknownIsWaitedFor: whatever isn't known keeps a server from founding, however long it lasts.
func TestUnknownIsWaitedFor(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		third func(w *inquiryWorld)
		says  string
	}{
		"the third is silent": {func(w *inquiryWorld) {
			w.silent[[2]uint64{1, 3}], w.silent[[2]uint64{2, 3}] = true, true
		}, "server 3 has not said what it holds: i/o timeout"},
		"the third gives no answer at all": {func(w *inquiryWorld) {
			w.start(3, Holding{})
			w.mute = 3
		}, "server 3 has not said what it holds"},
		"the second can't reach the third": {func(w *inquiryWorld) {
			w.start(3, Holding{})
			w.silent[[2]uint64{2, 3}] = true
		}, "server 2 has not found out yet"},
		"the third has other lines": {func(w *inquiryWorld) {
			w.start(3, Holding{}, Member{ID: 1}, Member{ID: 2}, Member{ID: 3}, Member{ID: 4}, Member{ID: 5})
		}, "server 3 has other voters in its server lines ([1 2 3 4 5]) than this server ([1 2 3])"},
		"the third has begun, and doesn't say with whom": {func(w *inquiryWorld) {
			w.begun[3] = Beginning{Cluster: 5}
		}, "server 3 has founded an ensemble (cluster 0000000000000005) without this server"},
		"the third has begun alone": {func(w *inquiryWorld) {
			w.begun[3] = Beginning{Cluster: 5, Founding: &Founding{Lineage: 5, Term: 1, Voters: []uint64{3}}}
		}, "server 3 has founded an ensemble (cluster 0000000000000005) without this server"},
		"the third has begun by an order with an earlier start of the first": {func(w *inquiryWorld) {
			w.begun[3] = Beginning{Cluster: 5, Founding: &Founding{Lineage: 5, Term: 1, Voters: []uint64{1, 3}}}
			w.silent[[2]uint64{1, 2}] = true
		}, "once servers [2] answer and hold no other data. If one of these is lost permanently, stop server 3, run 'zooid recover -new-ensemble' there, and start it"},
		"the third belongs to an ensemble": {func(w *inquiryWorld) {
			w.begun[3], w.elected[3] = Beginning{Cluster: 5}, true
		}, "server 3 belongs to an ensemble (cluster 0000000000000005) that has no leader"},
		"the third belongs to an ensemble and only the second sees it": {func(w *inquiryWorld) {
			w.begun[3], w.elected[3] = Beginning{Cluster: 5}, true
			w.silent[[2]uint64{1, 3}] = true
		}, "server 2 belongs to no ensemble either, and knows a server that does"},
		"the second joins only, and nobody else is there": {func(w *inquiryWorld) {
			w.inquiries[2].JoinsOnly = true
		}, "1 of 3 voters are here, and an ensemble needs more than half; server 3 isn't running (nobody listens at h3:2888): start more"},
		"the second and third hold different data": {func(w *inquiryWorld) {
			w.inquiries[2].Holds = dataA
			w.start(3, longer)
		}, "server 3 has the latest zxid"},
	} {
		w := newInquiryWorld()
		w.start(1, Holding{})
		w.start(2, Holding{})
		c.third(w)
		waiting := w.run(5 * testPatience)
		if w.begun[1].Cluster != 0 || w.begun[2].Cluster != 0 || !strings.Contains(waiting[1], c.says) {
			t.Errorf("%s: they begin with %+v; server 1 waits because %q", name, w.begun, waiting[1])
		}
	}
}

// TestLateCopy: a copy isn't set aside while servers are in different ensembles, or before an election.
func TestLateCopy(t *testing.T) {
	t.Parallel()
	q := &Inquiry{Self: 2, Members: threeLines(), Holds: dataA}
	f := &Founding{Lineage: 5, Base: dataA, Voters: []uint64{1, 3}}
	elected, other := Answer{Cluster: 5, Elected: true, Founding: f}, Answer{Cluster: 6, Elected: true}
	for name, answers := range map[string]map[uint64]Answer{
		"two ensembles":       {1: elected, 3: other},
		"before the election": {1: {Cluster: 5, Founding: f}},
		"one of two":          {1: elected, 3: {Cluster: 5}},
		"other data":          {1: {Cluster: 5, Elected: true, Founding: &Founding{Lineage: 5, Base: longer}}},
		"unknown data":        {1: {Cluster: 5, Elected: true}},
	} {
		if b, _, ok := q.Round(0, answers, false); ok {
			t.Errorf("%s: %+v", name, b)
		}
	}
	empty := &Inquiry{Self: 2, Members: threeLines()}
	began := Answer{Cluster: 5, Elected: true, Founding: &Founding{Lineage: 5}}
	if b, _, ok := empty.Round(0, map[uint64]Answer{1: began, 3: began}, false); ok {
		t.Errorf("an empty server beside an ensemble that began empty: %+v", b)
	}
	if b, _, ok := q.Round(0, map[uint64]Answer{1: {Cluster: 5, Elected: true}, 3: elected}, false); !ok || !b.Overtaken {
		t.Errorf("one of two servers knows what the ensemble began with: %+v", b)
	}
}

// TestHeardBeforeARestart: two empty servers don't found without a third one that had data and is down now, of which
// one of them heard before it was started again.
func TestHeardBeforeARestart(t *testing.T) {
	t.Parallel()
	for _, remembered := range []bool{true, false} {
		w := newInquiryWorld()
		w.start(1, dataA)
		w.start(2, Holding{})
		w.run(1000)
		heard, err := DecodeHeard(EncodeHeard(w.inquiries[2].Data()))
		if err != nil || !slices.Equal(heard, []uint64{1}) {
			t.Fatalf("it has heard of data on %v, %v", heard, err)
		}
		delete(w.inquiries, 1)
		if q := w.start(2, Holding{}); remembered {
			q.Heard = heard
		}
		w.start(3, Holding{})
		if w.run(3 * testPatience); len(w.begun) > 0 == remembered {
			t.Errorf("remembered: %t; they begin with %+v", remembered, w.begun)
		}
	}
}

// TestToldByOneThatIsDown: three of five empty servers don't found without one that had data, of which only one of the
// others has heard, which is down, too. Once these answer, they do.
func TestToldByOneThatIsDown(t *testing.T) {
	t.Parallel()
	five := append(threeLines(), Member{ID: 4}, Member{ID: 5})
	w := newInquiryWorld()
	w.start(1, dataA, five...)
	w.start(2, Holding{}, five...)
	w.run(1000)
	delete(w.inquiries, 1)
	for _, id := range []uint64{3, 4, 5} {
		w.start(id, Holding{}, five...)
	}
	w.run(1000)
	delete(w.inquiries, 2)
	waiting := w.run(3 * testPatience)
	if len(w.begun) > 0 || !strings.Contains(waiting[3], "server 2 held data, or knew of some") {
		t.Fatalf("they begin with %+v, and wait: %s", w.begun, waiting[3])
	}
	w.start(1, Holding{}, five...) // its data is gone, and it says so
	w.start(2, Holding{}, five...)
	if w.run(1000); len(w.begun) != 5 {
		t.Errorf("once all answer, they begin with %+v", w.begun)
	}
}

// TestHeardUnderAnotherID: an empty server doesn't found without a server that had data under an id that the server
// lines don't name any more, but does with the data, wherever it is.
func TestHeardUnderAnotherID(t *testing.T) {
	t.Parallel()
	for _, was := range []uint64{2, 7} { // 2 is its own id now
		w := newInquiryWorld()
		w.start(2, Holding{}).Heard = []uint64{was}
		w.start(3, Holding{})
		waiting := w.run(3 * testPatience)
		says := fmt.Sprintf("server %d held data, or knew of some, when it last answered, and isn't named", was)
		if len(w.begun) > 0 || !strings.Contains(waiting[2], says) {
			t.Fatalf("they begin with %+v, and wait: %s", w.begun, waiting[2])
		}
		w.start(1, dataA)
		if w.run(1000); w.begun[1].Founding == nil {
			t.Errorf("beside the data they begin with %+v", w.begun)
		}
		w = newInquiryWorld()
		w.start(2, Holding{}).Heard = []uint64{was}
		w.round(2, true) // its claim says so from now on
		if w.round(2, true); w.begun[2].Founding == nil {
			t.Errorf("by an order it begins with %+v", w.begun[2])
		}
	}
}

// TestHeardIsDamaged: a damaged list is no list.
func TestHeardIsDamaged(t *testing.T) {
	t.Parallel()
	if ids, err := DecodeHeard(nil); ids != nil || err != nil {
		t.Errorf("no file: %v, %v", ids, err)
	}
	whole := EncodeHeard([]uint64{1, 3})
	for n := range whole {
		if ids, err := DecodeHeard(whole[:n]); err == nil {
			t.Errorf("%d of %d bytes: %v", n, len(whole), ids)
		}
	}
}

// TestLeaderIsUnknown: an empty server whose lines don't name the leader, which alone can let it in, says so.
func TestLeaderIsUnknown(t *testing.T) {
	t.Parallel()
	q := &Inquiry{Self: 3, Members: []Member{{ID: 1}, {ID: 3}}}
	for leader, want := range map[uint64]string{
		1: "and its leader, server 1, must let this server in",
		2: "whose leader, server 2, this server's lines don't name",
	} {
		_, waiting, ok := q.Round(0, map[uint64]Answer{1: {Cluster: 5, Elected: true, Leader: leader}}, false)
		if text := strings.Join(waiting, "; "); ok || !strings.Contains(text, want) {
			t.Errorf("server %d leads: %q", leader, text)
		}
	}
}

// TestObserversData: voters found nothing beside an observer with other data than theirs.
func TestObserversData(t *testing.T) {
	t.Parallel()
	lines := []Member{{ID: 1}, {ID: 2}, {ID: 3, Observer: true}}
	for _, c := range []struct {
		voters Holding
		begun  int
	}{{Holding{}, 0}, {longer, 0}, {dataA, 2}} {
		w := newInquiryWorld()
		w.start(1, c.voters, lines...)
		w.start(2, c.voters, lines...)
		w.start(3, dataA, lines...)
		waiting := w.run(3 * testPatience)
		if len(w.begun) != c.begun || c.begun == 0 && !strings.Contains(waiting[1], "server 3 is an observer and has data") {
			t.Errorf("voters with %v: %+v; server 1 waits because %q", c.voters, w.begun, waiting[1])
		}
	}
}

// TestDataIsFoundedWith: servers with a copy of the same data found an ensemble with it, those that are empty join it,
// and so does a copy that comes late, with an empty directory. A server with other data never begins beside an
// ensemble.
func TestDataIsFoundedWith(t *testing.T) {
	t.Parallel()
	w := newInquiryWorld()
	w.start(3, dataA)
	w.start(1, Holding{})
	w.run(5 * testPatience / 10)
	if len(w.begun) > 0 {
		t.Fatalf("a server with data begins before the second had time to start: %+v", w.begun)
	}
	w.run(testPatience)
	if b := w.begun[3]; len(w.begun) != 1 || b.Cluster != 0xf03 || !slices.Equal(b.Founding.Voters, []uint64{3}) ||
		b.Founding.Base != dataA {
		t.Fatalf("a server with data and an empty one begin with %+v", w.begun)
	}
	w.elected[3] = true
	w.start(2, longer)
	if waiting := w.run(5 * testPatience); len(w.begun) != 1 || !strings.Contains(waiting[2], "which data to keep") {
		t.Errorf("other data that comes late begins with %+v; it waits because %q", w.begun[2], waiting[2])
	}
	w.start(2, dataA)
	w.run(1000)
	if b := w.begun[2]; !b.Overtaken || b.Cluster != 0xf03 {
		t.Errorf("a copy that comes late begins with %+v", b)
	}
	w = newInquiryWorld()
	for id := range uint64(3) {
		w.start(id+1, dataA)
	}
	w.run(1000)
	for id := range uint64(3) {
		if b := w.begun[id+1]; b.Cluster != 0xf01 || !slices.Equal(b.Founding.Voters, []uint64{1, 2, 3}) {
			t.Errorf("server %d with a copy of the data begins with %+v", id+1, b)
		}
	}
	w = newInquiryWorld()
	w.start(1, dataA)
	if w.run(5 * testPatience); len(w.begun) > 0 {
		t.Errorf("a server with data begins alone, though its lines name others: %+v", w.begun)
	}
	w.inquiries[1].Ordered = true
	if w.round(1, true); w.begun[1].Cluster != 0xf01 {
		t.Errorf("on an order it begins with %+v", w.begun)
	}
}

// TestTwoOrders: of two servers that have orders to found with different data, and ask each other at the same time,
// none founds until one of them stops, even if they don't reach each other meanwhile. With the same data they found
// together.
func TestTwoOrders(t *testing.T) {
	t.Parallel()
	for _, atStart := range []bool{true, false} {
		w := newInquiryWorld()
		w.start(1, dataA).Ordered = atStart
		w.start(2, longer).Ordered = atStart
		var waiting []string
		for n := range 4 {
			cutOff := n == 2
			w.silent[[2]uint64{1, 2}], w.silent[[2]uint64{2, 1}] = cutOff, cutOff
			both := map[uint64]map[uint64]Answer{1: {2: w.answer(1, 2), 3: {}}, 2: {1: w.answer(2, 1), 3: {}}}
			for id, answers := range both { // any order
				b, why, ok := w.inquiries[id].Round(w.now, answers, true)
				if waiting = why; ok {
					t.Fatalf("orders at the start %t, cut off %t: server %d founds %+v", atStart, cutOff, id, b.Founding)
				}
			}
			w.now += 100
		}
		if why := strings.Join(waiting, "; "); !strings.Contains(why, "has an order to found an ensemble, too") {
			t.Errorf("orders at the start %t: they wait because %q", atStart, why)
		}
		delete(w.inquiries, 2)
		if w.round(1, true); w.begun[1].Cluster != 0xf01 {
			t.Errorf("orders at the start %t: when the other has stopped, it begins with %+v", atStart, w.begun[1])
		}
	}
	w := newInquiryWorld()
	w.mute = 3
	w.start(1, dataA).Ordered = true
	w.start(2, dataA).Ordered = true
	for _, id := range []uint64{2, 1, 2} {
		w.round(id, true)
	}
	if b := w.begun[2]; len(w.begun) != 2 || b.Cluster != 0xf01 || !slices.Equal(b.Founding.Voters, []uint64{1, 2}) {
		t.Errorf("with the same data they begin with %+v", w.begun)
	}
}

// TestLateFounder: a founder that learns of the founding after an election begins all the same, unless it was started
// again meanwhile.
func TestLateFounder(t *testing.T) {
	t.Parallel()
	for _, again := range []bool{false, true} {
		w := newInquiryWorld()
		for id := range uint64(3) {
			w.start(id+1, Holding{})
		}
		for i := 0; len(w.begun) < 2; i++ {
			w.round(1, false)
			w.round(2, false)
			if len(w.begun) == 0 {
				w.round(3, false)
			}
		}
		w.elected[1], w.elected[2] = true, true
		if w.now += 100; again {
			w.start(3, Holding{})
		}
		w.run(1000)
		if began := w.begun[3].Cluster != 0; began == again {
			t.Errorf("started again %v: it begins %v", again, began)
		}
	}
}

// TestFoundedTwice: if two servers have founded an ensemble each, of the same voters, the third begins with the one
// with the lower id. It waits if another ensemble could elect a leader beside that.
func TestFoundedTwice(t *testing.T) {
	t.Parallel()
	found := func(lineage uint64, voters ...uint64) Beginning {
		return Beginning{Cluster: lineage, Founding: &Founding{Lineage: lineage, Term: 1, Voters: voters}}
	}
	for name, c := range map[string]struct {
		second  Beginning
		elected bool
		begins  uint64
	}{
		"nobody was elected": {found(0xf02, 1, 2, 3), false, 0xf01},
		"other voters":       {found(0xf02, 2), false, 0},
		"no record":          {Beginning{Cluster: 0xf02}, false, 0},
		"elected":            {found(0xf02, 1, 2, 3), true, 0},
	} {
		w := newInquiryWorld()
		w.begun[1], w.begun[2], w.elected[2] = found(0xf01, 1, 2, 3), c.second, c.elected
		w.start(3, Holding{})
		if w.run(2000); w.begun[3].Cluster != c.begins {
			t.Errorf("%s: the third begins with %x, not %x", name, w.begun[3].Cluster, c.begins)
		}
	}
}

// TestFoundingsExclude has servers come, go, lose their answers and hold what they may, at random. No two of them begin
// with lineages of which both could elect a leader, and none begins with an empty tree while one with data is known.
func TestFoundingsExclude(t *testing.T) {
	t.Parallel()
	founded, seeds := 0, uint64(4000)
	if testing.Short() {
		seeds = 400
	}
	for seed := range seeds {
		dice := rand.New(rand.NewPCG(seed, 29))
		w := newInquiryWorld()
		var lines []Member
		for id := range uint64(3 + 2*dice.IntN(2)) {
			lines = append(lines, Member{ID: id + 1})
		}
		holdings := []Holding{{}, {}, {}, dataA, longer}[:3+dice.IntN(3)]
		disks := map[uint64]Holding{}
		for _, m := range lines {
			disks[m.ID] = holdings[dice.IntN(len(holdings))]
		}
		for range 300 {
			id, other := lines[dice.IntN(len(lines))].ID, lines[dice.IntN(len(lines))].ID
			w.now += int64(dice.IntN(300))
			switch b, begun := w.begun[id]; {
			case dice.IntN(20) == 0 && w.inquiries[id] != nil:
				delete(w.inquiries, id) // it stops
			case !begun && w.inquiries[id] == nil:
				w.start(id, disks[id], lines...)
			case !begun:
				w.round(id, false)
			case dice.IntN(4) == 0 && b.Founding != nil && canElect(w, b.Cluster, b.Founding.Voters):
				for v, vb := range w.begun {
					w.elected[v] = w.elected[v] || vb.Cluster == b.Cluster
				}
			}
			w.silent[[2]uint64{id, other}] = dice.IntN(3) == 0
		}
		var able []string
		for cluster := uint64(0xf00); cluster < 0xf10; cluster++ {
			for _, b := range w.begun {
				if b.Cluster == cluster && b.Founding != nil && canElect(w, cluster, b.Founding.Voters) {
					able = append(able, fmt.Sprintf("%x with %v", cluster, b.Founding.Base))
					break
				}
			}
		}
		if len(able) > 1 {
			t.Fatalf("seed %d: several ensembles can elect leaders: %s", seed, strings.Join(able, ", "))
		}
		founded += len(able)
	}
	if uint64(founded) < seeds/8 {
		t.Errorf("only %d of %d ensembles were founded: the test shows little", founded, seeds)
	}
}

// canElect reports whether a majority of the first voters has begun with a lineage.
func canElect(w *inquiryWorld, cluster uint64, voters []uint64) bool {
	n := 0
	for _, id := range voters {
		if w.begun[id].Cluster == cluster {
			n++
		}
	}
	return n > len(voters)/2
}

// FuzzAnswer: no answer of a peer makes the decoder fail in another way than by an error, and what it reads is written
// the same.
func FuzzAnswer(f *testing.F) {
	members := []Member{{ID: 1, Addrs: []string{"a:1"}, Observer: true}}
	f.Add(AppendClaim(nil, Claim{Life: 5, Members: members, Holds: dataA, Known: true, Follows: 3}))
	founding := Founding{Lineage: 7, Term: 1, Base: dataA, Voters: []uint64{1, 2}, With: []Founder{{1, 9}}}
	f.Add(AppendBegun(nil, 7, true, 2, &founding))
	f.Add(AppendBegun(nil, 7, false, 0, nil))
	f.Fuzz(func(t *testing.T, b []byte) {
		a, err := DecodeAnswer(b)
		if err != nil {
			return
		}
		var again []byte
		if a.Claim != nil {
			again = AppendClaim(nil, *a.Claim)
		} else {
			again = AppendBegun(nil, a.Cluster, a.Elected, a.Leader, a.Founding)
		}
		if c, err := DecodeAnswer(again); err != nil || !reflect.DeepEqual(a, c) {
			t.Errorf("read %+v, wrote and read %+v, %v", a, c, err)
		}
	})
}

// TestOvertaken: a founder gives its founding up only for an ensemble that the others are known to have begun instead.
func TestOvertaken(t *testing.T) {
	const own, other, third = 0xa, 0xb, 0xc
	elected := func(cluster uint64) Answer { return Answer{Cluster: cluster, Elected: true} }
	waits, silent := Answer{Claim: &Claim{}}, Answer{Err: errors.New("no answer")}
	three, five := []uint64{1, 2, 3}, []uint64{1, 2, 3, 4, 5}
	data := Holding{Lineage: 7, Index: 3}
	for _, c := range []struct {
		what    string
		f       Founding
		answers map[uint64]Answer
		want    bool
	}{
		{"both others are in another", Founding{Voters: three},
			map[uint64]Answer{2: elected(other), 3: elected(other)}, true},
		{"one is, and one is down", Founding{Voters: three}, map[uint64]Answer{2: elected(other), 3: silent}, true},
		{"one is, and one finds out", Founding{Voters: three}, map[uint64]Answer{2: elected(other), 3: waits}, true},
		{"no leader there", Founding{Voters: three}, map[uint64]Answer{2: {Cluster: other}, 3: {Cluster: other}}, false},
		{"nobody", Founding{Voters: three}, map[uint64]Answer{2: silent, 3: waits}, false},
		{"a stranger at a name", Founding{Voters: three}, map[uint64]Answer{2: {Cluster: own}, 3: elected(other)}, false},
		{"strangers at two names", Founding{Voters: three}, map[uint64]Answer{2: elected(other), 3: elected(third)}, false},
		{"most are", Founding{Voters: five},
			map[uint64]Answer{2: {Cluster: own}, 3: elected(other), 4: elected(other), 5: elected(other)}, true},
		{"most may be", Founding{Voters: five},
			map[uint64]Answer{2: {Cluster: own}, 3: elected(other), 4: elected(other), 5: silent}, false},
		{"a server without a vote is", Founding{Voters: three},
			map[uint64]Answer{2: {Cluster: own}, 3: elected(other), 4: elected(other)}, false},
		{"without this data", Founding{Voters: three, Base: data},
			map[uint64]Answer{2: elected(other), 3: elected(other)}, false},
		{"with this data", Founding{Voters: three, Base: data},
			map[uint64]Answer{2: {Cluster: other, Elected: true, Founding: &Founding{Base: data}}, 3: elected(other)}, true},
	} {
		c.f.Lineage = own
		if got := c.f.Overtaken(c.answers); got != c.want {
			t.Errorf("%s: overtaken = %v", c.what, got)
		}
	}
}

// TestElectionIsKnownAfterRestart: a server says that it belongs to an ensemble from the first moment after a restart,
// and not only once raft has something to write.
func TestElectionIsKnownAfterRestart(t *testing.T) {
	c := newCluster(t, 1)
	if c.nodes[1].loop.Status().Elected {
		t.Error("a new server says that there was an election")
	}
	c.leader1()
	c.crash(1)
	c.nodes[1].fs.Reboot()
	c.open(1, 0, 0)
	if !c.nodes[1].loop.Status().Elected {
		t.Error("a server that was started again says that there was no election")
	}
}
