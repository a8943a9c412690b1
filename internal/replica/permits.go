package replica

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/limit"
	"github.com/zooid-project/zooid/internal/policy"
	"github.com/zooid-project/zooid/jute"
)

// Authenticate returns the identities that a credential of a scheme proves for a caller that isn't
// a client; address is its AddressID. Its failures count together with clients' failures. An error
// that wraps auth.ErrTooMany means that the credential wasn't judged.
func (l *logins) Authenticate(address jute.ID, scheme string, credential []byte) ([]jute.ID, error) {
	if !l.auth.Schemes().Has(scheme) {
		return nil, fmt.Errorf("authenticate by scheme %.40q, which is not enabled: %w", scheme, auth.ErrFailed)
	}
	p := &jute.AuthPacket{Scheme: scheme, Auth: credential}
	guess := l.auth.GuessOf(nil, address, p)
	if !l.throttle.Allows(&guess, l.now()) {
		l.meters.loginsThrottled.Inc()
		return nil, fmt.Errorf("authenticate by scheme %s: %w: %w", scheme, auth.ErrTooMany, auth.ErrFailed)
	}
	proof, err := l.auth.Authenticate(nil, address, p, l.dataOf)
	l.throttle.Judged(&guess, err, l.now())
	return proof.IDs, err
}

// Permits reports whether the ACL of the znode at path grants one of the permissions in want to
// ids. It is false if the znode doesn't exist.
func (s *state) Permits(path string, want jute.Perm, ids []jute.ID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	acl, ok := s.tree.ACL(path)
	return ok && s.tree.Access().Permits(path, acl, want, ids)
}

// PermitsNamed is Permits for a caller that must be named: a superuser, or an identity to which the
// ACL grants the permission by an entry that doesn't admit every client.
func (s *state) PermitsNamed(path string, want jute.Perm, ids []jute.ID) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	acl, ok := s.tree.ACL(path)
	return ok && s.tree.Access().Permits(path, acl, want, ids) &&
		auth.PermitsNamed(acl, want, ids, s.tree.Settings().Rules)
}

// HasPolicy reports whether the tree has a policy, which may hide znodes from everybody but superusers.
func (s *state) HasPolicy() bool { return s.has(policy.Path) }

// HasLimits reports whether the tree has limits. Like a policy, only superusers may remove them.
func (s *state) HasLimits() bool { return s.has(limit.Root) }

func (s *state) has(path string) bool {
	s.mu.RLock()
	defer s.mu.RUnlock()
	_, ok := s.tree.ACL(path)
	return ok
}
