package bench

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/tool/bench/wire"
	"github.com/zooid-project/zooid/jute"
)

// cleanMax bounds the removal of what a trial has created. A million znodes take half of it on a slow server.
const cleanMax = time.Minute

// clean removes the znodes and everything below them, unless they are to be kept or disappear with the server. It does
// so even after an interrupt.
func (t *trial) clean(ctx context.Context, paths ...string) error {
	if t.keep || t.server != nil || len(paths) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanMax)
	defer cancel()
	c, err := t.dial(ctx, 0, wire.LoadBuffer)
	if err != nil {
		return fmt.Errorf("remove %v afterwards: %w", paths, err)
	}
	defer c.Close()
	stop := context.AfterFunc(ctx, func() { c.Net.Close() })
	defer stop()
	for _, path := range paths {
		t.progress.note("removing " + path)
		if err := removeTree(c, path); err != nil {
			return fmt.Errorf("remove %s afterwards: %w", path, err)
		}
	}
	return nil
}

// removeBatch bounds the unanswered deletes.
const removeBatch = 1000

// removeTree deletes a znode and everything below it. It succeeds if the znode is already gone.
func removeTree(c *wire.Conn, path string) error {
	r := jute.PathWatchRequest{Path: path}
	body, err := c.Call(jute.OpGetChildren, r.Append)
	if errors.Is(err, jute.ErrNoNode) {
		return nil
	}
	if err != nil {
		return err
	}
	var resp jute.ChildrenResponse
	resp.Decode(jute.NewDecoder(append([]byte(nil), body...))) // a copy, since the names are needed after the frame
	left := resp.Children
	for len(left) > 0 {
		n := min(len(left), removeBatch)
		var inner []string
		for _, name := range left[:n] {
			c.Queue(wire.DeleteFrame(path + "/" + name))
		}
		if err := c.Flush(); err != nil {
			return err
		}
		for _, name := range left[:n] {
			h, _, err := c.Reply()
			switch {
			case err != nil:
				return err
			case h.Err == jute.ErrNotEmpty:
				inner = append(inner, name)
			case h.Err != jute.OK && h.Err != jute.ErrNoNode:
				return fmt.Errorf("delete %s/%s: %w", path, name, h.Err)
			}
		}
		for _, name := range inner {
			if err := removeTree(c, path+"/"+name); err != nil {
				return err
			}
		}
		left = left[n:]
	}
	del := jute.PathVersionRequest{Path: path, Version: -1}
	if _, err := c.Call(jute.OpDelete, del.Append); err != nil && !errors.Is(err, jute.ErrNoNode) {
		return fmt.Errorf("delete %s: %w", path, err)
	}
	return nil
}
