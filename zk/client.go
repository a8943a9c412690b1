package zk

import (
	"context"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A Client is one session with an ensemble. Open, New and Dial return one; the zero Client can't be used. Paths are
// relative to its chroot. All methods may be called from several goroutines at once. The client reconnects by itself.
// It ends when it is closed, when its session expires, or when a server refuses its credentials; every call then fails
// with ErrClosed, ErrSessionExpired or ErrAuthFailed. One that has ended by itself needs no Close.
type Client struct {
	s    *session
	root string // the chroot; "" if none
}

// New starts a client and returns at once. The client connects in the background, and calls wait until it has.
// ParseConnectString describes connect. The caller must Close the client. An error means that an argument is invalid.
func New(connect string, opt Options) (*Client, error) {
	parsed, err := parsePlace(connect, opt.SRV)
	if err != nil {
		return nil, err
	}
	if opt, err = opt.complete(); err != nil {
		return nil, err
	}
	return &Client{s: startSession(parsed.Servers, opt), root: parsed.Chroot}, nil
}

// parsePlace parses the connect string. If srv isn't "", the servers come from SRV records, and the string may hold
// only a chroot.
func parsePlace(connect, srv string) (ConnectString, error) {
	if srv == "" {
		return ParseConnectString(connect)
	}
	if connect != "" && connect[0] != '/' {
		return ConnectString{}, &ConnectStringError{connect, 0,
			"it names servers, and Options.SRV does too; with the latter it is a chroot or empty"}
	}
	chroot, err := parseChroot(connect)
	return ConnectString{Chroot: chroot}, err
}

// Open is New followed by Wait. If Wait fails, Open closes the client and returns an error that wraps that of Wait and
// names the last failure of each server. Without a deadline in ctx, it waits until a server answers. ctx bounds only
// the wait; the client outlives it.
func Open(ctx context.Context, connect string, opt Options) (*Client, error) {
	c, err := New(connect, opt)
	if err != nil {
		return nil, err
	}
	if err := c.Wait(ctx); err != nil {
		c.Close()
		if opt.SRV != "" {
			connect = "servers of " + opt.SRV + connect
		}
		return nil, fmt.Errorf("zk: open %s: %w", connect, err)
	}
	return c, nil
}

// Chroot returns a view of c whose paths are relative to path. The view shares c's session, so closing one closes both.
// path is relative to c, and the znode need not exist. Chroot sends no request, and fails only if path is invalid.
func (c *Client) Chroot(path string) (*Client, error) {
	if err := jute.CheckPath(path); err != nil {
		return nil, fmt.Errorf("zk: chroot: %w", err)
	}
	if path == "/" {
		return &Client{s: c.s, root: c.root}, nil
	}
	return &Client{s: c.s, root: c.abs(path)}, nil
}

// abs returns the path under the root; "/" is the root itself.
func (c *Client) abs(path string) string {
	switch {
	case c.root == "":
		return path
	case path == "/":
		return c.root
	}
	return c.root + path
}

// A Place says which znode a path means in a session, whatever the chroot of the client. Places can be compared: two
// are equal if their clients share a session by Chroot and they have one whole path. Recipes compare locks by them.
type Place struct {
	s    *session
	path string
}

// Place returns the place of path, which is relative to c's chroot. It sends no request and doesn't check path.
func (c *Client) Place(path string) Place { return Place{c.s, c.abs(path)} }

// Path returns the whole path, which begins with the chroot.
func (p Place) Path() string { return p.path }

// Close ends the session at the server, which deletes its ephemeral znodes at once, and waits until everything that the
// client started has stopped. Calls made before it are still answered if a server answers within five seconds; later
// ones fail with ErrClosed. Without a connection, Close tries for one second to reach a server. If none answers, the
// session ends by its timeout. Close takes about six seconds at most. Close is idempotent and always returns nil.
func (c *Client) Close() error {
	c.s.close(true)
	return nil
}

// Detach stops the client and leaves the session open at the server, where another client can continue it by
// Options.Resume until it expires. A later Close leaves the session open, too. Unanswered calls fail with ErrClosed; a
// write among them may have been applied (MaybeApplied). Detach doesn't wait for a server. The result has the ID 0, or
// that of Options.Resume, if the client never connected. A second Detach returns the same session. After Close or
// expiry, Detach returns the session that has ended.
func (c *Client) Detach() Session {
	c.s.close(false)
	return c.Session()
}

// Session returns what identifies the session to servers. Before the first connection, the ID is 0 or that of
// Options.Resume, and Timeout is the one requested. The result is a secret: anyone who has it can take over the
// session.
func (c *Client) Session() Session {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return Session{ID: c.s.id, Passwd: slices.Clone(c.s.passwd), Timeout: c.s.timing.session, LastZxid: c.s.zxidSeen}
}

// UpdateServers replaces the list of servers with those of connect, which must have no chroot. The client moves to
// another server if its own isn't in the list. Otherwise it may move, so that clients with the same list spread evenly.
// It moves in the background once all requests that it has sent are answered, or after two seconds; to States and
// watches, a move is a lost connection. UpdateServers doesn't wait. It fails if Options.SRV is set.
func (c *Client) UpdateServers(connect string) error {
	parsed, err := ParseConnectString(connect)
	if err != nil {
		return err
	}
	if parsed.Chroot != "" {
		return &ConnectStringError{connect, len(connect) - len(parsed.Chroot), "a change of servers can't change the chroot"}
	}
	if srv := c.s.opt.SRV; srv != "" {
		return fmt.Errorf("zk: update the servers: the SRV records of %s name them; change those", srv)
	}
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	c.s.replaceServers(parsed.Servers)
	return nil
}

// newCall starts a call of op on path, which it checks. The path of a sequential create may end in a slash, since the
// server appends a number.
func (c *Client) newCall(op jute.Op, path string, sequential bool) (*call, error) {
	checked := path
	if sequential {
		checked += "1"
	}
	if err := jute.CheckPath(checked); err != nil {
		return nil, &Error{Op: op.String(), Path: path, Err: err}
	}
	return c.newPlainCall(op, path), nil
}

// newPlainCall starts a call whose path is already checked or isn't a path.
func (c *Client) newPlainCall(op jute.Op, path string) *call {
	k := c.s.pool.Get().(*call)
	k.op, k.path = op, path
	return k
}

// sized completes the frame. It fails if the frame is larger than the server accepts.
func (c *Client) sized(k *call, b []byte) (*call, error) {
	k.end(b)
	if n := len(k.req) - 4; n > c.s.opt.MaxRequestBytes {
		return nil, &Error{Op: k.op.String(), Path: k.path, Err: ErrRequestTooLarge,
			detail: fmt.Sprintf("it has %d bytes; servers take at most %d (jute.maxbuffer; Options.MaxRequestBytes)", n,
				c.s.opt.MaxRequestBytes)}
	}
	return k, nil
}

// do sends k and waits, again if Options.Retry says so. On success the caller reads k.res
// and releases k; after an error the caller must not use k.
func (c *Client) do(ctx context.Context, k *call) error {
	c.s.observe(ctx, k)
	completed, err := c.try(ctx, k)
	c.s.ended(k, completed, err)
	if err != nil && completed {
		k.release()
	}
	return err
}

// try is do without its release of k: k may be released if it has completed, or was not sent.
func (c *Client) try(ctx context.Context, k *call) (completed bool, err error) {
	for attempt := 1; ; attempt++ {
		if err := c.s.submit(ctx, k); err != nil {
			return true, err
		}
		completed, err := c.s.wait(ctx, k)
		if err == nil || !completed {
			return completed, err
		}
		if !Retryable(err) || ctx.Err() != nil {
			return true, err
		}
		pause, again := c.s.opt.Retry(attempt, err)
		if !again {
			return true, err
		}
		if sleep(ctx, pause) != nil {
			return true, cancelError(ctx, k, "", false, fmt.Sprintf("not sent again after: %v", err))
		}
		k.err, k.res = nil, result{}
		if k.seen != nil {
			k.seen.attempts++
		}
	}
}
