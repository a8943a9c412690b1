package files

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// A live state keeps changing while an Apache server is followed. It tracks each znode's children, and frees the
// memory of znodes and ACLs that are gone.

// NewLive returns the live state of an Apache server that starts without data.
func NewLive() *State {
	s := newState()
	s.live = true
	s.put(Znode{Data: []byte{}, ACL: s.open})
	s.addOwn()
	return s
}

// GoLive turns a state that Load returned into a live one.
func (s *State) GoLive() {
	s.live = true
	for _, z := range s.nodes {
		s.adopt(z)
	}
	s.compact()
}

// adopt adds a znode to its parent's children.
func (s *State) adopt(z *Znode) {
	if z.parent == nil {
		return
	}
	if z.parent.children == nil {
		z.parent.children = map[string]*Znode{}
	}
	z.parent.children[z.Path[strings.LastIndexByte(z.Path, '/')+1:]] = z
}

// Find returns the znode of a live state at a path as clients write it, nil if there is none.
func (s *State) Find(path string) *Znode { return s.find(path) }

// Children iterates over the names of a znode's children in a live state, in any order.
func (z *Znode) Children() iter.Seq[string] { return maps.Keys(z.children) }

// Visible returns the Stat of a znode in a live state as clients see it.
func (s *State) Visible(z *Znode) jute.Stat {
	return z.Stat.Visible(s.Owner(z, false).Session, s.VisibleData(z), int32(len(z.children)))
}

// VisibleData returns a znode's data as clients see it. The stats of a quota are counted at the call; Apache counts
// them with each change. The returned data is never changed later.
func (s *State) VisibleData(z *Znode) []byte {
	above, ok := strings.CutSuffix(z.Path, "/"+statsName)
	if !ok || !strings.HasPrefix(above, quotaRoot+"/") || s.nodes[above+"/"+limitsName] == nil {
		return z.Data
	}
	var count, size int64
	if top := s.nodes[strings.TrimPrefix(above, quotaRoot)]; top != nil {
		count, size = top.sum()
	}
	return fmt.Appendf(nil, "count=%d,bytes=%d", count, size)
}

// sum returns the number of znodes in the subtree that starts at z, and the bytes of their data.
func (z *Znode) sum() (count, size int64) {
	count, size = 1, int64(len(z.Data))
	for _, child := range z.children { // sums
		c, n := child.sum()
		count, size = count+c, size+n
	}
	return count, size
}

// An Applied describes a transaction that was applied.
type Applied struct {
	Zxid int64
	// Digest is Apache's digest of the tree after the transaction. Compared reports whether the transaction has one of
	// the version that this package computes.
	Digest   uint64
	Compared bool
}

// Apply applies one transaction, encoded as in logs and proposals. After an error the state must not be used any more.
func (s *State) Apply(record []byte) (Applied, error) {
	t, err := parseTxn(record)
	if err != nil {
		return Applied{}, err
	}
	d, err := s.apply(&t)
	s.compact()
	return Applied{t.zxid, d.digest, d.there && d.version == DigestVersion}, err
}

// TxnZxid returns the zxid in a transaction.
func TxnZxid(record []byte) (int64, error) {
	t, err := parseTxn(record)
	return t.zxid, err
}

// The garbage that may accumulate before compact frees it.
const (
	goneZnodes = 4096
	goneACLs   = 4096
)

// compact frees what deleted znodes and unused ACLs still occupy.
func (s *State) compact() {
	if s.walks > 0 || len(s.order) <= 2*len(s.nodes)+goneZnodes && len(s.acls) <= 2*len(s.nodes)+goneACLs {
		return
	}
	kept := s.order[:0]
	for _, z := range s.order {
		if !z.gone && s.nodes[z.Path] == z {
			kept = append(kept, z)
		}
	}
	clear(s.order[len(kept):])
	s.order = kept
	clear(s.owned)
	used := map[*ACL]bool{}
	for _, z := range s.order {
		used[z.ACL] = true
		if o := z.Stat.Owner; o != 0 && o != ownerContainer {
			s.owned[o] = append(s.owned[o], z)
		}
	}
	maps.DeleteFunc(s.acls, func(_ string, a *ACL) bool { return !used[a] })
}

// receivedEnd follows the znodes of a snapshot that a leader sends.
const receivedEnd = "BenWasHere"

// ReceivedBytesMax bounds a snapshot that a leader sends: no Apache server holds that much.
const ReceivedBytesMax = 64 << 30

// Receive reads a snapshot as a leader sends it to a learner, at most limit bytes, and returns a reader of what
// follows it. Like a snapshot file it is fuzzy: the leader keeps applying transactions meanwhile, and sends them
// afterwards.
//
//	sessions, ACLs and znodes as in a file | ustring "/" | ustring "BenWasHere"
func Receive(r io.Reader, limit int64, step func(znodes int)) (s *State, rest io.Reader, err error) {
	bounded := &boundedReader{r: r, left: limit}
	read := snapshotReader{stream: &stream{r: bounded}, state: newState(), acls: map[int64]*ACL{}, step: step}
	read.state.live = true
	read.acls[openACL] = read.state.open
	for _, part := range []func() error{read.sessions, read.lists, read.znodes} {
		if err := part(); err != nil {
			return nil, nil, receiveError(err)
		}
	}
	end, err := read.buffer()
	if err != nil {
		return nil, nil, receiveError(err)
	}
	if string(end) != receivedEnd {
		return nil, nil, fmt.Errorf("receive a snapshot: want %q after the znodes, found %q", receivedEnd, end)
	}
	left := bytes.Clone(read.buf[read.at:])
	return read.state, io.MultiReader(bytes.NewReader(left), r), nil
}

func receiveError(err error) error {
	if errors.Is(err, errCut) {
		err = io.ErrUnexpectedEOF
	}
	return fmt.Errorf("receive a snapshot: %w", err)
}

// errTooLarge is the error for a snapshot beyond the limit.
var errTooLarge = errors.New("it exceeds the size limit")

type boundedReader struct {
	r    io.Reader
	left int64
}

// Read reads up to the limit, then fails.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Settled returns an error unless every znode has its ACL, as is so once the transactions after a fuzzy snapshot are
// applied.
func (s *State) Settled() error {
	return s.Znodes(func(z *Znode) error {
		switch {
		case z.ACL == nil:
			return fmt.Errorf("the znode %q refers to an ACL that the snapshot lacks", z.Path)
		case z.Path != "" && (z.parent == nil || z.parent.gone):
			return fmt.Errorf("the znode %q has no parent", z.Path)
		}
		return nil
	})
}

// Complete computes what a server computes when it starts: the statistics of quotas, and the time if no transaction
// has set it.
func (s *State) Complete() {
	s.fixQuotas()
	if s.Time != 0 {
		return
	}
	for _, z := range s.nodes { // any order: takes the maximum
		s.Time = max(s.Time, z.Stat.Mtime)
	}
}

// ConfigIn returns the content of /zookeeper/config that a transaction sets, nil if it sets none.
func ConfigIn(record []byte) []byte {
	t, err := parseTxn(record)
	if err != nil || t.op != jute.OpReconfig && t.op != jute.OpSetData {
		return nil
	}
	var d jute.Decoder
	d.Reset(t.body)
	path, data := d.String(), d.Buffer()
	if d.Err() != nil || path != configNode {
		return nil
	}
	return bytes.Clone(data)
}

// Below iterates over a znode's children in a live state, in any order.
func (z *Znode) Below() iter.Seq[*Znode] { return maps.Values(z.children) }

// Ephemerals returns the sorted paths of a session's znodes that begin with prefix, in a live state.
func (s *State) Ephemerals(session int64, prefix string) (paths []string) {
	for _, z := range s.owned[session] {
		if s.nodes[z.Path] == z && strings.HasPrefix(z.Path, prefix) {
			paths = append(paths, z.Path)
		}
	}
	slices.Sort(paths)
	return paths
}
