package auth

import (
	"slices"

	"github.com/zooid-project/zooid/jute"
)

// A Grant records which credential gave a connection one of its identities. Every identity but the address has at least
// one. The rights of a superuser count as an identity.
type Grant struct {
	ID jute.ID // the identity

	// By is the credential: the identity that it proves directly (digest, sasl, x509), or, with an empty id, the scheme
	// of the provider that has accepted it.
	By jute.ID

	// Generation is the generation of superusers with which the credential was checked (see Registry.SetSuperusers).
	Generation uint64

	Until int64 // when the credential expires, in ns since 1970; 0 for never
}

// Granted returns a new array of old and the grants of a further credential. New grants replace earlier ones of the
// same credential, but the later expiry is kept.
func Granted(old, more []Grant) []Grant {
	all := slices.Clone(old)
	for _, g := range more {
		at := slices.IndexFunc(all, func(o Grant) bool { return o.ID == g.ID && o.By == g.By })
		if at < 0 {
			all = append(all, g)
			continue
		}
		if o := all[at].Until; o == 0 || g.Until != 0 && o > g.Until {
			g.Until = o
		}
		all[at] = g
	}
	return all
}

// grants returns one Grant for each of ids.
func (s *superusers) grants(by jute.ID, until int64, ids []jute.ID) []Grant {
	given := make([]Grant, len(ids))
	for i, id := range ids {
		given[i] = Grant{ID: id, By: by, Generation: s.generation, Until: until}
	}
	return given
}

// gives reports whether the credential of g would still give its identity.
func (s *superusers) gives(g *Grant) bool {
	if g.Generation == s.generation {
		return true
	}
	switch {
	case g.ID.Scheme == anySASL:
		return g.ID.ID == s.AnySASL
	case g.ID.Scheme != super:
		return true
	case g.By.Scheme == digest:
		return s.Digest != "" && g.By.ID == s.Digest
	case g.By.Scheme == sasl:
		return slices.Contains(s.SASL, g.By.ID)
	case g.By.Scheme == x509:
		return s.X509 != "" && g.By.ID == s.X509
	}
	return isProvided(g.By.Scheme) // a provider's decision holds until it expires
}

// Withdrawn returns the first identity that none of its credentials would still give, such as the rights of a former
// superuser, or of a former AnySASL user. It ignores expiry.
func (r *Registry) Withdrawn(grants []Grant) (jute.ID, bool) {
	now := r.super.Load()
	for i := range grants {
		if !given(grants, grants[i].ID, now.gives) {
			return grants[i].ID, true
		}
	}
	return jute.ID{}, false
}

// Expired returns the first identity with a credential that has expired at the time now (ns since 1970), unless another
// credential would still give the identity.
func (r *Registry) Expired(grants []Grant, now int64) (jute.ID, bool) {
	current := r.super.Load()
	over := func(g *Grant) bool { return g.Until != 0 && g.Until <= now }
	for i := range grants {
		if over(&grants[i]) && !given(grants, grants[i].ID, func(g *Grant) bool { return !over(g) && current.gives(g) }) {
			return grants[i].ID, true
		}
	}
	return jute.ID{}, false
}

// given reports whether holds is true for one of the grants of an identity.
func given(grants []Grant, id jute.ID, holds func(*Grant) bool) bool {
	for i := range grants {
		if grants[i].ID == id && holds(&grants[i]) {
			return true
		}
	}
	return false
}
