package newensemble

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"runtime"
	"time"

	"go.etcd.io/raft/v3/raftpb"

	"github.com/zooid-project/zooid/internal/quorum/peer"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/internal/treeload"
)

// Place says where a server's data is.
type Place struct {
	DataDir, LogDir string // LogDir is DataDir unless the log has a directory of its own
	// Reconfigure evaluates reconfig requests in the log.
	Reconfigure tree.Reconfigure

	held bool // its directories are locked by Hold
}

// A Survivor is what one server still has.
type Survivor struct {
	Place Place `json:"-"`

	DataDir   string    `json:"dataDir"`
	LogDir    string    `json:"dataLogDir"`
	Cluster   uint64    `json:"-"`
	ClusterID string    `json:"cluster"`   // in the form that operators type: 16 hexadecimal digits
	Server    uint64    `json:"server"`    // whose directory it is; 0 if that isn't recorded, as by earlier versions
	Term      uint64    `json:"term"`      // the highest term that the server took part in
	LastTerm  uint64    `json:"lastTerm"`  // of its last entry
	LastIndex uint64    `json:"lastIndex"` // of its last entry
	Committed uint64    `json:"committed"` // index up to which it knows that a majority has the log
	Zxid      string    `json:"zxid"`      // of its last transaction
	Written   time.Time `json:"written"`   // time of that transaction
	Znodes    int       `json:"znodes"`
	Sessions  int       `json:"sessions"`
	Members   string    `json:"members"` // the ensemble's membership, as /zookeeper/config has it
	// Joining is set for a server that was still joining, and so may lack acknowledged writes.
	Joining bool `json:"joining,omitempty"`

	tree *tree.Tree
}

// Better reports whether s has more than o. If so, s has everything that o has acknowledged.
func (s *Survivor) Better(o *Survivor) bool {
	if s.Joining != o.Joining {
		return o.Joining
	}
	if s.LastTerm != o.LastTerm {
		return s.LastTerm > o.LastTerm
	}
	return s.LastIndex > o.LastIndex
}

// CountVoters returns how many voters the directories of all belong to. Copies of one server's directory count once,
// and one that doesn't say whose it is counts as a voter's.
func CountVoters(all []*Survivor, votes func(server uint64) bool) (n int) {
	counted := map[uint64]bool{}
	for _, s := range all {
		if s.Server == 0 || votes(s.Server) && !counted[s.Server] {
			n++
		}
		counted[s.Server] = true
	}
	return n
}

// Read opens the directories of a stopped server as its start would, applies its whole log and closes them.
func Read(p Place) (*Survivor, error) {
	cluster, err := storage.ReadIdentity(storage.OS{}, p.DataDir, p.LogDir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("read what %s holds: it has no data of a server", p.DataDir)
	}
	if err != nil {
		return nil, fmt.Errorf("read what %s holds: %w", p.DataDir, err)
	}
	note, err := peer.ReadNote(p.LogDir, p.DataDir)
	if err != nil {
		return nil, err
	}
	opt := storage.Options{Dir: p.DataDir, LogDir: p.LogDir, ClusterID: cluster}
	if p.held {
		opt.FS = heldFS{}
	}
	dir, err := storage.Open(opt)
	if err != nil {
		return nil, fmt.Errorf("read what %s holds: %w; the server must be stopped", p.DataDir, err)
	}
	s, err := Survey(dir, cluster, p.Reconfigure, nil)
	s.Place, s.DataDir, s.LogDir, s.Joining = p, p.DataDir, p.LogDir, note.JoinedAfter != 0
	return s, errors.Join(err, dir.Close())
}

// A Watch is called before each entry of a log is applied; data is empty if the entry changes nothing in the tree. What
// it returns is called with the result of each of the entry's requests.
type Watch func(term, index uint64, data []byte) (observe func(*tree.Result))

// Survey applies the whole log of an open directory. The result has no Place, and doesn't say whether the server was
// joining. watch may be nil.
func Survey(dir *storage.Dir, cluster uint64, reconfigure tree.Reconfigure, watch Watch) (*Survivor, error) {
	s := &Survivor{Place: Place{Reconfigure: reconfigure}, Cluster: cluster, ClusterID: fmt.Sprintf("%016x", cluster)}
	s.Server, _ = peer.Owner(dir, cluster) // a damaged file mustn't keep the rest from being used
	return s, s.apply(dir, watch)
}

// Digest returns the digest of the state. It panics after Release.
func (s *Survivor) Digest() uint64 { return s.tree.Digest() }

// apply loads the newest snapshot and applies the whole log after it.
func (s *Survivor) apply(dir *storage.Dir, watch Watch) error {
	t, err := treeload.Newest(dir, treeload.Options(s.Cluster, s.Place.Reconfigure, tree.FeatureLevelMax), nil)
	if err != nil {
		return err
	}
	log := dir.Log()
	hard, _, err := log.InitialState()
	if err != nil {
		return err
	}
	if s.LastIndex, err = log.LastIndex(); err != nil {
		return err
	}
	if s.LastTerm, err = log.Term(s.LastIndex); err != nil {
		return err
	}
	s.Term, s.Committed = max(hard.GetTerm(), s.LastTerm), hard.GetCommit()
	skips, err := agreedSkips(dir)
	if err != nil {
		return err
	}
	for next := t.LastIndex() + 1; next <= s.LastIndex; {
		entries, err := log.Entries(next, s.LastIndex+1, readBytes)
		if err != nil {
			return fmt.Errorf("read the log from entry %d on: %w", next, err)
		}
		for _, e := range entries {
			if err := applyEntry(t, e, skips, watch); err != nil {
				return err
			}
		}
		next += uint64(len(entries))
	}
	s.Zxid, s.Written = fmt.Sprintf("%#x", uint64(t.LastZxid())), time.UnixMilli(t.Time()).UTC()
	s.Znodes, s.Sessions = t.NodeCount(), t.Sessions().Count()
	s.Members, _ = t.Membership().Members()
	s.tree = t
	return nil
}

// readBytes is how much of the log is read at a time.
const readBytes = 4 << 20

// digestHead is the size of an entry's head: the index of an earlier entry, and the digest of the leader's state after
// that one.
const digestHead = 16

func applyEntry(t *tree.Tree, e *raftpb.Entry, skips map[uint64]storage.Skip, watch Watch) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = fmt.Errorf("apply entry %d of term %d: it panics (%v); decide by 'zooid skip-entry' that it is skipped",
				e.GetIndex(), e.GetTerm(), cause)
		}
	}()
	skip, skipped := skips[e.GetIndex()]
	skipped = skipped && skip.Term == e.GetTerm() && skip.Hash == storage.HashEntry(e.GetData())
	data, observe := e.GetData(), func(*tree.Result) {}
	if e.GetType() != raftpb.EntryNormal || skipped {
		data = nil
	}
	if watch != nil {
		observe = watch(e.GetTerm(), e.GetIndex(), data)
	}
	if len(data) == 0 {
		return t.NewTerm(e.GetTerm(), e.GetIndex())
	}
	if len(data) < digestHead {
		return fmt.Errorf("apply entry %d of term %d: it has %d bytes, too few for its digest", e.GetIndex(), e.GetTerm(),
			len(data))
	}
	at, digest := binary.BigEndian.Uint64(data), binary.BigEndian.Uint64(data[8:])
	if at != 0 && at == t.LastIndex() && digest != t.Digest() {
		return fmt.Errorf("apply entry %d of term %d: the leader's state before it had another digest than the one here: this survivor's data has diverged; take another one",
			e.GetIndex(), e.GetTerm())
	}
	return t.Apply(e.GetTerm(), e.GetIndex(), data[digestHead:], observe)
}

// agreedSkips returns the entries that all members had agreed to skip.
func agreedSkips(dir *storage.Dir) (map[uint64]storage.Skip, error) {
	all, err := dir.Skips()
	if err != nil {
		return nil, err
	}
	skips := map[uint64]storage.Skip{}
	for _, s := range all {
		if s.Agreed {
			skips[s.Index] = s
		}
	}
	return skips, nil
}

// Release frees the memory of the state.
func (s *Survivor) Release() {
	s.tree = nil
	runtime.GC()
}
