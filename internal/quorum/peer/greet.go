package peer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/quorum/peer/handshake"
)

// handshakeTimeout bounds the handshake of a connection between peers, at either
// end. On a healthy network a handshake takes milliseconds.
const handshakeTimeout = 2 * time.Second

// levelProof is the lowest feature level at which all members prove their identity by handshake.Version, over TLS too.
const levelProof = 3

// adoptWord begins the answer to a server that is let in; the ensemble's secret
// follows. Only the process that was seen at the server's address can decrypt it.
const adoptWord = "\x00secret "

// errAdopted says that a peer has sent this server the ensemble's secret.
var errAdopted = errors.New("the peer has let this server in, with the ensemble's secret; it connects again")

// A greeted connection is one whose hello was accepted.
type greeted struct {
	net.Conn
	public []byte // public key of the process at the other end, nil if it sent none
	legacy bool   // the peer is of an older version and has proven nothing, or over TLS only a certificate
}

// greet dials addr, makes the proof there, and sends hello h. pin says that addr is an address of
// server h.to in the membership, so that the key of the process there is pinned.
func (t *transport) greet(ctx context.Context, addr string, h hello, pin bool) (g greeted, err error) {
	known := t.keys.Secrets()
	if len(known) > 0 {
		began := time.Now()
		if g, err = t.tryAll(ctx, addr, h, handshake.ModeSecret, known, pin); errors.Is(err, handshake.ErrUnproven) {
			if pin && time.Since(began) < handshakeTimeout { // it also closes a handshake that is too slow
				t.strangers.Store(h.to, string(g.public))
			}
			return g, fmt.Errorf("%w: its secret isn't this server's: if no peer takes this server's, correct quorum.secretFile here; otherwise give that one the same, or admit it by 'zooid allow-join %d' on a server of the ensemble",
				err, h.to)
		}
	} else if g, err = t.attempt(ctx, addr, h, handshake.ModePair, nil, pin); errors.Is(err, handshake.ErrUnproven) {
		if offers := t.keys.Offers(); len(offers) > 0 {
			if g, err := t.tryAll(ctx, addr, h, handshake.ModeTry, offers, pin); err == nil {
				return g, nil
			}
		}
		own := t.reachedAt()
		if own == "" {
			own = "ADDRESS', ADDRESS being that of this server's peer port (zooid status shows it here),"
		} else {
			own += "'"
		}
		return g, fmt.Errorf("%w: if this continues, it knows the ensemble's secret and this server doesn't: set quorum.secretFile here, or admit this server by 'zooid allow-join %d zoo.cfg %s on that one, with its zoo.cfg",
			err, t.id, own)
	}
	if !errors.Is(err, handshake.ErrOlder) || h.kind == connMeet || h.kind == connGuest ||
		!t.mayBeBare(t.secure.Client != nil) {
		return g, err
	}
	c, bareErr := t.connect(ctx, addr)
	if bareErr == nil {
		bareErr = t.sayHello(c, h)
	}
	var refused *refusedError
	switch {
	case errors.As(bareErr, &refused) && refused.reason == bareRefusal:
		return g, err // it is of this version, and had too many connections
	case bareErr != nil:
		return g, handshake.Explained(bareErr)
	}
	return greeted{Conn: c, legacy: true}, nil
}

// reachedAt returns an address at which others reach this server's peer port, by the server lines or the membership; ""
// if these have only addresses to listen on.
func (t *transport) reachedAt() string {
	for _, addr := range t.ownAddrs() {
		host, _, err := net.SplitHostPort(addr)
		if ip := net.ParseIP(host); err == nil && host != "" && (ip == nil || !ip.IsUnspecified()) {
			return addr
		}
	}
	return ""
}

// mayBeBare reports whether a peer may be of an older version whose connections begin with a hello, without a proof.
// Without TLS these are the servers of the first version. A server with a secret and without a state trusts no such
// peer.
func (t *transport) mayBeBare(overTLS bool) bool {
	level := t.inForce.Load()
	if overTLS {
		return t.mayBeOlder() && (level > 0 || !t.keys.Secured())
	}
	return !t.keys.Secured() && (level == 0 || level == quorum.LevelFirst && !t.noneIsFirst)
}

// mayBeOlder reports whether some peer may be of a version before levelProof, according to the log and decideOlder.
func (t *transport) mayBeOlder() bool { return t.inForce.Load() < levelProof && !t.allProve }

// decideOlder rules out older versions of peers without relying on the state: at the start the state is older than the
// log, or empty. last is the log's last index.
func (t *transport) decideOlder(o *Options, last uint64) {
	founders := uint32(0)
	if o.Founding != nil {
		founders = o.Founding.Level
	}
	// The lineage is agreed on at levelProof.
	t.allProve = t.lineage.Load() != 0 || max(founders, o.Joined.Level) >= levelProof
	t.noneIsFirst = t.allProve || o.Founding != nil || max(last, o.Applied) == 0 && !o.Joined.Unproven
}

// tryAll attempts each secret until one is accepted.
func (t *transport) tryAll(ctx context.Context, addr string, h hello, mode handshake.Mode, secrets []Secret,
	pin bool) (g greeted, err error) {
	for _, s := range secrets {
		if g, err = t.attempt(ctx, addr, h, mode, s[:], pin); !errors.Is(err, handshake.ErrUnproven) {
			if err == nil && mode == handshake.ModeTry {
				err = t.keys.Adopt(s) // only a server that knows the ensemble's secret accepts handshake.ModeTry
			}
			return g, err
		}
	}
	return g, err
}

// attempt dials addr, makes the proof that mode asks for with psk, and sends hello h. If the other end closes the
// connection at the opening, it may be of an older version. But any process can do that, and an attacker who records
// the older proof can try secrets offline. So attempt makes the older proof only in handshake.ModePair, which has no
// secret, or if server h.to has itself proved by that version, on its own connection to this server, that it knows the
// secret. Every server dials all others.
func (t *transport) attempt(ctx context.Context, addr string, h hello, mode handshake.Mode, psk []byte,
	pin bool) (greeted, error) {
	g, err := t.attemptAs(ctx, addr, h, handshake.Version, mode, psk, pin)
	if _, older := t.older.Load(h.to); errors.Is(err, handshake.ErrOlder) && t.secure.Client == nil && t.mayBeOlder() &&
		(mode == handshake.ModePair || older) {
		return t.attemptAs(ctx, addr, h, handshake.Version2, mode, psk, pin)
	}
	return g, err
}

// heardVersion records the version of the proof by which a server that this one dials has proved that it knows the
// secret.
func (t *transport) heardVersion(id uint64, version byte) {
	listed := slices.ContainsFunc(t.configured, func(m quorum.Member) bool { return m.ID == id })
	if t.older.Delete(id); version == handshake.Version2 && (listed || t.remote(id) != nil) {
		t.older.Store(id, true)
	}
}

func (t *transport) attemptAs(ctx context.Context, addr string, h hello, version byte, mode handshake.Mode, psk []byte,
	pin bool) (greeted, error) {
	raw, err := t.connect(ctx, addr)
	if err != nil {
		return greeted{}, err
	}
	raw.SetDeadline(time.Now().Add(handshakeTimeout))
	c, public, err := t.keys.Dial(raw, version, mode, psk, t.id)
	if pin && len(public) > 0 {
		t.keys.Pin(h.to, public)
	}
	if err != nil {
		raw.Close()
		return greeted{public: public}, err
	}
	if err := t.sayHello(c, h); err != nil {
		var refused *refusedError
		if errors.As(err, &refused) && mode == handshake.ModePair {
			if secret, ok := strings.CutPrefix(refused.reason, adoptWord); ok && len(secret) == len(Secret{}) {
				return greeted{}, errors.Join(errAdopted, t.keys.Adopt(Secret([]byte(secret))))
			}
		}
		if refused == nil && !handshake.Timeout(err) {
			err = fmt.Errorf("%w (%w)", handshake.ErrUnproven, handshake.Bare(err))
		}
		return greeted{public: public}, err
	}
	unveil(c, h.kind)
	return greeted{Conn: c, public: public}, nil
}

// connect dials addr, over TLS if that is how peers are dialled.
func (t *transport) connect(ctx context.Context, addr string) (net.Conn, error) {
	c, err := t.dial(ctx, addr)
	if err != nil {
		return nil, handshake.Bare(err)
	}
	return t.secure.Dialled(ctx, c, addr)
}

// sayHello sends hello h and reads the answer. It closes c on an error.
func (t *transport) sayHello(c net.Conn, h hello) error {
	c.SetDeadline(time.Now().Add(handshakeTimeout))
	_, err := c.Write(t.withLineage(h))
	if err == nil {
		err = readAnswer(c)
	}
	if err != nil {
		c.Close()
		return err
	}
	c.SetDeadline(time.Time{})
	return nil
}

// reaches reports whether a Zooid server of any cluster answers at addr. It doesn't reveal
// this server's cluster either.
func (t *transport) reaches(ctx context.Context, addr string, id uint64) bool {
	version := byte(handshake.Version)
	for {
		c, err := t.connect(ctx, addr)
		if err != nil {
			return false
		}
		c.SetDeadline(time.Now().Add(handshakeTimeout))
		_, public, err := t.keys.Dial(c, version, handshake.ModePair, nil, t.id)
		c.Close()
		switch {
		case len(public) > 0:
			return true
		case !errors.Is(err, handshake.ErrOlder) || !t.mayBeOlder():
			return false
		case version == handshake.Version && t.secure.Client == nil:
			version = handshake.Version2
			continue
		case !t.mayBeBare(t.secure.Client != nil):
			return false
		}
		if c, err = t.connect(ctx, addr); err != nil || t.sayHello(c, hello{connPing, 0, t.id, id}) != nil {
			return false
		}
		c.Close()
		return true
	}
}

// An arrival is an accepted connection after its hello.
type arrival struct {
	net.Conn
	hello  hello
	mode   handshake.Mode // 0 for a peer of an older version that sends no proof
	public []byte         // public key of the process at the other end, nil if it sent none

	lineage uint64 // the peer's, 0 if it sent none
}

// legacy reports whether a began without a proof, as in older versions.
func (a *arrival) legacy() bool { return a.mode == 0 }

// bareRefusal refuses a server that sends no proof, where all others do. A more detailed answer would tell a stranger
// which cluster this is.
const bareRefusal = "the servers of this ensemble prove to each other that they know its secret, and you prove nothing: upgrade your server"

// plainRefusal refuses a peer in plain text at a server that accepts only TLS.
const plainRefusal = "this server accepts TLS only: set sslQuorum=true with the ssl.quorum keys on yours, or portUnification=true here until all servers have it"

// arrive does the handshake of an accepted connection, up to the hello. If refusal isn't
// "", the caller answers with it. After an error it closes the connection without an answer.
func (t *transport) arrive(raw net.Conn) (a arrival, refusal string, err error) {
	c, plain, err := t.secure.Accepted(t.ctx, raw)
	if err != nil {
		return a, "", err
	}
	c.SetDeadline(time.Now().Add(handshakeTimeout))
	_, encrypted := handshake.TLS(c)
	version, err := handshake.ReadVersion(c)
	if err != nil {
		return a, "", err
	}
	switch {
	case plain && version != helloVersion:
		return a, "", errors.New(plainRefusal)
	case version == helloVersion:
		a.Conn = c
		if a.hello, err = readHelloRest(c); err != nil {
			return a, "", err
		}
		switch {
		case plain:
			return a, plainRefusal, nil
		case t.mayBeBare(encrypted):
			return a, "", nil
		case encrypted || !t.keys.Secured():
			return a, bareRefusal, nil
		case t.remote(a.hello.from) != nil:
			return a, "", fmt.Errorf("it proves nothing: it is a stranger, or an older version, which can't be in an ensemble that has a secret: upgrade server %d",
				a.hello.from)
		}
		return a, "", errors.New("it proves nothing: it is a stranger, or a server of an older version, which can't be in an ensemble that has a secret")
	case version != handshake.Version && (version != handshake.Version2 || encrypted || !t.mayBeOlder()):
		return a, "", fmt.Errorf("read a peer's opening: it speaks version %d, this server %d: upgrade the older one", version,
			handshake.Version)
	}
	sealed, o, err := t.keys.Accept(c, version)
	if err != nil {
		a.hello.from = o.From // unproven
		return a, "", err
	}
	a.Conn, a.mode, a.public = sealed, o.Mode, o.Public
	if a.hello, err = readHello(a.Conn); err == nil && a.hello.from != o.From {
		err = fmt.Errorf("it is server %d and server %d at once", o.From, a.hello.from)
	} else if err == nil && o.Mode != handshake.ModePair {
		t.heardVersion(o.From, version)
	}
	return a, "", err
}

// letIn decides whether a process without a secret gets the ensemble's secret from this
// server. The process was seen at a server's address; it gets the secret if that server
// was added to the ensemble, if an operator lets it in, or if its certificate is that of a member.
//
// A member may hold the agreed secret only as a candidate. Until it adopts the secret, at the latest when this server
// dials it, it also connects without it. So letIn warns only of a process that has turned down a proof made with the
// secret.
func (t *transport) letIn(raw net.Conn, a arrival) {
	id := a.hello.from
	if id == t.id || !t.certified(a) && !t.keys.Admits(id) {
		if t.lacks(a) && t.logRate.Due(fmt.Sprintf("let in %d", id), time.Now()) {
			t.log.Warn("a server that doesn't know the ensemble's secret asks to join: if it has lost its data, run 'zooid allow-join' with its id on this machine, or give it the secret by quorum.secretFile",
				"server", id, "from", raw.RemoteAddr().String())
		}
		return
	}
	secret := t.keys.Secrets()[0]
	if err := writeAnswer(a.Conn, adoptWord+string(secret[:])); err == nil {
		t.log.Warn("a server is admitted: it now has the ensemble's secret", "server", id, "from", raw.RemoteAddr().String())
		handshake.Linger(raw)
	}
}

// lacks reports whether the process at the other end of a is known to lack the secret.
func (t *transport) lacks(a arrival) bool {
	key, _ := t.strangers.Load(a.hello.from)
	return key == string(a.public)
}

// certified reports whether a comes from a member, according to its certificate. Its process was seen at the member's
// address, over TLS: there it has shown a server's certificate that names a host of that address. A certificate that it
// shows here must name one, too. Where names aren't checked, certificates prove nothing; they are accepted only as long
// as a member may be of a version that requires no secret over TLS. If a secret is configured, a certificate is not
// enough.
func (t *transport) certified(a arrival) bool {
	over, ok := handshake.TLS(a.Conn)
	if !ok || t.secure.Client == nil || t.keys.Given() || !t.secure.Named && !t.mayBeBare(true) {
		return false
	}
	t.mu.Lock()
	at := slices.IndexFunc(t.members, func(m quorum.Member) bool { return m.ID == a.hello.from })
	var addrs []string
	if at >= 0 {
		addrs = t.members[at].Addrs
	}
	t.mu.Unlock()
	return len(addrs) > 0 && t.verifyAt(over, a.hello, addrs) == ""
}

// unveil ends the encryption of a connection whose kind needs none.
func unveil(c net.Conn, kind byte) {
	if s, sealed := c.(*handshake.Sealed); sealed && (kind == connMessages || kind == connSnapshot) {
		s.Unveil()
	}
}

// Dial connects to the peer port at addr as server from, by the secret of secure.Keys and over TLS if secure.Client is
// set, and sends a hello to server to. The caller may then write frames to the connection. Dial is for tests that act
// as a malicious server.
func Dial(ctx context.Context, addr string, secure Secure, cluster, from, to uint64) (net.Conn, error) {
	return dialAs(ctx, addr, secure, hello{connMessages, cluster, from, to})
}

// DialSnapshot is Dial for a connection on which the caller then sends a snapshot (stream.go).
func DialSnapshot(ctx context.Context, addr string, secure Secure, cluster, from, to uint64) (net.Conn, error) {
	return dialAs(ctx, addr, secure, hello{connSnapshot, cluster, from, to})
}

func dialAs(ctx context.Context, addr string, secure Secure, h hello) (net.Conn, error) {
	t := newTransport(h.from, h.cluster, secure, slog.New(slog.DiscardHandler))
	defer t.cancel()
	g, err := t.greet(ctx, addr, h, false)
	return g.Conn, err
}
