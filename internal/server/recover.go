package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// newClusterID returns the id of a new cluster, never 0: drawn at random for a
// server alone, and for an ensemble derived from its configuration, since all
// its servers must come to the same one without having met.
func newClusterID(members []quorum.Member) uint64 {
	h := sha256.New()
	if len(members) == 0 {
		io.CopyN(h, rand.Reader, 32) // never fails (crypto/rand)
	}
	for _, m := range members {
		fmt.Fprintf(h, "%d %v %t\n", m.ID, m.Addrs, m.Observer)
	}
	return max(binary.BigEndian.Uint64(h.Sum(nil)), 1)
}

// treeKey derives the key of the tree's hashes from the cluster's id, so that
// all its replicas have the same.
func treeKey(cluster uint64) [16]byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("zooid tree key 1"), cluster))
	return [16]byte(sum[:16])
}

// treeOptionsOf returns the options of every tree of this server.
func treeOptionsOf(opt *Options, cluster uint64) tree.Options {
	return tree.Options{Key: treeKey(cluster), Reconfigure: opt.Membership.Change, LevelMax: opt.Settings.FeatureLevel}
}

// An earlyTree is made of the newest snapshot while storage still verifies it and
// the log: that takes about as long. Nobody sees it before storage has agreed.
type earlyTree struct {
	began int64         // now (ns)
	stop  chan struct{} // closed once it isn't wanted any more
	made  chan struct{} // closed once it is made, or given up
	meta  storage.Meta
	tree  *tree.Tree // nil if there was no way to make it: storage will tell
}

// loadEarly begins to make a tree of the newest snapshot in a data directory.
func loadEarly(dataDir string, opt tree.Options, now int64) *earlyTree {
	e := &earlyTree{began: now, stop: make(chan struct{}), made: make(chan struct{})}
	go func() {
		defer close(e.made)
		snap, err := storage.PeekSnapshot(storage.OS{}, dataDir)
		if err != nil {
			return
		}
		defer snap.Close()
		if e.meta = snap.Meta; e.meta.BodyFormat == bodyFormat {
			e.tree, _ = restoreTree(e.meta, snap, opt, e.stop)
		}
	}()
	return e
}

// take returns the tree if it is that of the snapshot that storage has found to
// be the newest, else nil.
func (e *earlyTree) take(newest storage.Meta) *tree.Tree {
	<-e.made
	t, m := e.tree, &e.meta
	e.tree = nil
	if m.Index != newest.Index || m.Term != newest.Term || m.ClusterID != newest.ClusterID || m.Digest != newest.Digest {
		return nil
	}
	return t
}

// giveUp ends the making.
func (e *earlyTree) giveUp() {
	close(e.stop)
	<-e.made
}

// loadTree returns the tree of the newest snapshot, or a new one, and where in
// the log it stands. early may be nil.
func loadTree(dir *storage.Dir, opt tree.Options, early *earlyTree) (*tree.Tree, storage.Meta, error) {
	meta, ok := dir.NewestSnapshot()
	if !ok {
		opt, own := onOffHeap(opt)
		t := tree.New(opt)
		own(t)
		return t, storage.Meta{}, nil
	}
	if meta.BodyFormat != bodyFormat {
		what := fmt.Sprintf("its body's format %d (this version reads %d)", meta.BodyFormat, bodyFormat)
		return nil, meta, fmt.Errorf("load the snapshot at index %d: %w", meta.Index, &tree.NewerError{What: what, This: bodyFormat, Wants: int32(meta.BodyFormat)})
	}
	if early != nil {
		if t := early.take(meta); t != nil {
			return t, meta, nil
		}
	}
	snap, err := dir.OpenSnapshot(meta.Index)
	if err != nil {
		return nil, meta, err
	}
	defer snap.Close()
	t, err := restoreTree(meta, snap, opt, nil)
	return t, meta, err
}

// restoreTree returns the tree in a snapshot; closing stop, which may be nil, makes
// it fail early.
func restoreTree(meta storage.Meta, snap *storage.Snapshot, opt tree.Options, stop <-chan struct{}) (*tree.Tree, error) {
	opt, own := onOffHeap(opt)
	t, err := restore(snap, opt, stop)
	own(t)
	if err != nil {
		return nil, fmt.Errorf("load the snapshot at index %d: %w", meta.Index, err)
	}
	if t.Digest() != meta.Digest || t.LastIndex() != meta.Index {
		return nil, fmt.Errorf("load the snapshot at index %d: the state in it (index %d, digest %x) is not the one it was taken of (digest %x): restore this directory from a copy", meta.Index, t.LastIndex(), t.Digest(), meta.Digest)
	}
	return t, nil
}

// restore feeds a snapshot's chunks to the tree; while it takes one, the next ones
// are verified and decompressed.
func restore(snap *storage.Snapshot, opt tree.Options, stop <-chan struct{}) (*tree.Tree, error) {
	chunks, used, done := make(chan []byte, chunksAhead), make(chan []byte, chunksAhead), make(chan struct{})
	failed := io.EOF
	go func() {
		defer close(chunks)
		err := snap.Load(func(chunk []byte) (memory []byte, err error) {
			select {
			case chunks <- chunk:
			case <-stop:
				return nil, errUnwanted
			case <-done:
				return nil, errUnwanted
			}
			select {
			case memory = <-used:
			default:
			}
			return memory, nil
		})
		if err != nil {
			failed = err
		}
	}()
	var chunk []byte
	t, err := tree.Restore(opt, func() ([]byte, error) {
		select {
		case used <- chunk:
		default:
		}
		var ok bool
		if chunk, ok = <-chunks; !ok {
			return nil, failed
		}
		return chunk, nil
	})
	close(done)
	for range chunks { // until the goroutine has ended
	}
	return t, err
}

// chunksAhead is how many chunks may be decompressed before the tree takes them.
const chunksAhead = 8

// errUnwanted ends the loading of a tree that nobody wants.
var errUnwanted = errors.New("the tree is not wanted any more")

// reportRecovery tells the operator what the last crash left.
func (s *Server) reportRecovery(r storage.Recovery) {
	if r.Torn.File != "" {
		s.log.Warn("the last batch of the log was cut short by a crash; it was never acknowledged and is dropped", "file", r.Torn.File, "offset", r.Torn.Offset)
	}
	for _, err := range r.DamagedSnapshots {
		s.log.Error("a damaged snapshot was passed over for an older one; check the disk", "err", err)
	}
	if r.NewDataDir {
		s.log.Warn("the data directory was new or empty and the log was not; the log has everything, and this server goes on. "+
			"If the data directory's file system is not mounted, stop this server and mount it", "dataDir", s.opt.DataDir, "dataLogDir", s.opt.LogDir)
	}
	if r.Undone {
		s.log.Warn("a snapshot from a peer was half installed at the crash and is given up")
	}
}

// onOffHeap returns options whose trees get their memory outside of Go's heap, and a
// function that ties that memory to the tree made with them: it is given back
// once nothing refers to the tree any more, which whoever reads from it beyond
// its last mention ensures by runtime.KeepAlive. With nil, for a tree that came to
// nothing, it is given back at once.
func onOffHeap(opt tree.Options) (tree.Options, func(*tree.Tree)) {
	o := &memory.OffHeap{}
	opt.Alloc, opt.Release = o.Alloc, o.Release
	return opt, func(t *tree.Tree) {
		if t == nil {
			o.Unmap()
			return
		}
		runtime.AddCleanup(t, (*memory.OffHeap).Unmap, o)
	}
}
