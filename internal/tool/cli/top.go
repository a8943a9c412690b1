package cli

import (
	"context"
	"errors"

	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/internal/tool/top"
)

// runTop shows the state of the servers, and the most frequent requests to one of them: repeatedly on a terminal, once
// elsewhere. It is `zooid top` within the shell.
func runTop(ctx context.Context, s *shell, a *args) error {
	f := top.Flags{Bytes: a.has("bytes")}
	var err error
	if f.Rounds, err = a.number("n", 0); err != nil {
		return err
	}
	if f.Interval, err = a.duration("i", top.IntervalDefault); err != nil {
		return err
	}
	if f.Keys, err = a.number("k", top.KeysDefault); err != nil {
		return err
	}
	if err := f.Check(); err != nil {
		return a.usagef("%s", err)
	}
	whom := &top.Whom{Servers: s.servers(), Word: s.askWord}
	if host := a.argOr(0, ""); host != "" {
		access := &s.opt.access
		if whom.Admin, err = top.AdminAt(host, access.SecureDial()); err != nil {
			return err
		}
	}
	err = f.Run(ctx, s.out, whom)
	if _, said := errors.AsType[*advice.Error](err); err != nil && ctx.Err() == nil && !said {
		err = advice.Add(err, "check that the server is up and allows srvr")
	}
	return err
}
