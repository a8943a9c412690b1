package peer

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"
)

// A snapshot travels on a connection of its own, so that heartbeats and log
// entries don't wait behind it:
//
//	sender    length(4) raft's MsgSnap, size(8) of the file
//	receiver  offset(8) to start from; not 0 if an earlier connection broke
//	sender    the file's bytes from that offset
//	receiver  1 byte when all is written
const (
	streamChunk   = 256 << 10
	streamTimeout = 10 * time.Second // without progress
	// streamBytesPerSecond leaves the disk and the network some room for writes.
	streamBytesPerSecond = 128 << 20
)

// streams receives and sends snapshots.
type streams struct {
	dir *storage.Dir
	t   *transport
	log *slog.Logger

	taking   sync.Mutex       // held while a snapshot is received: one at a time
	incoming storage.Incoming // guarded by taking

	mu      sync.Mutex
	current net.Conn // the newest connection on which a snapshot arrives, or nil
	sending map[uint64]bool
	failed  map[uint64]failures
	sent    map[uint64]uint64 // by peer, the index of the snapshot that it has received last
	read    uint64            // index of a snapshot that was read completely
	rest    time.Time         // time before which no snapshot is received, because the last one could not be used
}

// snapshotRest is how long a sender is kept waiting after a snapshot that could not be used.
// Otherwise it would send the snapshot again at once, and load the network and the disk. It
// is less than the sender's timeout.
const snapshotRest = streamTimeout / 2

// failures counts how often a snapshot could not be sent to a peer.
type failures struct {
	index uint64
	times int
}

// After a snapshot could not be sent to a peer, it is not sent for sendRestMin, and twice as long after each further
// failure, up to sendRestMax. Otherwise a leader that can't read its snapshot would try, and log, 20 times a second.
const (
	sendRestMin = 50 * time.Millisecond
	sendRestMax = 10 * time.Second
)

// restAfter returns how long no snapshot is sent to a peer after the one at index was, or could not be.
func (s *streams) restAfter(to, index uint64, err error) time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err == nil {
		delete(s.failed, to)
		return 0
	}
	f := s.failed[to]
	if f.index != index {
		f = failures{index: index}
	}
	rest := min(sendRestMin<<min(f.times, 10), sendRestMax)
	f.times++
	s.failed[to] = f
	return rest
}

// send streams the snapshot at index and raft's message to a peer, unless another snapshot is
// already being sent to that peer.
func (s *streams) send(to, index uint64, message []byte) {
	s.mu.Lock()
	busy := s.sending[to]
	s.sending[to] = true
	s.mu.Unlock()
	if busy {
		return
	}
	s.t.wg.Go(func() {
		began := time.Now()
		n, err := s.stream(to, index, message)
		if err != nil && s.t.ctx.Err() == nil {
			s.log.Warn("a snapshot could not be sent; it will be tried again", "peer", to, "err", err)
		} else if err == nil {
			s.log.Info("a snapshot was sent to a peer that is far behind", "peer", to, "index", index, "bytes", n,
				"took", time.Since(began).Round(time.Millisecond))
		}
		if rest := s.restAfter(to, index, err); rest > 0 {
			select {
			case <-time.After(rest):
			case <-s.t.ctx.Done():
			}
		}
		s.mu.Lock()
		delete(s.sending, to)
		s.mu.Unlock()
		s.t.tell(quorum.Event{Kind: quorum.EventSent, From: to, Err: err, Unread: errors.As(err, new(*unreadError))})
	})
}

// An unreadError says that this server can't read its own snapshot.
type unreadError struct{ error }

func (e *unreadError) Unwrap() error { return e.error }

// open opens a snapshot for a peer. If the peer has received it and asks for it again, it may be damaged where only the
// receiver notices. So it is first read completely, once.
func (s *streams) open(to, index uint64) (*storage.Snapshot, error) {
	snap, err := s.dir.OpenSnapshot(index)
	if err != nil {
		return nil, &unreadError{err}
	}
	s.mu.Lock()
	again := s.sent[to] == index && s.read != index
	s.mu.Unlock()
	if !again {
		return snap, nil
	}
	if err := snap.Load(func(chunk []byte) ([]byte, error) { return chunk, s.t.ctx.Err() }); err != nil {
		snap.Close()
		return nil, &unreadError{err}
	}
	s.mu.Lock()
	s.read = index
	s.mu.Unlock()
	return snap, nil
}

// received records that a peer has received a snapshot.
func (s *streams) received(to, index uint64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent[to] = index
}

func (s *streams) stream(to, index uint64, message []byte) (sent int64, err error) {
	snap, err := s.open(to, index)
	if err != nil {
		return 0, err
	}
	defer snap.Close()
	r := s.t.remote(to)
	if r == nil {
		return 0, fmt.Errorf("server %d is no longer a member", to)
	}
	c, err := s.dial(r)
	if err != nil {
		return 0, err
	}
	defer c.Close()
	c.SetDeadline(time.Now().Add(streamTimeout))
	b := append(binary.BigEndian.AppendUint32(nil, uint32(len(message))), message...)
	if _, err := c.Write(binary.BigEndian.AppendUint64(b, uint64(snap.Size()))); err != nil {
		return 0, err
	}
	var at [8]byte
	if _, err := io.ReadFull(c, at[:]); err != nil {
		return 0, fmt.Errorf("read where to continue: %w", err)
	}
	off := int64(binary.BigEndian.Uint64(at[:]))
	if off < 0 || off > snap.Size() {
		return 0, fmt.Errorf("the peer wants to continue at offset %d of %d", off, snap.Size())
	}
	if err := s.copy(c, snap, off); err != nil {
		return 0, err
	}
	c.SetDeadline(time.Now().Add(streamTimeout))
	if _, err = io.ReadFull(c, at[:1]); err == nil {
		s.received(to, index)
	}
	return snap.Size() - off, err
}

func (s *streams) dial(r *remote) (net.Conn, error) {
	var errs []error
	for _, addr := range r.addresses() {
		c, err := s.t.greet(s.t.ctx, addr, hello{connSnapshot, s.t.cluster, s.t.id, r.id}, true)
		if err == nil {
			return c.Conn, nil
		}
		errs = append(errs, err)
	}
	return nil, errors.Join(errs...)
}

// copy writes the file from offset off, no faster than streamBytesPerSecond.
func (s *streams) copy(c net.Conn, snap *storage.Snapshot, off int64) error {
	buf := make([]byte, streamChunk)
	began, start := time.Now(), off
	for off < snap.Size() {
		n, err := snap.ReadAt(buf[:min(int64(len(buf)), snap.Size()-off)], off)
		if n == 0 && err != nil {
			return &unreadError{err}
		}
		c.SetDeadline(time.Now().Add(streamTimeout))
		if _, err := c.Write(buf[:n]); err != nil {
			return err
		}
		off += int64(n)
		due := time.Duration(float64(off-start) / streamBytesPerSecond * float64(time.Second))
		if wait := due - time.Since(began); wait > 0 {
			select {
			case <-time.After(wait):
			case <-s.t.ctx.Done():
				return quorum.ErrStopped
			}
		}
	}
	return nil
}

// receive receives a snapshot on c and hands it to the loop. It closes the connection of the previous transfer: its
// sender no longer leads, or has abandoned that connection.
func (s *streams) receive(c net.Conn, from uint64) {
	s.mu.Lock()
	before := s.current
	s.current = c
	s.mu.Unlock()
	if before != nil {
		before.Close()
	}
	s.taking.Lock()
	defer s.taking.Unlock()
	defer s.over(c)
	if !s.rested() {
		return
	}
	message, w, err := s.take(c)
	if err != nil {
		s.log.Warn("a peer's snapshot arrived incomplete; what arrived is kept", "peer", from, "err", err)
		if storage.NoRoom(err) {
			s.pause()
		}
		return
	}
	taken := make(chan bool, 1)
	s.t.tell(quorum.Event{Kind: quorum.EventSnapshot, From: from, Data: message, File: w, Taken: taken})
	c.SetDeadline(time.Now().Add(streamTimeout))
	c.Write([]byte{1})
	select {
	case ok := <-taken:
		if !ok {
			s.pause()
		}
	case <-s.t.ctx.Done():
	}
}

// pause keeps the next sender waiting for snapshotRest.
func (s *streams) pause() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rest = time.Now().Add(snapshotRest)
}

// over records that c is no longer read.
func (s *streams) over(c net.Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.current == c {
		s.current = nil
	}
}

// rested waits until a snapshot may be received. It returns false if this server is stopping.
func (s *streams) rested() bool {
	s.mu.Lock()
	wait := time.Until(s.rest)
	s.mu.Unlock()
	select {
	case <-time.After(wait):
		return true
	case <-s.t.ctx.Done():
		return false
	}
}

func (s *streams) take(c net.Conn) ([]byte, *storage.SnapshotWriter, error) {
	c.SetDeadline(time.Now().Add(streamTimeout))
	var n [8]byte
	if _, err := io.ReadFull(c, n[:4]); err != nil {
		return nil, nil, err
	}
	headSize := binary.BigEndian.Uint32(n[:4])
	if headSize > quorum.MessageSizeMax {
		return nil, nil, fmt.Errorf("the message of a snapshot has %d bytes, at most %d", headSize, quorum.MessageSizeMax)
	}
	head := make([]byte, headSize)
	if _, err := io.ReadFull(c, head); err != nil {
		return nil, nil, err
	}
	m := &pb.Message{}
	if err := proto.Unmarshal(head, m); err != nil {
		return nil, nil, fmt.Errorf("decode the message of a snapshot: %w", err)
	}
	if _, err := io.ReadFull(c, n[:]); err != nil {
		return nil, nil, err
	}
	meta, size := m.GetSnapshot().GetMetadata(), int64(binary.BigEndian.Uint64(n[:]))
	p, err := s.incoming.Resume(s.dir, meta.GetIndex(), meta.GetTerm(), size)
	if err != nil {
		return nil, nil, err
	}
	if _, err := c.Write(binary.BigEndian.AppendUint64(nil, uint64(p.Offset()))); err != nil {
		s.incoming.Keep(p)
		return nil, nil, err
	}
	buf := make([]byte, streamChunk)
	for p.Offset() < size {
		c.SetDeadline(time.Now().Add(streamTimeout))
		n, err := c.Read(buf[:min(int64(len(buf)), size-p.Offset())])
		if n > 0 {
			if werr := p.WriteRaw(buf[:n]); werr != nil {
				return nil, nil, errors.Join(werr, p.Abort())
			}
		}
		if err != nil && p.Offset() < size {
			s.incoming.Keep(p)
			return nil, nil, err
		}
	}
	return head, p.SnapshotWriter, nil
}
