// Package treeload makes trees from snapshots: from the newest one in a data directory, concurrently with storage's own
// recovery, and from one that a peer sends. It provides what a tree itself doesn't: goroutines, and memory outside
// Go's heap.
package treeload

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"

	"github.com/zooid-project/zooid/internal/memory"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// treeKey derives the key of the tree's hashes from the cluster's id, so that all replicas use the same.
func treeKey(cluster uint64) [16]byte {
	sum := sha256.Sum256(binary.BigEndian.AppendUint64([]byte("zooid tree key 1"), cluster))
	return [16]byte(sum[:16])
}

// Options returns the options of every tree of a server: reconfigure evaluates its
// reconfig requests, and levelMax is the highest feature level it knows.
func Options(cluster uint64, reconfigure tree.Reconfigure, levelMax int32) tree.Options {
	return tree.Options{Key: treeKey(cluster), Reconfigure: reconfigure, LevelMax: levelMax}
}

// An Early is a tree made from the newest snapshot while storage still verifies the snapshot and the log, which takes
// about as long. It isn't used before storage has confirmed the snapshot.
type Early struct {
	stop chan struct{} // closed when the tree is no longer wanted
	made chan struct{} // closed when the tree is made or has failed
	meta storage.Meta
	tree *tree.Tree // nil if it couldn't be made; storage will report why
}

// Begin starts making a tree from the newest snapshot in a data directory.
func Begin(dataDir string, opt tree.Options) *Early {
	e := &Early{stop: make(chan struct{}), made: make(chan struct{})}
	go func() {
		defer close(e.made)
		snap, err := storage.PeekSnapshot(storage.OS{}, dataDir)
		if err != nil {
			return
		}
		defer snap.Close()
		if e.meta = snap.Meta; e.meta.BodyFormat == tree.BodyFormat {
			e.tree, _ = treeOf(e.meta, snap, opt, e.stop)
		}
	}()
	return e
}

// Take returns the tree if its snapshot is the one that storage has found to be the newest, else nil.
func (e *Early) Take(newest storage.Meta) *tree.Tree {
	<-e.made
	t, m := e.tree, &e.meta
	e.tree = nil
	if m.Index != newest.Index || m.Term != newest.Term || m.ClusterID != newest.ClusterID || m.Digest != newest.Digest {
		return nil
	}
	return t
}

// GiveUp stops making the tree.
func (e *Early) GiveUp() {
	close(e.stop)
	<-e.made
}

// Newest returns the tree of the newest snapshot of a data directory, or an empty tree if there is none. early may be
// nil.
func Newest(dir *storage.Dir, opt tree.Options, early *Early) (*tree.Tree, error) {
	meta, ok := dir.NewestSnapshot()
	if !ok {
		opt, own := onOffHeap(opt)
		t := tree.New(opt)
		own(t)
		return t, nil
	}
	if meta.BodyFormat != tree.BodyFormat {
		what := fmt.Sprintf("its body's format %d (this version reads %d)", meta.BodyFormat, tree.BodyFormat)
		return nil, fmt.Errorf("load the snapshot at index %d: %w", meta.Index,
			&tree.NewerError{What: what, This: tree.BodyFormat, Wants: int32(meta.BodyFormat)})
	}
	if early != nil {
		if t := early.Take(meta); t != nil {
			return t, nil
		}
	}
	snap, err := dir.OpenSnapshot(meta.Index)
	if err != nil {
		return nil, err
	}
	defer snap.Close()
	return Tree(meta, snap, opt)
}

// Tree returns the tree in a snapshot.
func Tree(meta storage.Meta, snap *storage.Snapshot, opt tree.Options) (*tree.Tree, error) {
	return treeOf(meta, snap, opt, nil)
}

// treeOf is Tree; closing stop, which may be nil, makes it fail early.
func treeOf(meta storage.Meta, snap *storage.Snapshot, opt tree.Options, stop <-chan struct{}) (*tree.Tree, error) {
	opt, own := onOffHeap(opt)
	t, err := load(snap, opt, stop)
	own(t)
	if err != nil {
		return nil, fmt.Errorf("load the snapshot at index %d: %w", meta.Index, err)
	}
	if t.Digest() != meta.Digest || t.LastIndex() != meta.Index {
		return nil, fmt.Errorf("load the snapshot at index %d: the state in it (index %d, digest %x) is not the one it was taken of (digest %x): restore this directory from a copy",
			meta.Index, t.LastIndex(), t.Digest(), meta.Digest)
	}
	return t, nil
}

// load passes a snapshot's chunks to the tree; meanwhile the next chunks are verified and decompressed.
func load(snap *storage.Snapshot, opt tree.Options, stop <-chan struct{}) (*tree.Tree, error) {
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
	t, err := tree.Load(opt, func() ([]byte, error) {
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
	for range chunks { // waits for the goroutine to end
	}
	return t, err
}

// chunksAhead is how many chunks may be decompressed before the tree takes them.
const chunksAhead = 8

// errUnwanted stops the loading of a tree that is no longer wanted.
var errUnwanted = errors.New("the tree is not wanted any more")

// onOffHeap returns options whose trees get their memory outside Go's heap, and a function that ties that memory to
// the tree made with them: it is freed once nothing refers to the tree any more. Code that still reads the tree's
// memory after its last use of the tree must call runtime.KeepAlive. Called with nil, if no tree was made, the
// function frees the memory at once.
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
