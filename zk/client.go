package zk

import (
	"context"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A Client is one session with an ensemble, seen from a root path. All methods
// may be called from any number of goroutines. It reconnects by itself and ends
// when closed, when its session expires, or when its credentials are refused.
type Client struct {
	s    *session
	root string // the chroot; "" if none
}

// New starts a client and returns at once; it connects in the background, and
// calls queue until it has. connect is read by ParseConnectString. The caller
// must Close the client. Errors concern the arguments only.
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

// parsePlace reads the connect string of a client whose servers are named by SRV records, or by the
// string if srv is "".
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

// Open is New followed by Wait: it returns a connected client, or an error that
// names the last failure of each server tried. ctx bounds the wait only.
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

// Chroot returns a view of c in which every path is below path, and which shares
// c's session: closing either closes both. The znode at path need not exist.
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

// Close ends the session at the server, so that its ephemeral znodes go at once,
// and waits until everything the client started has stopped. Calls queued before
// are still answered if a server answers within five seconds; later ones fail
// with ErrClosed. A client that loses its connection, or has lost it, looks for a
// server for a second; if none answers, the session ends by its timeout. Close is idempotent and
// always returns nil.
func (c *Client) Close() error {
	c.s.close(true)
	return nil
}

// Detach stops the client but leaves the session to the server, where another
// client can Resume it until it expires. Unanswered calls fail.
func (c *Client) Detach() Session {
	c.s.close(false)
	return c.Session()
}

// Session returns the session's identity; its ID is 0 before the first
// connection. It is a secret: it allows its owner to take the session over.
func (c *Client) Session() Session {
	c.s.mu.Lock()
	defer c.s.mu.Unlock()
	return Session{ID: c.s.id, Passwd: slices.Clone(c.s.passwd), Timeout: c.s.timing.session, LastZxid: c.s.zxidSeen}
}

// UpdateServers replaces the list of servers by those of connect, which must
// name no chroot. The client may move to another server, with a probability that
// leaves all clients that got the same list evenly spread; a move waits for the
// replies under way and fails no call. With Options.SRV it fails.
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

// newCall starts a call of op on path, which must be valid; a sequential one may
// end in a slash, as the server will append to it.
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

// newPlainCall starts a call that has no znode's path, or one known to be valid.
func (c *Client) newPlainCall(op jute.Op, path string) *call {
	k := c.s.pool.Get().(*call)
	k.op, k.path = op, path
	return k
}

// sized completes the frame and refuses one the server would refuse.
func (c *Client) sized(k *call, b []byte) (*call, error) {
	k.end(b)
	if n := len(k.req) - 4; n > c.s.opt.MaxRequestBytes {
		return nil, &Error{Op: k.op.String(), Path: k.path, Err: ErrRequestTooLarge,
			detail: fmt.Sprintf("it has %d bytes; servers take at most %d (jute.maxbuffer; Options.MaxRequestBytes)", n,
				c.s.opt.MaxRequestBytes)}
	}
	return k, nil
}

// do sends k and waits, again if Options.Retry says so. On success the caller reads
// k.res and releases k; on error the caller must not use k any more.
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
		again := false
		if Retryable(err) && ctx.Err() == nil {
			pause, more := c.s.opt.Retry(attempt, err)
			again = more && sleep(ctx, pause) == nil
		}
		if !again {
			return true, err
		}
		k.err, k.res = nil, result{}
		if k.seen != nil {
			k.seen.attempts++
		}
	}
}
