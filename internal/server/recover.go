package server

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"io"

	"github.com/zooid-project/zooid/internal/storage"
)

// newClusterID returns a random id for a new cluster, which is never 0.
func newClusterID() uint64 {
	var b [8]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return max(binary.BigEndian.Uint64(b[:]), 1)
}

// reportRecovery tells the operator what the last crash left.
func (s *Server) reportRecovery(r storage.Recovery) {
	if r.Torn.File != "" {
		s.log.Warn("the last batch of the log was cut short by a crash; it was never acknowledged and is dropped",
			"file", r.Torn.File, "offset", r.Torn.Offset)
	}
	for _, err := range r.DamagedSnapshots {
		s.log.Error("a damaged snapshot was passed over for an older one; check the disk", "err", err)
	}
	if r.NewDataDir {
		s.log.Warn("the data directory was new or empty and the log was not; the log has everything, and this server goes on. "+
			"If the data directory's file system is not mounted, stop this server and mount it", "dataDir", s.opt.DataDir,
			"dataLogDir", s.opt.LogDir)
	}
	if r.IdentityMissing {
		s.log.Warn("IDENTITY is missing; it is written again from what the log says. If nobody removed it, check the file system",
			"directory", s.opt.LogDir)
	}
	if r.Undone {
		s.log.Warn("a crash interrupted the installation of a peer's snapshot, which is discarded")
	}
}

// lockData locks the data directory as storage.Open does, which takes its own lock: that has to be closed before. Close
// may be called again.
func lockData(opt Options) (io.Closer, error) {
	if err := (storage.OS{}).MkdirAll(opt.DataDir); err != nil {
		return nil, fmt.Errorf("make data directory: %w", err)
	}
	lock, err := storage.OS{}.Lock(opt.DataDir)
	if err != nil {
		return nil, fmt.Errorf("open the data directory %s: %w", dirsOf(opt), err)
	}
	return &onceClosed{Closer: lock}, nil
}

// onceClosed is closed once.
type onceClosed struct {
	io.Closer
	closed bool
}

// Close closes it, unless it is closed.
func (c *onceClosed) Close() error {
	if c.closed {
		return nil
	}
	c.closed = true
	return c.Closer.Close()
}
