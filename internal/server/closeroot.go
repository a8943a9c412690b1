package server

import (
	"context"
	"fmt"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// closedPaths are the znodes of a new ensemble that any client may change.
var closedPaths = []string{"/", "/zookeeper", "/zookeeper/quota"}

// closeRootPause is the interval of close's checks; closeRootTimeout bounds one attempt.
const (
	closeRootPause   = 200 * time.Millisecond
	closeRootTimeout = 10 * time.Second
)

// A rootACL closes znodes that any client could change.
type rootACL struct {
	*engine
	newID func() int64
}

// close sets the ACL of closedPaths to Options.RootACL, and retries until none is left that any client can change.
func (r rootACL) close() {
	for failed := false; r.pause(closeRootPause); {
		if v := r.replica.View(); !v.Serving || v.ReadOnly {
			continue
		}
		var open []string
		for _, path := range closedPaths {
			if r.replica.Permits(path, jute.PermAll&^jute.PermRead, nil) {
				open = append(open, path)
			}
		}
		if len(open) == 0 {
			return
		}
		err := r.set(open)
		switch {
		case err == nil:
			r.log.Info("znodes that anybody could change are the superusers' now (security.profile=strict)", "znodes", open)
		case !failed:
			failed = true
			r.log.Warn("znodes that anybody may change can't be closed yet; it will be tried again", "znodes", open, "err", err, "code", "ZD-1232")
		}
	}
}

// set sets the ACLs in a session of the server with itself.
func (r rootACL) set(paths []string) error {
	ctx, cancel := context.WithTimeout(context.Background(), closeRootTimeout)
	defer cancel()
	own, err := connectSelf(ctx, r.engine, r.newID)
	if err != nil {
		return err
	}
	defer own.close()
	for _, path := range paths {
		request := jute.SetACLRequest{Path: path, ACL: r.opt.RootACL, Version: -1}
		_, code, err := own.do(ctx, jute.OpSetACL, request.Append(nil))
		if err == nil && code != jute.OK {
			err = code
		}
		if err != nil {
			return fmt.Errorf("set the ACL of %s: %w", path, err)
		}
	}
	return nil
}
