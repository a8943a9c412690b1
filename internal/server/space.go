package server

import (
	"errors"
	"io/fs"
	"path/filepath"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// A disk that fills up must not end the service while it still can be helped.
// The server looks at the free space once a second. Below the limit its clients'
// writes are answered with jute.ErrThrottledOp, "not executed at all", in their
// place among the other replies; connections, reads, heartbeats, closeSession and
// expiry go on, for which the log keeps a reserve. A leader asks another server
// to lead instead, once: it can't refuse what other servers forward. When there
// is room again all goes on by itself.

const (
	// spaceInterval is how often the free space is looked at: a second of writes at
	// full speed is far less than the limit.
	spaceInterval = time.Second
	// spaceRefuseBytesMax and spaceRefuseShare make the limit: on a small file
	// system a fixed number of bytes would refuse writes for ever.
	spaceRefuseBytesMax = 1 << 30
	spaceRefuseShare    = 10
)

// opNoRoom answers a write that the disk has no room for.
var opNoRoom = op{jute.OpError, kindRead, "NOSP", (*replica).readNoRoom}

func (r *replica) readNoRoom(_ *client, out, _ []byte) ([]byte, jute.Code) {
	return out, jute.ErrThrottledOp
}

// spaceLimits are the limits of free space on the file systems of the data
// directory: at most a tenth of the smaller one must stay free.
func spaceLimits(opt Options) storage.SpaceLimits {
	limits := storage.SpaceLimits{RefuseBytes: spaceRefuseBytesMax}
	for _, dir := range []string{opt.DataDir, opt.LogDir} {
		_, total, err := storage.OS{}.Free(dir)
		for errors.Is(err, fs.ErrNotExist) && dir != filepath.Dir(dir) {
			dir = filepath.Dir(dir) // it is made later, on the same file system
			_, total, err = storage.OS{}.Free(dir)
		}
		if err == nil {
			limits.RefuseBytes = min(limits.RefuseBytes, max(int64(total/spaceRefuseShare), 1))
		}
	}
	return limits
}

// watchSpace follows the free space until the server stops.
func (s *Server) watchSpace() {
	defer s.wg.Done()
	var before storage.SpaceLevel
	said, led := "", false
	for {
		state, err := s.dir.SpaceState()
		if err != nil {
			if text := err.Error(); text != said {
				said = text
				s.log.Error("the free space can't be told; clients' writes go on as before", "err", err)
			}
			state.Level = before
		}
		s.reportSpace(before, state)
		refuse := state.Level == storage.SpaceRefuse
		s.replica.noRoom.Store(refuse)
		leads := refuse && s.peer.Status().IsLeader
		if leads && !led {
			s.peer.Yield()
		}
		before, led = state.Level, leads
		if !s.pause(spaceInterval) {
			return
		}
	}
}

// reportSpace tells the operator when the level has changed.
func (s *Server) reportSpace(before storage.SpaceLevel, now storage.SpaceState) {
	where := []any{"dataDir", s.opt.DataDir, "dataLogDir", s.opt.LogDir, "freeBytes", now.Free, "ofBytes", now.Total}
	switch {
	case now.Level == before:
	case now.Level == storage.SpaceRefuse:
		s.log.Error("the disk is nearly full: this server refuses its clients' writes until there is room; make some, or enlarge the file system; reads go on, and nothing needs to be restarted", where...)
	case before == storage.SpaceRefuse:
		s.log.Info("there is room on the disk again: clients' writes are accepted", where...)
	case now.Level == storage.SpaceWarn:
		s.log.Warn("the disk fills up; at a tenth of its size or less this server will refuse its clients' writes", where...)
	}
}
