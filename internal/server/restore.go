package server

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A restore of the ensemble (decision 053) needs a session of the server with itself.

const (
	// RestoreBytesMax bounds the encoded znodes that Restore accepts: they are in memory three times.
	RestoreBytesMax = 512 << 20
	// pieceBytes is the size of one piece, which must fit into a request under the smallest jute.maxbuffer in use.
	pieceBytes = 256 << 10
	// ownTimeout is the timeout of the session; each request and ping restarts it.
	ownTimeout = 30 * time.Second
	// restoreTimeout is the longest time that a restore may take.
	restoreTimeout = 10 * time.Minute
)

// ErrRestoreUnknown says that a restore may or may not have taken place.
var ErrRestoreUnknown = errors.New("the restore's session ended before the answer: it was done as a whole or not at all; compare what the ensemble holds")

// Restore replaces the contents of the ensemble with znodes, which tree.AppendZnode encoded, at
// once and on all servers, and ends all sessions. It returns the zxid of that change. After an
// error other than ErrRestoreUnknown nothing has changed. The caller at remote has proved ids; the log names it.
func (s *Server) Restore(ctx context.Context, remote string, ids []jute.ID, znodes []byte) (zxid int64, err error) {
	if len(znodes) > RestoreBytesMax {
		return 0, fmt.Errorf("restore: the znodes take %d bytes; at most %d are accepted", len(znodes), RestoreBytesMax)
	}
	if !s.replica.InForce(tree.OpRestore, nil) {
		return 0, errors.New("restore: a member of the ensemble runs a version that can't; upgrade all servers, and try again")
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.restoreTimeout)
	defer cancel()
	own, err := connectSelf(ctx, s.engine, s.newID)
	if err != nil {
		return 0, fmt.Errorf("restore: begin a session: %w", err)
	}
	defer own.close()
	nobody := jute.WorldACL(0)
	dir := jute.CreateRequest{Path: tree.RestorePath, ACL: nobody}
	if _, code, err := own.do(ctx, jute.OpCreate, dir.Append(nil)); err != nil ||
		code != jute.OK && code != jute.ErrNodeExists {
		return 0, refusedPiece(code, err)
	}
	prefix := tree.RestorePath + "/" + strconv.FormatUint(uint64(own.session), 16)
	pieces := 0
	for rest := znodes; len(rest) > 0; pieces++ {
		n := min(len(rest), pieceBytes)
		piece := jute.CreateRequest{
			Path: tree.PiecePath(prefix, pieces), Data: rest[:n], ACL: nobody, Flags: jute.ModeEphemeral,
		}
		if _, code, err := own.do(ctx, jute.OpCreate, piece.Append(nil)); err != nil || code != jute.OK {
			return 0, refusedPiece(code, err)
		}
		rest = rest[n:]
	}
	own.client.Identify(slices.Concat(own.client.Identities(), ids, []jute.ID{addressID(remote)}))
	zxid, code, err := own.do(ctx, tree.OpRestore, tree.AppendRestore(nil, prefix, pieces, sha256.Sum256(znodes)))
	switch {
	case err != nil:
		return 0, fmt.Errorf("%w (%w)", ErrRestoreUnknown, err)
	case code != jute.OK:
		return 0, fmt.Errorf("restore: the servers refuse the znodes: %s", code)
	}
	return zxid, nil
}

// refusedPiece returns the error for a piece that was not stored.
func refusedPiece(code jute.Code, err error) error {
	switch {
	case err != nil:
		return fmt.Errorf("restore: store the snapshot's pieces: %w", err)
	case code == jute.ErrThrottledOp:
		return errors.New("restore: the disk or memory has no room for the snapshot in addition to what the ensemble holds")
	}
	return fmt.Errorf("restore: store the snapshot's pieces below %s: %s", tree.RestorePath, code)
}

// An ownSession is a session of the server with itself, as superuser.
type ownSession struct {
	*engine
	client  *replica.Client
	output  signal // there may be output
	in      []byte // replies, as they arrive
	session int64
	xid     int32
}

var errOwnEnded = errors.New("the server has closed it")

// connectSelf begins a session of the server with itself.
func connectSelf(ctx context.Context, e *engine, newID func() int64) (own *ownSession, err error) {
	own = &ownSession{engine: e, output: newSignal()}
	local := jute.ID{Scheme: "ip", ID: "127.0.0.1"}
	client := replica.NewClient(newID(), "itself", local, replica.Woken(own.output.raise))
	own.client, client.Since = client, time.Now()
	ids := []jute.ID{{Scheme: "super"}}
	for _, scheme := range e.opt.Auth.EnforceSchemes {
		ids = append(ids, jute.ID{Scheme: scheme})
	}
	client.Identify(ids)
	client.MayRestore()
	defer func() {
		if err != nil {
			e.replica.Disconnected(client)
		}
	}()
	hello := jute.ConnectRequest{Timeout: int32(ownTimeout.Milliseconds()), Passwd: make([]byte, jute.PasswdSize)}
	if err := e.replica.Connect(client, &hello, newID); err != nil {
		return nil, err
	}
	frame, err := own.next(ctx)
	if err != nil {
		return nil, err
	}
	var welcome jute.ConnectResponse
	welcome.Decode(jute.NewDecoder(frame))
	own.session = welcome.SessionID
	if welcome.SessionID == 0 || welcome.Timeout <= 0 {
		return nil, errOwnEnded
	}
	return own, nil
}

// close ends the session, which removes the remaining pieces.
func (own *ownSession) close() {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Second)
	defer cancel()
	_, _, _ = own.do(ctx, jute.OpCloseSession, nil) // if it fails, the session ends by its timeout
	own.replica.Disconnected(own.client)
}

// do sends a request and waits for its reply.
func (own *ownSession) do(ctx context.Context, op jute.Op, body []byte) (zxid int64, code jute.Code, err error) {
	own.xid++
	if err := own.send(ctx, own.xid, op, body); err != nil {
		return 0, 0, err
	}
	for {
		frame, err := own.next(ctx)
		if err != nil {
			return 0, 0, err
		}
		var h jute.ReplyHeader
		h.Decode(jute.NewDecoder(frame))
		if h.Xid == own.xid {
			return h.Zxid, h.Err, nil
		}
	}
}

// send hands a request to the replica.
func (own *ownSession) send(ctx context.Context, xid int32, op jute.Op, body []byte) error {
	frame := jute.AppendRequest(nil, xid, op, jute.Encoded(body))
	for len(frame) > 0 {
		used, err := own.replica.Receive(own.client, frame, own.now())
		frame = frame[used:]
		switch {
		case errors.Is(err, replica.ErrUntold):
			own.take()
		case errors.Is(err, replica.ErrPaced):
			if !own.pause(own.client.Pause()) {
				return err
			}
		case errors.Is(err, replica.ErrNotUpToDate):
			if own.client.Ending() != "" || !own.pause(outdatedPause) {
				return err
			}
		case err != nil:
			return fmt.Errorf("%w: %s", err, own.client.Ending())
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// next returns the next frame. While it waits, it sends pings to keep the session alive.
func (own *ownSession) next(ctx context.Context) ([]byte, error) {
	beat := time.NewTicker(ownTimeout / 3)
	defer beat.Stop()
	for {
		ended := own.take()
		if len(own.in) >= frameHead {
			if n := frameHead + int(binary.BigEndian.Uint32(own.in)); len(own.in) >= n {
				frame := own.in[frameHead:n]
				own.in = own.in[n:]
				return frame, nil
			}
		}
		if ended {
			return nil, fmt.Errorf("%w: %s", errOwnEnded, own.client.Ending())
		}
		select {
		case <-own.output:
		case <-beat.C:
			if own.session != 0 {
				if err := own.send(ctx, jute.XidPing, jute.OpPing, nil); err != nil {
					return nil, err
				}
			}
		case <-own.closing:
			return nil, errStopping
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// take takes the available output, and reports whether no more will come.
func (own *ownSession) take() (ended bool) {
	for {
		out, last := own.client.TakeOutput(nil)
		own.in = append(own.in, out...)
		if last {
			return true
		}
		if out == nil {
			return false
		}
	}
}
