package auth

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"hash"
	"slices"
	"sync/atomic"

	"github.com/zooid-project/zooid/authprovider"
	"github.com/zooid-project/zooid/jute"
)

// A connection's identities are logged with each of its writes, and each "auth" entry of an ACL is replaced by all of
// them. So an endless sequence of auth packets, or a few large ones, would make every write expensive. Apache has no
// such limits. No known user needs more than a handful of identities; the longest ones are subjects of certificates, of
// a few hundred bytes.
const (
	IDsMax      = 64      // identities of one connection
	IDsBytesMax = 4 << 10 // all their schemes and ids together
)

// Options are a server's authentication settings; the zero value is Apache's default. The comments
// name the keys of zoo.cfg.
type Options struct {
	DigestDisabled  bool   // DigestAuthenticationProvider.enabled=false
	DigestAlgorithm string // DigestAuthenticationProvider.digestAlg; "" is SHA1
	SuperDigest     string // DigestAuthenticationProvider.superDigest: user:hash; "" for none

	SASL           bool     // authProvider.N names the SASL provider
	SASLSuperUsers []string // superUser and superUser.<suffix>
	AnySASLUser    string   // letAnySaslUserDoX; "" for none

	X509          bool   // there is a TLS client port, or authProvider.N names the X.509 provider
	X509SuperUser string // X509AuthenticationProvider.superUser, a subject; "" for none

	Ensemble      bool     // authProvider.N names the ensemble provider
	EnsembleNames []string // ensembleAuthName; nil admits every name

	Providers []authprovider.Provider // of further schemes: authProvider.N

	// RefuseOpenACLs refuses ACLs that admit everybody, or a sixteenth of all addresses of IPv4 or
	// IPv6 (security.profile=strict).
	RefuseOpenACLs bool

	// EnforceSchemes closes connections that have no identity of any of these schemes. It has the
	// value of enforce.auth.schemes if enforce.auth.enabled is set, and {"sasl"} for
	// sessionRequireClientSASLAuth. Nil enforces nothing.
	EnforceSchemes []string
}

// ErrFailed is wrapped by errors about a refused credential: the server answers jute.ErrAuthFailed
// and closes the connection.
var ErrFailed = errors.New("authentication failed")

// ErrTooMany is wrapped by errors about a credential that wasn't checked because too many logins have failed. The
// client may try again after a second.
var ErrTooMany = errors.New("too many logins have failed; one a second is judged")

// ErrWrongEnsemble is wrapped by the error for a client that expects another ensemble: the server closes the connection
// without a reply, so that the client tries the next server.
var ErrWrongEnsemble = errors.New("client expects another ensemble")

// A Proof is the result of checking a credential.
type Proof struct {
	IDs    []jute.ID // all identities of the connection
	Grants []Grant   // the identities that this credential gives, new or not
}

// Superusers are the users with all rights. AnySASL is a user whose rights every SASL user also has. The comments of
// Options have the names of the keys.
type Superusers struct {
	Digest  string
	SASL    []string
	X509    string
	AnySASL string
}

// superusers are the Superusers set by one call of SetSuperusers.
type superusers struct {
	Superusers
	generation uint64
	former     []string // the last formerKept hashes that Digest replaced
}

// formerKept is how many former superusers are remembered: connections of earlier ones are unlikely to exist.
const formerKept = 16

// A Registry turns credentials into identities. Any number of connections may use it at once. Only
// its superusers can be replaced; everything else is immutable.
type Registry struct {
	o         Options
	super     atomic.Pointer[superusers]
	hash      func() hash.Hash
	schemes   Schemes
	rules     Rules
	providers map[string]authprovider.Provider // by scheme
}

// New returns the Registry for o. An error has the name of the wrong setting.
func New(o Options) (*Registry, error) {
	r := &Registry{o: o, providers: map[string]authprovider.Provider{}}
	r.SetSuperusers(Superusers{
		Digest: o.SuperDigest, SASL: o.SASLSuperUsers, X509: o.X509SuperUser, AnySASL: o.AnySASLUser,
	})
	var err error
	if r.hash, err = newHash(o.DigestAlgorithm); err != nil {
		return nil, err
	}
	if r.schemes, err = r.addProviders(o.schemes()); err != nil {
		return nil, err
	}
	if o.EnforceSchemes != nil && len(o.EnforceSchemes) == 0 {
		return nil, errors.New("set up authentication: it is enforced, but enforce.auth.schemes is empty; name a scheme there, such as digest, or set enforce.auth.enabled=false")
	}
	for _, s := range o.EnforceSchemes {
		if !r.schemes.Has(s) {
			return nil, fmt.Errorf("set up authentication: enforce.auth.schemes names %q, which is not enabled (enabled: %v); enable it by authProvider.N or take it off the list",
				s, r.schemes)
		}
	}
	return r, nil
}

func (o *Options) schemes() Schemes {
	enabled := []string{ip}
	if !o.DigestDisabled {
		enabled = append(enabled, digest)
	}
	if o.SASL {
		enabled = append(enabled, sasl)
	}
	if o.X509 {
		enabled = append(enabled, x509)
	}
	if o.Ensemble {
		enabled = append(enabled, ensemble)
	}
	return NewSchemes(enabled...)
}

// SetSuperusers replaces the superusers for credentials that are checked afterwards. It starts a new generation.
func (r *Registry) SetSuperusers(s Superusers) {
	for {
		old := r.super.Load()
		next := &superusers{Superusers: s}
		if old != nil {
			next.generation, next.former = old.generation+1, old.former
			if old.Digest != "" && old.Digest != s.Digest {
				next.former = append([]string{old.Digest}, old.former[:min(len(old.former), formerKept-1)]...)
			}
		}
		if r.super.CompareAndSwap(old, next) {
			return
		}
	}
}

// Schemes returns the enabled schemes. All servers must agree on them before they evaluate ACLs.
// The caller must not modify the result.
func (r *Registry) Schemes() Schemes { return r.schemes }

// ChecksEnsemble reports whether the name in an auth packet of the scheme ensemble is checked (ensembleAuthName).
func (r *Registry) ChecksEnsemble() bool { return r.o.EnsembleNames != nil }

// Authenticate handles an auth packet of a connection with the identities ids. address is the connection's AddressID.
// Errors wrap ErrFailed, ErrWrongEnsemble or authprovider.ErrUndecided and never contain the credential. Authenticate
// doesn't retain the packet's memory and doesn't modify ids.
//
// Providers read znodes through data. A call of a provider may take a long time.
func (r *Registry) Authenticate(ids []jute.ID, address jute.ID, p *jute.AuthPacket,
	data func(path string) ([]byte, bool)) (Proof, error) {
	if !r.schemes.Has(p.Scheme) {
		return Proof{}, fmt.Errorf("authenticate by scheme %q, which is not enabled (enabled: %v): %w", p.Scheme, r.schemes,
			ErrFailed)
	}
	if provider := r.providers[p.Scheme]; provider != nil {
		return r.ask(provider, ids, address, p, data)
	}
	switch p.Scheme {
	case ip:
		all, err := add(ids, address)
		return Proof{IDs: all}, err // an address isn't a credential
	case digest:
		return r.proveDigest(ids, p.Auth)
	case ensemble:
		if len(p.Auth) > 0 && r.o.EnsembleNames != nil && !slices.Contains(r.o.EnsembleNames, string(p.Auth)) {
			return Proof{}, fmt.Errorf("authenticate by scheme ensemble: name %.64q is not in ensembleAuthName: %w", p.Auth,
				ErrWrongEnsemble)
		}
		return Proof{IDs: ids}, nil
	case sasl:
		return Proof{}, fmt.Errorf("authenticate by scheme sasl: it takes sasl requests, not an auth packet: %w", ErrFailed)
	}
	if slices.ContainsFunc(ids, func(id jute.ID) bool { return id.Scheme == x509 }) {
		return Proof{IDs: ids}, nil // as in Apache: the handshake has proved it
	}
	return Proof{}, fmt.Errorf("authenticate by scheme x509: it takes a client certificate in the TLS handshake, not an auth packet: %w",
		ErrFailed)
}

func (r *Registry) proveDigest(ids []jute.ID, credential []byte) (Proof, error) {
	now := r.super.Load()
	by := jute.ID{Scheme: digest, ID: digestID(r.hash, credential)}
	proved := []jute.ID{by}
	if known := now.Digest; known != "" && subtle.ConstantTimeCompare([]byte(by.ID), []byte(known)) == 1 {
		proved = slices.Insert(proved, 0, jute.ID{Scheme: super})
	}
	return prove(ids, now.grants(by, 0, proved))
}

// Vouched reports whether the identity id is confirmed independently of the client: by the network (an address), a
// login, a certificate's issuer, a provider, or the configuration (the superuser's hash). A digest identity isn't
// confirmed, since any client can claim one with any user's name.
func (r *Registry) Vouched(id jute.ID) bool {
	return id.Scheme != digest || id.ID == r.super.Load().Digest
}

// VouchedBeside is Vouched for an identity of a connection that has the identities beside. A superuser's connection
// keeps its rights, and is named by them, when another superuser is configured, until it ends.
func (r *Registry) VouchedBeside(id jute.ID, beside []jute.ID) bool {
	return r.Vouched(id) ||
		slices.Contains(r.super.Load().former, id.ID) && slices.Contains(beside, jute.ID{Scheme: super})
}

// AddSASL returns the identities ids and those of a completed SASL exchange: the authorization id user, superuser
// rights if user is a configured superuser, and the AnySASL user if there is one.
func (r *Registry) AddSASL(ids []jute.ID, user string) (Proof, error) {
	now := r.super.Load()
	by := jute.ID{Scheme: sasl, ID: user}
	proved := []jute.ID{by}
	if slices.Contains(now.SASL, user) {
		proved = append(proved, jute.ID{Scheme: super})
	}
	if now.AnySASL != "" {
		proved = append(proved, jute.ID{Scheme: anySASL, ID: now.AnySASL})
	}
	return prove(ids, now.grants(by, 0, proved))
}

// AddX509 returns the identities ids and those of a verified client certificate. subject is the certificate's subject
// in the form of RFC 2253.
func (r *Registry) AddX509(ids []jute.ID, subject string) (Proof, error) {
	now := r.super.Load()
	by := jute.ID{Scheme: x509, ID: subject}
	proved := []jute.ID{by}
	if now.X509 != "" && subject == now.X509 {
		proved = slices.Insert(proved, 0, jute.ID{Scheme: super, ID: subject})
	}
	return prove(ids, now.grants(by, 0, proved))
}

// Satisfied reports whether a client with the identities ids may send requests other than auth and sasl. If not, the
// server answers with jute.ErrSessionClosedRequireSASLAuth and closes the connection.
func (r *Registry) Satisfied(ids []jute.ID) bool {
	if len(r.o.EnforceSchemes) == 0 {
		return true
	}
	for i := range ids {
		if slices.Contains(r.o.EnforceSchemes, ids[i].Scheme) {
			return true
		}
	}
	return false
}

// prove returns the Proof of a connection that had the identities ids and now has further grants.
func prove(ids []jute.ID, given []Grant) (Proof, error) {
	proved := make([]jute.ID, len(given))
	for i := range given {
		proved[i] = given[i].ID
	}
	all, err := add(ids, proved...)
	if err != nil {
		return Proof{}, err
	}
	return Proof{IDs: all, Grants: given}, nil
}

// add returns the union of ids and proved. If it has more elements than ids, it is a new array.
func add(ids []jute.ID, proved ...jute.ID) ([]jute.ID, error) {
	ids = slices.Clip(ids)
	for _, id := range proved {
		if !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) > IDsMax {
		return nil, fmt.Errorf("authenticate a connection that has %d identities already, the most allowed; open another one: %w",
			IDsMax, ErrFailed)
	}
	size := 0
	for i := range ids {
		size += len(ids[i].Scheme) + len(ids[i].ID)
	}
	if size > IDsBytesMax {
		return nil, fmt.Errorf("authenticate a connection whose identities would take %d bytes; the most allowed is %d; use shorter ones or another connection: %w",
			size, IDsBytesMax, ErrFailed)
	}
	return ids, nil
}
