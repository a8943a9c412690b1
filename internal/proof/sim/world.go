package sim

import (
	"context"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/quorum"
)

const (
	millisecond = int64(time.Millisecond)
	second      = int64(time.Second)
)

// wallStart is the wall clock when a World begins, ns since 1970.
const wallStart = 1_700_000_000 * second

// A timeline is the course of events, in which there may be two Worlds. Times are ns since it began.
type timeline struct {
	now     int64
	seq     uint64
	queue   []event
	hash    uint64
	steps   int
	failure []string // failures, oldest first
	ended   bool
}

// A World is one simulated ensemble with its clients.
type World struct {
	*timeline
	plan Plan
	twin *World // another ensemble with the same server lines, nil if there is none
	// second is true of the World that is the other one's twin.
	second bool

	netDice, diskDice, faultDice, auditDice, besideDice, callDice, queueDice *rand.Rand

	servers []*host
	clients []*client
	links   [][]*link // from, to
	cuts    [][]int   // from, to; how many faults cut it; row and column 0 are the clients' network
	cutFrom [][]int64 // from, to; since when
	cutTo   [][]int64 // from, to; when the last cut was over
	loss    []int     // percent; each fault adds one
	double  []int     // percent of raft's messages that arrive twice; each fault adds one
	history history.History
	conns   int32
	ledger  ledger
	descent descent
	doom    int64 // how long the next server that founds ends right afterwards, 0 for not at all
	orders  int   // to found an ensemble, given by the operator
	stats   Stats
	healed  bool
	log     io.Writer // nil for none

	operator *client

	keeping   *keeping // nil if there are no quotas; its client isn't in clients
	restorer  *client  // it isn't in clients
	restoring restoration
	lists     map[[32]byte][]byte // saved lists of znodes

	wanted []quorum.Member // the membership decided on last; nil before the first
	// electorate is the set of servers that were ever to have a vote.
	electorate map[uint64]bool
	// dismissed is the set of servers that, since they got a vote, were to have none.
	dismissed  map[uint64]bool
	asked      []quorum.Member // by a change that isn't named yet
	patient    bool            // requested by an operator that waits for new voters
	changing   bool            // a change is named but not answered yet
	strict     bool            // the membership was named at feature level 2 or above: M1 holds
	lostAt     int             // entries of the log when a disk was last lost: fewer disks may hold those
	majorityAt int             // entries of the log when M1 was last checked
	unsettled  bool            // something else that M1 depends on has changed since
	voters     []uint64        // raft's, as of the entry votersAt
	leaving    []uint64        // voters before, while raft changes them
	votersAt   uint64
	// lastFault is when the last fault so far, with its aftermath, is over; lastHeld is the same for times in which no
	// majority of the servers worked.
	lastFault, lastHeld int64
	repairedAt          int64 // when an operator last replaced a damaged disk
	// heldAt is when a server last stopped working.
	heldAt int64

	armed   []Fault   // each asks for one more entry at which servers panic
	poisons []*poison // the entries at which they do

	restEntries int   // entries of the log when it first was quiet, with none added since
	restSince   int64 // when that was
}

// event is something scheduled to happen.
type event struct {
	at  int64
	seq uint64
	run func()
}

func (e *event) before(f *event) bool { return e.at < f.at || e.at == f.at && e.seq < f.seq }

// at schedules run for time t.
func (w *World) at(t int64, run func()) {
	w.seq++
	q := append(w.queue, event{max(t, w.now), w.seq, run})
	i := len(q) - 1
	for e := q[i]; i > 0; {
		up := (i - 1) / 2
		if !e.before(&q[up]) {
			break
		}
		q[i], q[up] = q[up], e
		i = up
	}
	w.queue = q
}

// after schedules run for d ns from now.
func (w *World) after(d int64, run func()) { w.at(w.now+d, run) }

// step runs the next event and reports whether there was one.
func (w *World) step() bool {
	q := w.queue
	if len(q) == 0 {
		return false
	}
	e := q[0]
	n := len(q) - 1
	last := q[n]
	q[n] = event{}
	q = q[:n]
	for i := 0; n > 0; {
		child := 2*i + 1
		if child >= n {
			q[i] = last
			break
		}
		if child+1 < n && q[child+1].before(&q[child]) {
			child++
		}
		if last.before(&q[child]) {
			q[i] = last
			break
		}
		q[i] = q[child]
		i = child
	}
	w.queue = q
	w.now = e.at
	w.steps++
	w.trace(uint64(e.at), e.seq)
	e.run()
	w.majority()
	if w.twin != nil {
		w.twin.majority()
	}
	return true
}

// trace adds values to the hash that compares two runs.
func (w *World) trace(values ...uint64) {
	for _, v := range values {
		w.hash = (w.hash ^ v) * 0x9e3779b97f4a7c15
		w.hash ^= w.hash >> 29
	}
}

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// traceBytes is trace for bytes that were sent.
func (w *World) traceBytes(kind uint64, b []byte) {
	w.trace(kind<<32|uint64(len(b)), uint64(crc32.Update(0, castagnoli, b)))
}

// fail records a failure. The first one ends the World.
func (w *World) fail(format string, args ...any) {
	if len(w.failure) < failuresMax {
		w.failure = append(w.failure, fmt.Sprintf("%.6f s: ", float64(w.now)/1e9)+fmt.Sprintf(format, args...))
	}
	w.ended = true
}

// failuresMax bounds the failures that one World reports.
const failuresMax = 8

// logger returns a server's logger, which logs the World's time.
func (w *World) logger(id uint64) *slog.Logger {
	if w.second {
		id += secondWorld
	}
	if w.log == nil {
		return slog.New(suspicion{slog.DiscardHandler, w, id})
	}
	return slog.New(suspicion{slog.NewTextHandler(w.log,
		&slog.HandlerOptions{ReplaceAttr: func(groups []string, a slog.Attr) slog.Attr {
			if len(groups) == 0 && a.Key == slog.TimeKey {
				return slog.Float64("at", float64(w.now)/1e9)
			}
			return a
		}}), w, id}).With("on", id)
}

// A suspicion is a server's log that fails the World when the server says that an invariant of its own is broken: it
// then closes the connection, and its client notices nothing more.
type suspicion struct {
	slog.Handler
	w  *World
	id uint64
}

// Enabled implements slog.Handler.
func (s suspicion) Enabled(ctx context.Context, level slog.Level) bool {
	return level >= slog.LevelError || s.Handler.Enabled(ctx, level)
}

// Handle implements slog.Handler.
func (s suspicion) Handle(ctx context.Context, r slog.Record) error {
	if strings.HasPrefix(r.Message, "invariant broken") {
		s.w.fail("server %d: %s", s.id, r.Message)
	}
	if !s.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return s.Handler.Handle(ctx, r)
}

// WithAttrs implements slog.Handler.
func (s suspicion) WithAttrs(attrs []slog.Attr) slog.Handler {
	s.Handler = s.Handler.WithAttrs(attrs)
	return s
}

// secondWorld is added to the ids of a twin's servers where those of both Worlds meet.
const secondWorld = 100

// record appends to the history that is checked at the end.
func (w *World) record(e history.Event) {
	e.Time = w.now
	w.history.Events = append(w.history.Events, e)
}

// dice returns the stream of randomness for one concern.
func dice(seed uint64, concern string) *rand.Rand {
	var key [32]byte
	binary.LittleEndian.PutUint64(key[:], seed)
	copy(key[8:], concern)
	return rand.New(rand.NewChaCha8(key))
}

// chance is true with a probability of percent.
func chance(r *rand.Rand, percent int) bool { return r.IntN(100) < percent }

// between draws from low to high, both included.
func between(r *rand.Rand, low, high int64) int64 { return low + r.Int64N(high-low+1) }
