package peer

import (
	"context"
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"slices"
)

// A connection, over TLS or not, begins with a proof that both sides know the ensemble's
// secret:
//
//	dialler    "ZOOIDPEER" version(1)=3 mode(1) from(8) nonce(32) public key(32)
//	listener   nonce(32) public key(32)
//	dialler    proof(32), an HMAC over all of the above
//
// The HMAC's key is derived from the secret and from the shared secret of the two key pairs
// (X25519), so that who has recorded a connection can't try secrets on it. Over TLS the HMAC
// also covers a key of that TLS connection (RFC 5705), so that nobody in the middle of two TLS
// connections can pass a proof on.
//
// Everything after the proof is sealed (sealed.go) with keys derived from the secret, the
// bytes above and the shared secret of the key pairs. The first sealed bytes are the hello
// and its answer (wire.go). The hello names both ids, the cluster and the kind of connection;
// the answer is the listener's proof. Each process has its own key pair, so a public key also
// tells apart two processes with the same id.
//
// Version 2 of the proof, of servers that know no feature level beyond levelProof-1, was made
// with the secret alone, and never over TLS. Before it nothing was proven: a connection began
// with the hello.
//
// The mode says what the proof is made with. Two servers that know no secret prove to
// each other that they are the processes at their configured addresses: each has dialled
// the other, and seen its public key there.
type proofMode byte

const (
	modeSecret proofMode = 1 // the dialler knows the ensemble's secret
	modePair   proofMode = 2 // the dialler knows no secret
	modeTry    proofMode = 3 // the dialler has a candidate, and asks whether it is the secret
)

const (
	proofVersion  = 3
	proofVersion2 = 2
	openingSize   = len(helloMagic) + 2 + 8 + 32 + 32
	challengeSize = 32 + 32
	proofSize     = sha256.Size
)

// levelProof is the feature level from which on all members prove who they are by proofVersion, over TLS too.
const levelProof = 3

// opening is the dialler's first message.
type opening struct {
	version byte
	mode    proofMode
	from    uint64
	nonce   [32]byte
	public  []byte
}

func (o *opening) append(b []byte) []byte {
	b = append(b, helloMagic...)
	b = append(b, o.version, byte(o.mode))
	b = binary.BigEndian.AppendUint64(b, o.from)
	b = append(b, o.nonce[:]...)
	return append(b, o.public...)
}

// readOpening reads the rest of an opening whose magic and version have been read.
func readOpening(r io.Reader, version byte) (o opening, err error) {
	var b [openingSize - len(helloMagic) - 1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return o, fmt.Errorf("read a peer's opening: %w", err)
	}
	o.version, o.mode, o.from = version, proofMode(b[0]), binary.BigEndian.Uint64(b[1:])
	o.nonce, o.public = [32]byte(b[9:]), slices.Clone(b[41:])
	return o, nil
}

var (
	// errOlder says that a peer closed the connection at the opening: it runs an older
	// version, or refuses the connection.
	errOlder = errors.New("it closed the connection at the opening: it is stopping or starting, accepts TLS only (sslQuorum), has too many connections, or is an older version")
	// errUnproven says that a peer closed the connection at the proof.
	errUnproven = errors.New("it closed the connection at the proof")
	// errSelf says that this process has dialled itself.
	errSelf = errors.New("this is the same process")
)

// derive derives a key of 32 bytes for the purpose what.
func derive(secret, salt []byte, what string) []byte {
	key, err := hkdf.Key(sha256.New, secret, salt, what, 32)
	if err != nil {
		panic("quorum: " + err.Error()) // only for an invalid length
	}
	return key
}

// proofOf returns the proof that a peer knows psk, on a connection whose key pairs have a shared secret.
func (o *opening) proofOf(psk, shared, transcript []byte) []byte {
	key, what := psk, "zooid peer proof"
	if o.version != proofVersion2 {
		key, what = slices.Concat(psk, shared), "zooid peer proof 3"
	}
	mac := hmac.New(sha256.New, derive(key, transcript, what))
	mac.Write(transcript)
	return mac.Sum(nil)
}

// transcript returns the hash of what both sides of a connection have sent and of what else the proof is bound to.
func (o *opening) transcript(c net.Conn, challenge []byte) ([]byte, error) {
	all := append(o.append(nil), challenge...)
	if over, ok := c.(secured); ok {
		state := over.ConnectionState()
		bound, err := state.ExportKeyingMaterial("EXPORTER-zooid-peer-proof", nil, 32)
		if err != nil {
			return nil, fmt.Errorf("bind the proof to the TLS connection: %w", err)
		}
		all = append(all, bound...)
	}
	sum := sha256.Sum256(all)
	return sum[:], nil
}

// dialProof makes the proof that mode asks for to the listener at the other end of c, in the way of a version, with
// psk, which is nil in modePair. It returns the sealed connection and the listener's public key, which is also returned
// with an error if the listener has sent it. It doesn't close c.
func (k *Keyring) dialProof(c net.Conn, version byte, mode proofMode, psk []byte,
	from uint64) (conn net.Conn, public []byte, err error) {
	o := opening{version: version, mode: mode, from: from, public: k.public()}
	rand.Read(o.nonce[:]) // never fails (crypto/rand)
	var challenge [challengeSize]byte
	if _, err = c.Write(o.append(nil)); err == nil {
		_, err = io.ReadFull(c, challenge[:])
	}
	switch {
	case err == nil:
	case timeout(err):
		return nil, nil, fmt.Errorf("read the peer's challenge: %w", bare(err))
	case alerted(err): // the end of the TLS handshake: it is the listener's turn to check the certificate
		return nil, nil, explained(err)
	default:
		return nil, nil, fmt.Errorf("%w (%w)", errOlder, bare(err))
	}
	public = slices.Clone(challenge[32:])
	if subtle.ConstantTimeCompare(public, o.public) == 1 {
		return nil, public, errSelf
	}
	shared, err := k.shared(public)
	if err != nil {
		return nil, public, fmt.Errorf("the peer's public key: %w", err)
	}
	if mode == modePair {
		psk = shared
	}
	sum, err := o.transcript(c, challenge[:])
	if err != nil {
		return nil, public, err
	}
	if _, err := c.Write(o.proofOf(psk, shared, sum)); err != nil {
		return nil, public, fmt.Errorf("%w (%w)", errUnproven, bare(err))
	}
	conn, err = newSealed(c, psk, shared, sum, true)
	return conn, public, err
}

// alerted reports whether err is an alert that the other end of a TLS connection has sent.
func alerted(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// timeout reports whether err says that a deadline has passed.
func timeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// acceptProof answers an opening whose magic and version have been read, and checks the
// proof. If the proof fails, nothing more is sent on the connection.
func (k *Keyring) acceptProof(c net.Conn, version byte) (conn net.Conn, o opening, err error) {
	if o, err = readOpening(c, version); err != nil {
		return nil, o, err
	}
	var challenge [challengeSize]byte
	rand.Read(challenge[:32]) // never fails (crypto/rand)
	copy(challenge[32:], k.public())
	if _, err := c.Write(challenge[:]); err != nil {
		return nil, o, err
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return nil, o, fmt.Errorf("%w: %w", errNoProof, err)
	}
	sum, err := o.transcript(c, challenge[:])
	if err != nil {
		return nil, o, err
	}
	psk, shared, err := k.proven(&o, proof[:], sum)
	if err != nil {
		return nil, o, err
	}
	conn, err = newSealed(c, psk, shared, sum, false)
	return conn, o, err
}

// proven checks a proof, and returns the key that it was made with and the shared secret of
// the two key pairs. In modePair it computes that only for the process that this server has
// seen at the peer's address. A stranger's proof costs one X25519 and a hash for each secret.
func (k *Keyring) proven(o *opening, proof, transcript []byte) (psk, shared []byte, err error) {
	switch {
	case o.mode == modePair && !k.pinned(o.from, o.public):
		return nil, nil, errUnpinned
	case o.mode != modeSecret && o.mode != modeTry && o.mode != modePair:
		return nil, nil, fmt.Errorf("its proof is of the unknown kind %d: upgrade this server", o.mode)
	}
	if shared, err = k.shared(o.public); err != nil {
		return nil, nil, fmt.Errorf("a peer's public key: %w", err)
	}
	if o.mode == modePair {
		if !hmac.Equal(proof, o.proofOf(shared, shared, transcript)) {
			return nil, nil, errors.New("its proof is wrong")
		}
		return shared, shared, nil
	}
	known := k.secrets()
	if o.mode == modeSecret && len(known) == 0 {
		known = k.offers()
	}
	for _, s := range known {
		if hmac.Equal(proof, o.proofOf(s[:], shared, transcript)) {
			if o.mode == modeSecret && !k.secured() {
				// The dialler is secured, so all members have held this candidate.
				return s[:], shared, k.adopt(s)
			}
			return s[:], shared, nil
		}
	}
	if len(known) == 0 {
		return nil, nil, errors.New("it knows a secret of its ensemble, and this server knows none yet: give it the same by quorum.secretFile, or let it in (zooid allow-join on a running server)")
	}
	return nil, nil, errors.New("it doesn't know this ensemble's secret")
}

// errNoProof says that a connection ended, or went silent, before its proof. A server may
// dial just to learn which process answers.
var errNoProof = errors.New("no proof came")

// errUnpinned says that a process without a secret isn't the one seen at the address
// of the server that it claims to be.
var errUnpinned = errors.New("it knows no secret, and has not been seen at the address of the server that it says it is")

// Dial connects to the peer port at addr as server from, by the secret of secure.Keys and over TLS if secure.Client is
// set, and sends a hello to server to. The caller may then write frames to the connection. Dial is for tests of what a
// malicious server can do.
func Dial(ctx context.Context, addr string, secure Secure, cluster, from, to uint64) (net.Conn, error) {
	t := newTransport(from, cluster, secure, slog.New(slog.DiscardHandler))
	defer t.cancel()
	g, err := t.greet(ctx, addr, hello{connMessages, cluster, from, to}, false)
	return g.Conn, err
}
