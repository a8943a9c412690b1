package auth

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// isProvided reports whether a scheme belongs to a provider (package authprovider). It depends only on the name.
func isProvided(scheme string) bool { return authprovider.IsScheme(scheme) }

// addProviders returns schemes and those of the providers.
func (r *Registry) addProviders(schemes Schemes) (Schemes, error) {
	for _, p := range r.o.Providers {
		name := p.Scheme()
		if err := authprovider.CheckScheme(name); err != nil {
			return nil, fmt.Errorf("set up authentication (authProvider.N): %w", err)
		}
		if r.providers[name] != nil {
			return nil, fmt.Errorf("set up authentication (authProvider.N): two providers serve the scheme %s; remove one", name)
		}
		r.providers[name] = p
		if err := r.addRule(p); err != nil {
			return nil, err
		}
		schemes = append(schemes, name)
	}
	return NewSchemes(schemes...), nil
}

// ask asks a provider to check a credential.
func (r *Registry) ask(provider authprovider.Provider, ids []jute.ID, address jute.ID, p *jute.AuthPacket,
	data func(string) ([]byte, bool)) (Proof, error) {
	now := r.super.Load()
	scheme := strings.Clone(p.Scheme)
	proved, authenticated, err := handle(provider, authprovider.Request{
		Scheme: scheme, Auth: slices.Clone(p.Auth), Address: address.ID, Data: data,
	})
	switch {
	case errors.Is(err, authprovider.ErrUndecided):
		return Proof{}, fmt.Errorf("authenticate by scheme %s: %w", scheme, conceal(err, p.Auth))
	case err != nil:
		return Proof{}, fmt.Errorf("authenticate by scheme %s: %w: %w", scheme, conceal(err, p.Auth), ErrFailed)
	}
	if !authenticated {
		scheme += unproved
	}
	var all []jute.ID
	for _, id := range proved.IDs {
		all = append(all, jute.ID{Scheme: scheme, ID: id})
	}
	if proved.Super {
		all = append(all, jute.ID{Scheme: super})
	}
	if len(all) == 0 {
		return Proof{}, fmt.Errorf("authenticate by scheme %s: its provider names no identity: %w", scheme, ErrFailed)
	}
	until := int64(0)
	if !proved.Expires.IsZero() {
		// Times in ns since 1970 end in the year 2262.
		until = min(max(proved.Expires.Unix(), 1), math.MaxInt64/1_000_000_000) * 1e9
	}
	proof, err := prove(ids, now.grants(jute.ID{Scheme: provider.Scheme()}, until, all))
	if err == nil {
		err = r.checkRuled(provider.Scheme(), proof.IDs)
	}
	if err != nil {
		return Proof{}, err
	}
	return proof, nil
}

// handle calls a provider. If it panics, it has refused the credential, as in Apache.
func handle(p authprovider.Provider, req authprovider.Request) (ids authprovider.Identities, authenticated bool,
	err error,
) {
	defer func() {
		if cause := recover(); cause != nil {
			at := panickedAt()
			err = fmt.Errorf("its provider has a bug: it panicked at %s: %w", at, conceal(fmt.Errorf("%.200v", cause), req.Auth))
		}
	}()
	if ids, err = p.HandleAuthentication(req); err != nil {
		return ids, false, err
	}
	return ids, p.IsAuthenticated(), nil
}

// admits asks a provider whether an id may stand in an ACL. If it panics, the id may not.
func admits(p authprovider.Provider, id string) (ok bool, err error) {
	defer func() {
		if cause := recover(); cause != nil {
			ok, err = false, fmt.Errorf("judge an id of the scheme %s in an ACL: its provider has a bug: it panicked at %s: %.200v",
				p.Scheme(), panickedAt(), cause)
		}
	}()
	return p.IsValid(id), nil
}

// panickedAt returns the function and the line that panicked. It is called by the function that recovers.
func panickedAt() string {
	var pcs [16]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	for {
		f, more := frames.Next()
		if !strings.HasPrefix(f.Function, "runtime.") || !more {
			return fmt.Sprintf("%s (line %d)", f.Function, f.Line)
		}
	}
}

// refusedMark replaces the first byte of the scheme of an ACL entry that a provider refuses. No scheme begins with it,
// so every replica answers with InvalidACL.
const refusedMark = '!'

// Judge asks the providers to check the ids in the ACLs of a request, once, on the server to which the client is
// connected. If RefuseOpenACLs is set, it also refuses entries with which an ACL grants everybody anything. It marks
// refused entries in body itself. body is the record of a request with the operation op; if it can't be parsed, the
// replicas refuse it. An error says that a provider panicked, whose entry is refused, too.
func (r *Registry) Judge(op jute.Op, body []byte) error {
	if len(r.providers) == 0 && !r.o.RefuseOpenACLs {
		return nil
	}
	d := jute.NewDecoder(body)
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		d.Buffer()
		d.Buffer()
		return r.judgeACLs(d, body)
	case jute.OpSetACL:
		d.Buffer()
		return r.judgeACLs(d, body)
	case jute.OpMulti:
		return r.judgeMulti(d, body)
	}
	return nil
}

func (r *Registry) judgeMulti(d *jute.Decoder, body []byte) (err error) {
	for {
		op, done := jute.Op(d.Int()), d.Bool()
		if d.Int(); d.Err() != nil || done {
			return err
		}
		d.Buffer() // path
		switch op {
		case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
			d.Buffer()
			if e := r.judgeACLs(d, body); e != nil {
				err = e
			}
			if d.Int(); op == jute.OpCreateTTL {
				d.Long()
			}
		case jute.OpDelete, jute.OpCheck:
			d.Int()
		case jute.OpSetData:
			d.Buffer()
			d.Int()
		default:
			return err // a read in a multi, or an unknown operation: there are no ACLs
		}
	}
}

// judgeACLs checks the ACL at d's position.
func (r *Registry) judgeACLs(d *jute.Decoder, body []byte) (err error) {
	var admitted audience
	for range max(d.Count(aclFixedSize), 0) {
		perms := jute.Perm(d.Int())
		at := d.Offset() + 4
		scheme, id := d.String(), d.String()
		if d.Err() != nil || scheme == "" {
			continue
		}
		valid := true
		if p := r.providers[scheme]; p != nil {
			var e error
			if valid, e = admits(p, strings.Clone(id)); e != nil {
				err = e
			}
		}
		open := r.o.RefuseOpenACLs && perms&jute.PermAll != 0 && admitted.add(scheme, id)
		if !valid || open {
			body[at] = refusedMark
		}
	}
	return err
}
