package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/subtree"
	"github.com/zooid-project/zooid/internal/tool/cli/advice"
	"github.com/zooid-project/zooid/zk"
)

// within reports whether path is root or lies below it.
func within(root, path string) bool {
	return path == root || root == "/" || strings.HasPrefix(path, root+"/")
}

// absolute returns p's path as the ensemble knows it, including the chroot.
func (p *place) absolute() string {
	if p.path == "/" && p.chroot != "" {
		return p.chroot
	}
	return p.chroot + p.path
}

// overlap reports how two places overlap: whether the target is inside the source, and the source
// inside the target; both if they are the same subtree. Places in two ensembles don't overlap.
func (s *shell) overlap(ctx context.Context, what string,
	from, to *place) (targetInside, sourceInside bool, err error) {
	a, b := from.absolute(), to.absolute()
	targetInside, sourceInside = within(a, b), within(b, a)
	if !targetInside && !sourceInside {
		return false, false, nil // the paths don't overlap, even in one ensemble
	}
	same, err := s.sameEnsemble(ctx, from, to)
	switch {
	case err != nil:
		return false, false, advice.Errorf("nothing was changed; run it again, or name places whose paths don't overlap",
			"%s: the places overlap if both are in the same ensemble, which can't be determined: %w", what, err)
	case !same:
		return false, false, nil
	}
	return targetInside, sourceInside, nil
}

// sameEnsemble reports whether two places are in one ensemble, under whatever names and
// addresses. It opens a session at the first and resumes it at the second: no other
// ensemble knows the session and its password. It writes nothing and needs no
// permission.
func (s *shell) sameEnsemble(ctx context.Context, from, to *place) (bool, error) {
	if from.servers == to.servers {
		return true, nil
	}
	ctx, cancel := context.WithTimeout(ctx, s.opt.timeout)
	defer cancel()
	opt := s.opt.client()
	opt.ReadOnly = false // a server without quorum knows no sessions
	first, err := zk.Open(ctx, from.servers, opt)
	if err != nil {
		return false, fmt.Errorf("open a session at %s: %w", from.servers, err)
	}
	local, err := enterEnsemble(ctx, first)
	if err != nil {
		first.Close()
		return false, fmt.Errorf("make a session at %s known to its ensemble: %w", from.servers, err)
	}
	opt.Resume = first.Detach()
	opt.Resume.LastZxid = 0 // another ensemble may be far behind
	second, err := zk.Open(ctx, to.servers, opt)
	if err == nil {
		second.Close()
		return true, nil
	}
	if last, err := zk.Open(ctx, from.servers, opt); err == nil {
		last.Close() // otherwise the session would linger until it expires
	}
	if errors.Is(err, zk.ErrSessionExpired) && !local {
		return false, nil
	}
	return false, fmt.Errorf("ask %s for a session of %s: %w", to.servers, from.servers, err)
}

// enterEnsemble makes a session known to all servers of its ensemble. With localSessionsEnabled
// only the session's own server knows it until it asks for an ephemeral znode, so enterEnsemble
// asks for one whose parent is missing. local says that the session may own no ephemeral znodes;
// then other servers may still not know it.
func enterEnsemble(ctx context.Context, c *zk.Client) (local bool, err error) {
	missing := fmt.Sprintf("/zooid-%x/none", uint64(c.Session().ID))
	_, err = c.Create(ctx, missing, nil, zk.ModeEphemeral, zk.WorldACL(zk.PermAll))
	switch {
	case errors.Is(err, zk.ErrEphemeralOnLocalSession):
		return true, nil
	case subtree.Gone(err):
		return false, nil
	}
	return false, err
}
