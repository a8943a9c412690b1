package admin

import (
	"context"
	"crypto/tls"
	"time"

	"github.com/zooid-project/zooid/internal/fourletter"
	"github.com/zooid-project/zooid/internal/metrics"
	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/jute"
)

// A Server is the server that the commands ask. It extends that of the four-letter words.
type Server interface {
	fourletter.Server
	// ID returns the server's myid.
	ID() int64
	// Quorum returns what the server knows about its ensemble.
	Quorum() quorum.Status
	// TraceMask and SetTraceMask access the mask of gtmk and stmk.
	TraceMask() int64
	SetTraceMask(mask int64)
	// SecureConnections returns the addresses of the TLS connections, in the form that Connections uses.
	SecureConnections() map[string]bool
	// Authenticate returns the identities that a credential of a scheme proves, for a caller at remote ("host:port");
	// state is nil without TLS.
	Authenticate(remote string, state *tls.ConnectionState, scheme string, credential []byte) ([]jute.ID, error)
	// LastSnapshot returns the zxid of the newest snapshot and when it was written; ok is
	// false if there is none.
	LastSnapshot() (zxid int64, written time.Time, ok bool)
	// TakeSnapshot returns a snapshot of the state at the time of the call or later, once it is written.
	TakeSnapshot(ctx context.Context) (*storage.Snapshot, error)
	// Restore replaces the ensemble's data by znodes that Options.Znodes has returned, and returns the zxid of the
	// change. After an error nothing has changed, unless the error says otherwise. The caller at remote ("host:port") has
	// proved ids.
	Restore(ctx context.Context, remote string, ids []jute.ID, znodes []byte) (zxid int64, err error)
	// AdminMeters returns the metrics of the admin server, which it updates.
	AdminMeters() *metrics.Admin
	// ShedConnections closes percent of the client connections, chosen at random, and returns how many it has closed.
	ShedConnections(percent int) int
	// Stalled returns why the server can't do its work now, or "".
	Stalled() string
	// Draining reports whether the server is drained, or about to be.
	Draining() bool
	// Drain asks the leader whether enough other servers go on serving, unless force gives a reason not to ask. Then it
	// rejects new clients, transfers leadership, moves the clients to other servers, and returns when another server
	// leads or ctx is done. Undrain ends that.
	Drain(ctx context.Context, force string) error
	Undrain()
}
