package peer

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
)

// handshakeTimeout bounds the handshake of a connection between peers, at either
// end. On a healthy network a handshake takes milliseconds.
const handshakeTimeout = 2 * time.Second

// adoptWord begins the answer to a server that is let in; the ensemble's secret
// follows. Only the process that was seen at the server's address can decrypt it.
const adoptWord = "\x00secret "

// errAdopted says that a peer has sent this server the ensemble's secret.
var errAdopted = errors.New("the peer has let this server in, with the ensemble's secret; it connects again")

// A greeted connection is one whose hello was accepted.
type greeted struct {
	net.Conn
	public []byte // public key of the process at the other end, nil if it sent none
	legacy bool   // made in the first version's way, which proves nothing
}

// greet dials addr and sends hello h. pin says that addr is an address that the
// membership gives server h.to, so that the key of the process there is pinned.
func (t *transport) greet(ctx context.Context, addr string, h hello, pin bool) (greeted, error) {
	if t.secure.Client != nil {
		c, err := t.dialBare(ctx, addr)
		if err != nil {
			return greeted{}, err
		}
		return greeted{Conn: c}, explained(t.sayHello(c, h))
	}
	if known := t.keys.secrets(); len(known) > 0 {
		g, err := t.tryAll(ctx, addr, h, modeSecret, known, pin)
		if errors.Is(err, errUnproven) {
			err = fmt.Errorf("%w: it doesn't know this ensemble's secret: give it the same by quorum.secretFile, or let it in by 'zooid allow-join %d' on a server that knows it",
				err, h.to)
		}
		return g, err
	}
	g, err := t.attempt(ctx, addr, h, modePair, nil, pin)
	switch {
	case errors.Is(err, errUnproven):
		if offers := t.keys.offers(); len(offers) > 0 {
			if g, err := t.tryAll(ctx, addr, h, modeTry, offers, pin); err == nil {
				return g, nil
			}
		}
		return g, fmt.Errorf("%w: if this goes on, it knows the ensemble's secret and this server doesn't: set quorum.secretFile here, or let this server in by 'zooid allow-join %d' on that one",
			err, t.id)
	case errors.Is(err, errOlder) && h.kind != connMeet:
		c, legacyErr := t.dialBare(ctx, addr)
		if legacyErr == nil {
			legacyErr = t.sayHello(c, h)
		}
		if legacyErr == nil {
			return greeted{Conn: c, legacy: true}, nil
		}
		return g, bare(legacyErr)
	}
	return g, err
}

// tryAll attempts each secret until one is accepted.
func (t *transport) tryAll(ctx context.Context, addr string, h hello, mode proofMode, secrets []Secret,
	pin bool) (g greeted, err error) {
	for _, s := range secrets {
		if g, err = t.attempt(ctx, addr, h, mode, s[:], pin); !errors.Is(err, errUnproven) {
			if err == nil && mode == modeTry {
				err = t.keys.adopt(s) // only a server that knows the ensemble's secret accepts modeTry
			}
			return g, err
		}
	}
	return g, err
}

// attempt dials addr, makes the proof that mode asks for with psk, and sends hello h.
func (t *transport) attempt(ctx context.Context, addr string, h hello, mode proofMode, psk []byte,
	pin bool) (greeted, error) {
	raw, err := t.dial(ctx, addr)
	if err != nil {
		return greeted{}, bare(err)
	}
	raw.SetDeadline(time.Now().Add(handshakeTimeout))
	c, public, err := t.keys.dialProof(raw, mode, psk, t.id)
	if pin && len(public) > 0 {
		t.keys.pin(h.to, public)
	}
	if err != nil {
		raw.Close()
		return greeted{public: public}, err
	}
	if err := t.sayHello(c, h); err != nil {
		var refused *refusedError
		if errors.As(err, &refused) && mode == modePair {
			if secret, ok := strings.CutPrefix(refused.reason, adoptWord); ok && len(secret) == len(Secret{}) {
				return greeted{}, errors.Join(errAdopted, t.keys.adopt(Secret([]byte(secret))))
			}
		}
		if refused == nil && !timeout(err) {
			err = fmt.Errorf("%w (%w)", errUnproven, bare(err))
		}
		return greeted{}, err
	}
	unveil(c, h.kind)
	return greeted{Conn: c, public: public}, nil
}

// dialBare dials addr without a proof, over TLS if that is how peers are dialled.
func (t *transport) dialBare(ctx context.Context, addr string) (net.Conn, error) {
	c, err := t.dial(ctx, addr)
	if err != nil {
		return nil, bare(err)
	}
	return t.secure.dialled(ctx, c, addr)
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

// reaches reports whether a Zooid server answers at addr, whatever its cluster. It doesn't
// reveal which cluster this server belongs to either.
func (t *transport) reaches(ctx context.Context, addr string, id uint64) bool {
	ping := hello{connPing, 0, t.id, id}
	if t.secure.Client == nil {
		raw, err := t.dial(ctx, addr)
		if err != nil {
			return false
		}
		defer raw.Close()
		raw.SetDeadline(time.Now().Add(handshakeTimeout))
		_, public, err := t.keys.dialProof(raw, modePair, nil, t.id)
		if len(public) > 0 {
			return true
		}
		if !errors.Is(err, errOlder) || t.keys.secured() {
			return false
		}
	}
	c, err := t.dialBare(ctx, addr)
	if err != nil || t.sayHello(c, ping) != nil {
		return false
	}
	c.Close()
	return true
}

// An arrival is an accepted connection after its hello.
type arrival struct {
	net.Conn
	hello  hello
	mode   proofMode // 0 over TLS, and for a peer of an older version
	public []byte    // public key of the process at the other end, nil if it sent none
	proven bool      // the peer has proven that it is a server of the ensemble

	lineage uint64 // the peer's, 0 if it told none
}

// legacy reports whether a was made in the first version's way, which proves nothing.
func (a *arrival) legacy() bool {
	_, over := a.Conn.(secured)
	return a.mode == 0 && !over
}

// arrive does the handshake of an accepted connection, up to the hello. If refusal isn't
// "", the caller answers with it. After an error it closes the connection without an answer.
func (t *transport) arrive(raw net.Conn) (a arrival, refusal string, err error) {
	c, plain, err := t.secure.accepted(t.ctx, raw)
	if err != nil {
		return a, "", err
	}
	c.SetDeadline(time.Now().Add(handshakeTimeout))
	if over, ok := c.(secured); ok {
		a.Conn, a.proven = c, len(over.ConnectionState().PeerCertificates) > 0
		a.hello, err = readHello(c)
		return a, "", err
	}
	version, err := readVersion(c)
	if err != nil {
		return a, "", err
	}
	switch {
	case plain && version != helloVersion:
		return a, "", errors.New(plainRefusal)
	case version == helloVersion && t.keys.secured() && !plain:
		h, err := readHelloRest(c)
		if err == nil && t.remote(h.from) != nil {
			err = fmt.Errorf("it proves nothing: it is a stranger, or an older version, which can't be in an ensemble that has a secret: upgrade server %d",
				h.from)
		} else if err == nil {
			err = errors.New("it proves nothing: it is a stranger, or a server of an older version, which can't be in an ensemble that has a secret")
		}
		return a, "", err
	case version == helloVersion:
		a.Conn = c
		if a.hello, err = readHelloRest(c); err == nil && plain {
			refusal = plainRefusal
		}
		return a, refusal, err
	case version != proofVersion:
		return a, "", fmt.Errorf("read a peer's opening: it speaks version %d, this server %d: upgrade the older one", version,
			proofVersion)
	}
	var o opening
	if a.Conn, o, err = t.keys.acceptProof(c); err != nil {
		a.hello.from = o.from // unproven
		return a, "", err
	}
	a.mode, a.public, a.proven = o.mode, o.public, true
	if a.hello, err = readHello(a.Conn); err == nil && a.hello.from != o.from {
		err = fmt.Errorf("it is server %d and server %d at once", o.from, a.hello.from)
	}
	return a, "", err
}

// readVersion reads the magic and the version of a connection without TLS.
func readVersion(r io.Reader) (version byte, err error) {
	var b [len(helloMagic) + 1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read a peer's opening: %w", bare(err))
	}
	return b[len(helloMagic)], checkMagic(b[:])
}

// letIn decides whether a process without a secret gets the ensemble's secret from this
// server. The process was seen at a server's address; it gets the secret if that server
// was added to the ensemble or an operator lets it in.
func (t *transport) letIn(raw net.Conn, a arrival) {
	id := a.hello.from
	if id == t.id || !t.keys.admits(id) {
		if t.logRate.due(fmt.Sprintf("let in %d", id), time.Now()) {
			t.log.Warn("a server asks to be let in and doesn't know the ensemble's secret: if it has lost its data, run 'zooid allow-join' with its id on this machine, or give it the secret by quorum.secretFile",
				"server", id, "from", raw.RemoteAddr().String())
		}
		return
	}
	secret := t.keys.secrets()[0]
	if err := writeAnswer(a.Conn, adoptWord+string(secret[:])); err == nil {
		t.log.Warn("a server is let in: it was given the ensemble's secret", "server", id, "from", raw.RemoteAddr().String())
		linger(raw)
	}
}
