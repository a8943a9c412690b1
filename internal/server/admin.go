package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// Methods for the admin server, in addition to those that the four-letter words use.

// ID returns the server's myid.
func (s *Server) ID() int64 { return serverid.MyID(s.opt.ID) }

// Quorum returns what the server knows about its ensemble.
func (s *Server) Quorum() quorum.Status { return s.peer.Status() }

// TraceMask returns the mask that gtmk and stmk read and set. Nothing is traced, whatever the mask is.
func (s *Server) TraceMask() int64 { return s.words.TraceMask() }

// SetTraceMask sets the mask that TraceMask returns.
func (s *Server) SetTraceMask(mask int64) { s.words.SetTraceMask(mask) }

// callerPatience is the longest time that a caller of the admin server waits until its credential is judged;
// callerPause is the time between two attempts.
const (
	callerPatience = 10 * time.Second
	callerPause    = 50 * time.Millisecond
)

var errNothingProved = errors.New("the credential proves nothing")

// Authenticate returns the identities that a caller at remote ("host:port") proves by a credential
// of a scheme. state is the state of the caller's TLS connection, or nil without TLS. Unlike the
// identities of a client's connection, all of them are of that scheme.
func (s *Server) Authenticate(remote string, state *tls.ConnectionState, scheme string,
	credential []byte) ([]jute.ID, error) {
	if scheme == "x509" {
		if state == nil || len(state.PeerCertificates) == 0 {
			return nil, fmt.Errorf("authenticate by scheme x509: the caller has shown no certificate: %w", auth.ErrFailed)
		}
		proof, err := s.handshakes.certified(*state, nil)
		return proof.IDs, err
	}
	if scheme == "sasl" || scheme == "digest" && len(credential) == 0 {
		return nil, fmt.Errorf("authenticate by scheme %s: %w: %w", scheme, errNothingProved, auth.ErrFailed)
	}
	var ids []jute.ID
	var err error
	for by := time.Now().Add(callerPatience); ; {
		ids, err = s.replica.Authenticate(addressID(remote), scheme, credential)
		if !errors.Is(err, auth.ErrTooMany) || time.Now().After(by) || !s.pause(callerPause) {
			break // otherwise the credential wasn't judged, because of others' guesses, and may be right
		}
	}
	if err == nil && len(ids) == 0 {
		err = fmt.Errorf("authenticate by scheme %q: %w: %w", scheme, errNothingProved, auth.ErrFailed)
	}
	return ids, err
}

// AdminMeters returns the metrics of the admin server, which it updates.
func (s *Server) AdminMeters() *metrics.Admin { return s.meters.Admin }

// LastSnapshot returns the zxid of the newest snapshot and when it was written; ok is false if there is none.
func (s *Server) LastSnapshot() (zxid int64, written time.Time, ok bool) {
	meta, ok := s.dir.NewestSnapshot()
	if !ok {
		return 0, time.Time{}, false
	}
	file := newestSnapshot(s.opt.DataDir)
	if file == nil {
		return 0, time.Time{}, false
	}
	return meta.Zxid, file.ModTime(), true
}

const snapshotLook = 20 * time.Millisecond // interval at which TakeSnapshot checks whether a snapshot has been written

// TakeSnapshot waits for a snapshot of the state at the time of the call or later, and returns it.
// If nothing has changed since the last snapshot, it returns that one.
func (s *Server) TakeSnapshot(ctx context.Context) (*storage.Snapshot, error) {
	wanted, _, _ := s.replica.Position()
	asked := false
	look := time.NewTicker(snapshotLook)
	defer look.Stop()
	for {
		if meta, ok := s.dir.NewestSnapshot(); ok && meta.Index >= wanted {
			snap, err := s.dir.OpenSnapshot(meta.Index)
			if !errors.Is(err, fs.ErrNotExist) { // otherwise a newer one has replaced it
				return snap, err
			}
		} else if !asked {
			asked = true
			s.replica.RequestSnapshot()
			s.peer.Kick()
		}
		select {
		case <-look.C:
		case <-s.closing:
			return nil, errStopping
		case <-ctx.Done():
			return nil, fmt.Errorf("write a snapshot: it isn't finished: %w; the log of the server says if the disk is full",
				ctx.Err())
		}
	}
}
