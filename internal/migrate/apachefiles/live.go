package apachefiles

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

// A live state goes on for as long as a server of Apache's is followed. It knows each znode's
// children, and gives back the memory of what is gone.

// NewLive returns the state of an Apache server that begins without data.
func NewLive() *State {
	s := newState()
	s.live = true
	s.put(Znode{Data: []byte{}, ACL: s.open})
	s.addOwn()
	return s
}

// GoLive makes a state that Load returned a live one.
func (s *State) GoLive() {
	s.live = true
	for _, z := range s.nodes {
		s.adopt(z)
	}
	s.compact()
}

// adopt makes a znode a child of its parent.
func (s *State) adopt(z *Znode) {
	if z.parent == nil {
		return
	}
	if z.parent.children == nil {
		z.parent.children = map[string]*Znode{}
	}
	z.parent.children[z.Path[strings.LastIndexByte(z.Path, '/')+1:]] = z
}

// Find returns a znode of a live state by the path that clients give; nil if there is none.
func (s *State) Find(path string) *Znode { return s.find(path) }

// Children iterates over the names of a znode's children in a live state, in any order.
func (z *Znode) Children() iter.Seq[string] { return maps.Keys(z.children) }

// Visible returns what clients see of a znode's Stat in a live state.
func (s *State) Visible(z *Znode) jute.Stat {
	return z.Stat.Visible(s.Owner(z, false).Session, s.VisibleData(z), int32(len(z.children)))
}

// VisibleData returns a znode's data as clients see it. The stats of a quota are counted now; Apache counts
// them with each change. The data isn't changed later.
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

// sum returns the number of znodes from one on down, and the bytes of their data.
func (z *Znode) sum() (count, size int64) {
	count, size = 1, int64(len(z.Data))
	for _, child := range z.children { // sums
		c, n := child.sum()
		count, size = count+c, size+n
	}
	return count, size
}

// An Applied says what a transaction was.
type Applied struct {
	Zxid int64
	// Digest is Apache's digest of the tree after the transaction. Compared tells whether there
	// is one of the version that this package computes.
	Digest   uint64
	Compared bool
}

// Apply applies one transaction, as logs and proposals have it. After an error the state is of no use.
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

// How much may be left of what is gone before it is given back.
const (
	goneZnodes = 4096
	goneACLs   = 4096
)

// compact gives back what znodes that are gone, and ACLs that nobody has, still take.
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

// ReceivedBytesMax bounds a snapshot that a leader sends: no Apache server holds as much.
const ReceivedBytesMax = 64 << 30

// Receive reads a snapshot as a leader sends it to a learner, at most limit bytes, and returns what
// follows it. Like those in files it is fuzzy: the leader goes on meanwhile, and sends its
// transactions afterwards.
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
var errTooLarge = errors.New("it is larger than any that is taken")

type boundedReader struct {
	r    io.Reader
	left int64
}

// Read reads what is left.
func (b *boundedReader) Read(p []byte) (int, error) {
	if b.left <= 0 {
		return 0, errTooLarge
	}
	n, err := b.r.Read(p[:min(int64(len(p)), b.left)])
	b.left -= int64(n)
	return n, err
}

// Settled returns an error unless every znode has its ACL, as it has once the transactions behind a
// fuzzy snapshot are applied.
func (s *State) Settled() error {
	return s.Znodes(func(z *Znode) error {
		switch {
		case z.ACL == nil:
			return fmt.Errorf("the znode %q has an ACL that the snapshot doesn't hold", z.Path)
		case z.Path != "" && (z.parent == nil || z.parent.gone):
			return fmt.Errorf("the znode %q has no parent", z.Path)
		}
		return nil
	})
}

// Complete gives a live state what a server computes when it starts: the statistics of quotas, and the time
// if no transaction has told one.
func (s *State) Complete() {
	s.fixQuotas()
	if s.Time != 0 {
		return
	}
	for _, z := range s.nodes { // the maximum
		s.Time = max(s.Time, z.Stat.Mtime)
	}
}

// ConfigIn returns the text that a transaction gives /zookeeper/config; nil if it gives none.
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

// Ephemerals returns the paths of a session's znodes in a live state that begin with a prefix, sorted.
func (s *State) Ephemerals(session int64, prefix string) (paths []string) {
	for _, z := range s.owned[session] {
		if s.nodes[z.Path] == z && strings.HasPrefix(z.Path, prefix) {
			paths = append(paths, z.Path)
		}
	}
	slices.Sort(paths)
	return paths
}
