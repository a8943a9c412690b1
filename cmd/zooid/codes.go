//go:build unix

package main

import (
	"errors"
	"syscall"

	"github.com/zooid-project/zooid/internal/runbook"
	"github.com/zooid-project/zooid/internal/server"
	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
)

// errorText returns err's message with its code.
func errorText(err error) string { return serverid.Text(runbook.Text(coded(err))) }

// coded adds a code to err by its type, unless err has a code.
func coded(err error) error {
	if runbook.Code(err) != "" {
		return err
	}
	if code := codeOfKind(err); code != "" {
		return runbook.Errorf(code, "%w", err)
	}
	return err
}

// codeOfKind returns the code of an error of a package without codes, or "".
func codeOfKind(err error) string {
	switch {
	case is[*tree.NewerError](err), is[*storage.FormatError](err): // which is a DamageError, too
		return "ZD-1115"
	case is[*storage.DamageError](err):
		return "ZD-1110"
	case is[*storage.FatalError](err):
		return "ZD-2001"
	case is[*storage.ClusterError](err):
		return "ZD-1111"
	case is[*storage.MissingError](err):
		return "ZD-1112"
	case is[*tree.MissingRuleError](err):
		return "ZD-3141"
	case is[*server.DivergedAloneError](err):
		return "ZD-3405"
	case is[*server.FormerLifeError](err):
		return "ZD-3137"
	case is[*server.DivergedError](err):
		return "ZD-3406"
	case is[*server.UndecidedError](err):
		return "ZD-3408"
	case is[*server.StallError](err):
		return "ZD-2005"
	case is[*server.PanicError](err):
		return "ZD-3420"
	case is[*server.CopiedError](err):
		return "ZD-3228"
	case errors.Is(err, server.ErrDuplicateID):
		return "ZD-1116"
	case errors.Is(err, syscall.EWOULDBLOCK): // flock
		return "ZD-1113"
	case storage.NoRoom(err):
		return "ZD-1114"
	}
	return ""
}

func is[E error](err error) bool {
	var e E
	return errors.As(err, &e)
}
