package admin

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// A Server is the server that the commands ask: what the four-letter words ask, and more.
type Server interface {
	fourletter.Server
	// ID is the server's myid.
	ID() uint64
	// Quorum is what the server knows of its ensemble.
	Quorum() quorum.Status
	// TraceMask and SetTraceMask are the mask of gtmk and stmk.
	TraceMask() int64
	SetTraceMask(mask int64)
	// SecureConnections returns the addresses, as Connections has them, of those over TLS.
	SecureConnections() map[string]bool
	// Authenticate returns the identities of a caller at remote ("host:port") who brings a
	// credential of a scheme; state is nil without TLS.
	Authenticate(remote string, state *tls.ConnectionState, scheme string, credential []byte) ([]jute.ID, error)
	// LastSnapshot returns the zxid of the newest snapshot and when it was written; ok is
	// false if there is none.
	LastSnapshot() (zxid int64, written time.Time, ok bool)
	// TakeSnapshot returns a snapshot of the state at the call or later. It waits until it
	// is written.
	TakeSnapshot(ctx context.Context) (*storage.Snapshot, error)
	// Replace replaces what the ensemble holds by znodes that Options.Znodes has returned, and
	// returns the zxid of that. After an error nothing has changed, unless the error says otherwise.
	Replace(ctx context.Context, znodes []byte) (zxid int64, err error)
	// ShedConnections closes that many of 100 client connections, chosen at random, and
	// returns how many it has closed.
	ShedConnections(percent int) int
	// Draining reports whether Drain has begun.
	Draining() bool
	// Drain turns new clients away, hands leadership over, moves the clients to other
	// servers, and returns when another server leads or ctx is over.
	Drain(ctx context.Context) error
}
