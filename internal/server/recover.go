package server

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"runtime"
	"sync"

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

// loadTree returns the tree of the newest snapshot, or a new one, and where in
// the log it stands.
func loadTree(dir *storage.Dir, opt tree.Options) (*tree.Tree, storage.Meta, error) {
	meta, ok := dir.NewestSnapshot()
	if !ok {
		opt, own := onOffHeap(opt)
		t := tree.New(opt)
		own(t)
		return t, storage.Meta{}, nil
	}
	if meta.BodyFormat != bodyFormat {
		return nil, meta, fmt.Errorf("load the snapshot at index %d: its body has format %d, this version reads %d: upgrade this server", meta.Index, meta.BodyFormat, bodyFormat)
	}
	snap, err := dir.OpenSnapshot(meta.Index)
	if err != nil {
		return nil, meta, err
	}
	defer snap.Close()
	t, err := restoreTree(meta, snap, opt)
	return t, meta, err
}

// restoreTree returns the tree in a snapshot.
func restoreTree(meta storage.Meta, snap *storage.Snapshot, opt tree.Options) (*tree.Tree, error) {
	opt, own := onOffHeap(opt)
	t, err := restore(snap, opt)
	if err != nil {
		return nil, fmt.Errorf("load the snapshot at index %d: %w", meta.Index, err)
	}
	own(t)
	if t.Digest() != meta.Digest || t.LastIndex() != meta.Index {
		return nil, fmt.Errorf("load the snapshot at index %d: the state in it (index %d, digest %x) is not the one it was taken of (digest %x): restore this directory from a copy", meta.Index, t.LastIndex(), t.Digest(), meta.Digest)
	}
	return t, nil
}

// restore feeds a snapshot's chunks, decompressed ahead on all processors, to
// the tree in order.
func restore(snap *storage.Snapshot, opt tree.Options) (*tree.Tree, error) {
	workers := runtime.GOMAXPROCS(0)
	o := &inOrder{chunks: map[int][]byte{}, ahead: chunksAhead * workers, count: snap.Chunks()}
	o.changed.L = &o.mu
	loaded := make(chan struct{})
	go func() {
		defer close(loaded)
		o.end(snap.Load(workers, o.put))
	}()
	t, err := tree.Restore(opt, o.take)
	o.end(errRestored)
	<-loaded
	return t, err
}

// chunksAhead is how many chunks per processor may be decompressed before the
// tree takes them.
const chunksAhead = 4

// errRestored ends the loading when the tree wants no more.
var errRestored = errors.New("the tree has taken what it wants")

// inOrder brings chunks that several goroutines finish in any order back into
// theirs, and lets none run far ahead.
type inOrder struct {
	ahead, count int

	mu      sync.Mutex
	changed sync.Cond
	chunks  map[int][]byte
	next    int // number of the chunk to be taken next
	err     error
}

// put hands over chunk n; it blocks while n is too far ahead.
func (o *inOrder) put(n int, chunk []byte) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for n >= o.next+o.ahead && o.err == nil {
		o.changed.Wait()
	}
	if o.err != nil {
		return o.err
	}
	o.chunks[n] = append([]byte(nil), chunk...)
	o.changed.Broadcast()
	return nil
}

// take returns the next chunk, or io.EOF after the last.
func (o *inOrder) take() ([]byte, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.next == o.count {
		return nil, io.EOF
	}
	for o.chunks[o.next] == nil && o.err == nil {
		o.changed.Wait()
	}
	chunk := o.chunks[o.next]
	if chunk == nil {
		return nil, o.err
	}
	delete(o.chunks, o.next)
	o.next++
	o.changed.Broadcast()
	return chunk, nil
}

// end makes err, if it is the first, what put and take return.
func (o *inOrder) end(err error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.err == nil {
		o.err = err
	}
	o.changed.Broadcast()
}

// reportRecovery tells the operator what the last crash left.
func (s *Server) reportRecovery(r storage.Recovery) {
	if r.Torn.File != "" {
		s.log.Warn("the last batch of the log was cut short by a crash; it was never acknowledged and is dropped", "file", r.Torn.File, "offset", r.Torn.Offset)
	}
	for _, err := range r.DamagedSnapshots {
		s.log.Error("a damaged snapshot was passed over for an older one; check the disk", "err", err)
	}
	if r.Undone {
		s.log.Warn("a snapshot from a peer was half installed at the crash and is given up")
	}
}
