package peer

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"log/slog"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/storage"
)

// TestSenderOfAnUnusableSnapshotWaits: what could not be used comes again at once, and is not
// taken before a while.
func TestSenderOfAnUnusableSnapshotWaits(t *testing.T) {
	t.Parallel()
	dir := disk(t, storage.NewMemFS())
	synctest.Test(t, func(t *testing.T) {
		tr := &transport{events: make(chan quorum.Event, 1)}
		tr.ctx, tr.cancel = context.WithCancel(t.Context())
		s := &streams{dir: dir, t: tr, log: slog.New(slog.DiscardHandler)}
		send := func() (took time.Duration) {
			here, there := net.Pipe()
			go s.receive(here, 2)
			began := time.Now()
			head := binary.BigEndian.AppendUint64([]byte{0, 0, 0, 0}, 3) // an empty message, then the size
			if _, err := there.Write(head); err != nil {
				t.Fatal(err)
			}
			var at [8]byte
			_, err := io.ReadFull(there, at[:])
			_, werr := there.Write([]byte("abc"))
			if err := errors.Join(err, werr); err != nil {
				t.Fatal(err)
			}
			e := <-tr.events
			_, err = there.Read(at[:1])
			e.Taken <- false
			if err := errors.Join(err, e.File.Abort()); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			return time.Since(began)
		}
		if first, second := send(), send(); first > 0 || second != snapshotRest {
			t.Errorf("the first snapshot takes %v, the one after it %v; want 0 and %v", first, second, snapshotRest)
		}
		tr.cancel()
		if s.rested() {
			t.Error("a server that stops takes another snapshot")
		}
	})
}
