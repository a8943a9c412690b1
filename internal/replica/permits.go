package replica

import "github.com/zooid-project/zooid/jute"

// Permits reports whether the ACL of the znode at path grants one of the permissions in want
// to the bearer of ids. It is false of a znode that doesn't exist.
func (r *Replica) Permits(path string, want jute.Perm, ids []jute.ID) bool {
	r.mu.RLock()
	defer r.mu.RUnlock()
	acl, ok := r.tree.ACL(path)
	return ok && r.tree.Permits(acl, want, ids)
}
