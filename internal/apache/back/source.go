package back

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/apache"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
	"github.com/zooid-project/zooid/jute"
)

// An Answer is what the server says about itself.
type Answer struct {
	Zxid int64 // of the last change that it has applied
	Mode string
}

// A source reads a server's log, and turns it into transactions.
//
// An entry is taken once it is committed: either the log says so, or the server has applied a zxid beyond that of the
// tree here. The server is asked before the log is read, so the log's next entries, up to the zxid of the answer, are
// those that the server has applied.
type source struct {
	dirs        []string // the data directory, and the log's if it is separate
	reconfigure tree.Reconfigure
	say         func(string)
	leader      *Leader

	tail  *storage.Tail
	tree  *tree.Tree
	start uint64 // index of the snapshot that the tree was loaded from
	skips map[uint64]storage.Skip

	held      []storage.LoggedEntry
	heldBytes int
	committed uint64
	expected  map[uint64]uint64 // digests of the tree after entries
	lost      error             // why the state must be rebuilt
}

// Limits on the memory used.
const (
	// heldBytesMax bounds the log entries that wait because they aren't known to be committed.
	heldBytesMax = 64 << 20
	// expectedMax is the number of entries whose digest of the tree is kept until the leader's digest arrives.
	expectedMax = 4096
)

// errAgain says that everything must be read again.
var errAgain = errors.New("the state is read again from the newest snapshot")

// open starts from the newest snapshot.
func (s *source) open() error {
	s.close()
	*s = source{dirs: s.dirs, reconfigure: s.reconfigure, say: s.say, leader: s.leader, expected: map[uint64]uint64{}}
	s.tail = storage.NewTail(storage.OS{}, s.dirs[len(s.dirs)-1])
	err := s.tail.Read(s.step)
	if err == nil && s.tree == nil {
		err = fmt.Errorf("there is no log in %s: name the data directory of a Zooid server, or its zoo.cfg",
			s.dirs[len(s.dirs)-1])
	}
	return err
}

func (s *source) close() {
	if s.tail != nil {
		s.tail.Close()
	}
}

// begin loads the tree of the newest snapshot that the log continues.
func (s *source) begin(cluster, base uint64) error {
	s.skips = map[uint64]storage.Skip{}
	var why error
	for _, dir := range s.dirs {
		skips, err := storage.Skips(storage.OS{}, dir, cluster)
		why = errors.Join(why, err)
		for _, k := range skips {
			s.skips[k.Index] = k
		}
	}
	o := treeload.Options(cluster, s.reconfigure, tree.FeatureLevelMax)
	indexes, err := storage.SnapshotIndexes(storage.OS{}, s.dirs[0])
	why = errors.Join(why, err)
	for _, index := range slices.Backward(indexes) {
		if index < base {
			break
		}
		t, err := snapshotAt(s.dirs[0], index, o)
		if err == nil {
			s.tree, s.start = t, index
			return s.renew()
		}
		why = errors.Join(why, err)
	}
	if base > 0 || why != nil {
		return fmt.Errorf("there is no snapshot to start from after entry %d: %w", base, why)
	}
	s.tree = tree.New(o)
	return s.renew()
}

func snapshotAt(dir string, index uint64, o tree.Options) (*tree.Tree, error) {
	snap, err := storage.PeekSnapshotAt(storage.OS{}, dir, index)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	if snap.Meta.BodyFormat != tree.BodyFormat {
		return nil, fmt.Errorf("the snapshot at entry %d has format %d; this version reads %d", index, snap.Meta.BodyFormat,
			tree.BodyFormat)
	}
	return treeload.Tree(snap.Meta, snap, o)
}

// renew rebuilds the state from the tree. Every observer gets a snapshot of it.
func (s *source) renew() error {
	state, err := files.LiveOf(apache.Content(s.tree))
	if err != nil {
		return err
	}
	s.leader.renew(state, s.tree.LastZxid()>>32)
	return nil
}

// step processes a step that the tail has read.
func (s *source) step(step storage.LogStep) error {
	if step.Begins {
		switch {
		case s.tree == nil:
			return s.begin(step.Cluster, step.After)
		case step.Reset:
			return fmt.Errorf("%w: the server has got a snapshot of another", errAgain)
		}
		return nil
	}
	for _, e := range step.Entries {
		for n := len(s.held); n > 0 && s.held[n-1].Index >= e.Index; n-- {
			s.heldBytes -= len(s.held[n-1].Data)
			s.held = s.held[:n-1]
		}
		e.Data = slices.Clone(e.Data)
		s.held = append(s.held, e)
		s.heldBytes += len(e.Data)
	}
	s.committed = step.Committed
	if s.heldBytes <= heldBytesMax {
		return nil
	}
	if err := s.take(0); err != nil { // entries that aren't committed may be replaced by ones not read yet
		return err
	}
	if s.heldBytes > heldBytesMax {
		return errFull
	}
	return nil
}

// errFull says that the log holds more uncommitted entries than any leader allows.
var errFull = errors.New("64 MiB of the log may be uncommitted: the server has no majority, or doesn't answer srvr")

// poll reads and applies new entries. ask is nil if no server is running: then everything in the log counts, as it does
// for a server that starts.
func (s *source) poll(ctx context.Context, ask func(context.Context) (Answer, error)) (a Answer, err error) {
	if ask != nil {
		if a, err = ask(ctx); err != nil {
			a = Answer{}
		}
	}
	if err := s.tail.Read(s.step); err != nil {
		return a, err
	}
	if ask == nil {
		return a, s.take(math.MaxInt64)
	}
	return a, s.take(a.Zxid)
}

// take applies committed entries. The server has applied everything up to the zxid applied.
func (s *source) take(applied int64) error {
	for len(s.held) > 0 && (s.held[0].Index <= max(s.committed, s.start) || s.tree.LastZxid() < applied) {
		e := s.held[0]
		s.held, s.heldBytes = s.held[1:], s.heldBytes-len(e.Data)
		if e.Index <= s.start {
			continue
		}
		if err := s.entry(&e); err != nil {
			return err
		}
	}
	return nil
}

// digestHead is the size of an entry's head: the index of an earlier entry, and the leader's digest after that one.
const digestHead = 16

// entry applies an entry.
func (s *source) entry(e *storage.LoggedEntry) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("apply entry %d of the log: %v", e.Index, cause)
		}
	}()
	skip, skipped := s.skips[e.Index]
	skipped = skipped && skip.Term == e.Term && skip.Hash == storage.HashEntry(e.Data)
	s.lost = nil
	switch {
	case e.Consensus || len(e.Data) == 0 || skipped:
		err = s.tree.NewTerm(e.Term, e.Index)
	case len(e.Data) < digestHead:
		err = fmt.Errorf("entry %d of the log has %d bytes", e.Index, len(e.Data))
	default:
		at, digest := binary.BigEndian.Uint64(e.Data), binary.BigEndian.Uint64(e.Data[8:])
		if own, ok := s.expected[at]; ok && own != digest {
			return fmt.Errorf("%w: after entry %d the tree here isn't the leader's", errAgain, at)
		}
		err = s.tree.Apply(e.Term, e.Index, e.Data[digestHead:], s.visit)
	}
	if err != nil {
		return err
	}
	s.expected[e.Index] = s.tree.Digest()
	delete(s.expected, e.Index-min(expectedMax, e.Index))
	if s.lost != nil {
		s.say(s.lost.Error() + ": the observers get a snapshot")
		return s.renew()
	}
	s.leader.begin(s.tree.LastZxid() >> 32)
	return nil
}

// visit turns a result into a transaction.
func (s *source) visit(r *tree.Result) {
	if s.lost != nil || r.Outcome != tree.Applied && r.Outcome != tree.Staged {
		return
	}
	switch r.Request.Op {
	case tree.OpAttach, tree.OpEnter, tree.OpSettings, tree.OpSecret, tree.OpLineage:
		return // they take no zxid
	}
	s.leader.begin(r.Zxid >> 32)
	m := maker{tree: s.tree, state: s.leader.state}
	record, ok := m.record(r.Request, r)
	if !ok {
		s.lost = fmt.Errorf("zxid %#x can't be represented as an Apache transaction", uint64(r.Zxid))
		return
	}
	if s.lost = s.leader.publish(r.Zxid, record); s.lost == nil {
		s.lost = s.check(r)
	}
}

// checkedMax is how many of a request's changed znodes are compared.
const checkedMax = 64

// check compares the znodes that a request has changed.
func (s *source) check(r *tree.Result) error {
	for i := range min(len(r.Events), checkedMax) {
		if err := s.same(r.Events[i].Path); err != nil {
			return err
		}
	}
	if r.Request.Op == jute.OpSetACL && r.Err == jute.OK {
		return s.same(jute.NewDecoder(r.Request.Body).String())
	}
	return nil
}

func (s *source) same(path string) error {
	if strings.HasPrefix(path, "/zookeeper") {
		return nil // servers keep statistics and their own configuration there
	}
	want, there := s.tree.Stat(path)
	z := s.leader.state.Find(path)
	if !there && z == nil {
		return nil
	}
	if there != (z != nil) || s.leader.state.Visible(z) != want {
		return fmt.Errorf("the znode %q isn't the same after zxid %#x", path, uint64(s.tree.LastZxid()))
	}
	return nil
}
