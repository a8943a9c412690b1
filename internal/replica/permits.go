package replica

import (
	"errors"
	"fmt"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/jute"
)

// Authenticate returns the identities that a credential of a scheme proves for a caller that isn't
// a client; address is its AddressID. Failures count together with those of clients.
func (r *Replica) Authenticate(address jute.ID, scheme string, credential []byte) ([]jute.ID, error) {
	if !r.auth.Schemes().Has(scheme) {
		return nil, fmt.Errorf("authenticate by scheme %.40q, which is not enabled: %w", scheme, auth.ErrFailed)
	}
	if !r.throttle.Allows(address, r.now()) {
		r.meters.loginsThrottled.Inc()
		return nil, fmt.Errorf("authenticate by scheme %s: too many logins from its address have failed; one a second is judged: %w",
			scheme, auth.ErrFailed)
	}
	proof, err := r.auth.Authenticate(nil, address, &jute.AuthPacket{Scheme: scheme, Auth: credential}, r.dataOf)
	if err != nil && !errors.Is(err, auth.ErrWrongEnsemble) || r.auth.Guessed(nil, proof.IDs) {
		r.throttle.Failed(address, r.now())
	}
	return proof.IDs, err
}

// Permits reports whether the ACL of the znode at path grants one of the permissions in want to the
// bearer of ids. It is false for a znode that doesn't exist.
func (r *Replica) Permits(path string, want jute.Perm, ids []jute.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	acl, ok := r.tree.ACL(path)
	return ok && r.tree.Permits(path, acl, want, ids)
}

// PermitsNamed is Permits for a caller that must be named: a superuser, or an identity that the ACL
// grants the permission by an entry that doesn't admit everybody.
func (r *Replica) PermitsNamed(path string, want jute.Perm, ids []jute.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	acl, ok := r.tree.ACL(path)
	return ok && r.tree.Permits(path, acl, want, ids) && auth.PermitsNamed(acl, want, ids)
}
