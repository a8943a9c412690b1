package handshake

import (
	"crypto/hkdf"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
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
// (X25519), so that secrets can't be tried on a recorded connection. Over TLS the HMAC also
// covers a key of that TLS connection (RFC 5705), so that a process between two TLS
// connections can't relay a proof.
//
// Everything after the proof is sealed (sealed.go) with keys derived from the secret, the
// bytes above and the shared secret of the key pairs. The first sealed bytes are the hello
// and its answer (internal/quorum/peer/wire.go). The hello names both ids, the cluster and the kind of connection;
// the answer is the listener's proof. Each process has its own key pair, so a public key also
// tells apart two processes with the same id.
//
// Version 2 of the proof, of servers that know no feature level beyond 2, was made with the
// secret alone, and never over TLS. Still earlier nothing was proven: a connection began with
// the hello.
//
// The mode says which key the proof is made with. Two servers that know no secret prove
// to each other that they are the processes at their configured addresses: each has
// dialled the other, and seen its public key there.
type Mode byte

const (
	ModeSecret Mode = 1 // the dialler knows the ensemble's secret
	ModePair   Mode = 2 // the dialler knows no secret
	ModeTry    Mode = 3 // the dialler has a candidate, and asks whether it is the secret
)

const (
	Magic         = "ZOOIDPEER"
	Version       = 3
	Version2      = 2
	openingSize   = len(Magic) + 2 + 8 + 32 + 32
	challengeSize = 32 + 32
	proofSize     = sha256.Size
)

// An Opening is the dialler's first message. Nothing in it is proven before Accept has returned without an error.
type Opening struct {
	Mode    Mode
	From    uint64 // the id of the dialler
	Public  []byte // the key of its process
	version byte
	nonce   [32]byte
}

func (o *Opening) append(b []byte) []byte {
	b = append(b, Magic...)
	b = append(b, o.version, byte(o.Mode))
	b = binary.BigEndian.AppendUint64(b, o.From)
	b = append(b, o.nonce[:]...)
	return append(b, o.Public...)
}

// ReadVersion reads the magic and the version at the start of an opening or a hello.
func ReadVersion(r io.Reader) (version byte, err error) {
	var b [len(Magic) + 1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return 0, fmt.Errorf("read a peer's opening: %w", Bare(err))
	}
	return b[len(Magic)], checkMagic(b[:])
}

// checkMagic checks the first bytes of a connection.
func checkMagic(b []byte) error {
	switch {
	case string(b[:len(Magic)]) == Magic:
		return nil
	case b[0] == tlsHandshakeRecord:
		return errors.New("read a peer's hello: it speaks TLS, and this server doesn't: set sslQuorum=true here, or portUnification=true until all servers have it")
	}
	return errors.New("read a peer's hello: the other side isn't a Zooid server (an Apache ZooKeeper server can't be mixed in)")
}

// readOpening reads the rest of an opening whose magic and version have been read.
func readOpening(r io.Reader, version byte) (o Opening, err error) {
	var b [openingSize - len(Magic) - 1]byte
	if _, err := io.ReadFull(r, b[:]); err != nil {
		return o, fmt.Errorf("read a peer's opening: %w", err)
	}
	o.version, o.Mode, o.From = version, Mode(b[0]), binary.BigEndian.Uint64(b[1:])
	o.nonce, o.Public = [32]byte(b[9:]), slices.Clone(b[41:])
	return o, nil
}

var (
	// ErrOlder says that a peer closed the connection at the opening: it runs an older
	// version, or refuses the connection.
	ErrOlder = errors.New("it closed the connection at the opening: it is stopping or starting, accepts TLS only (sslQuorum), has too many connections, or is an older version")
	// ErrUnproven says that a peer closed the connection at the proof.
	ErrUnproven = errors.New("it closed the connection at the proof")
	// errSelf says that this process has dialled itself.
	errSelf = errors.New("this is the same process")
)

// derive derives a key of 32 bytes for the purpose what.
func derive(secret, salt []byte, what string) []byte {
	key, err := hkdf.Key(sha256.New, secret, salt, what, 32)
	if err != nil {
		panic("handshake: " + err.Error()) // only for an invalid length
	}
	return key
}

// proofOf returns the proof that a peer knows psk, on a connection whose key pairs have a shared secret.
func (o *Opening) proofOf(psk, shared, transcript []byte) []byte {
	key, what := psk, "zooid peer proof"
	if o.version != Version2 {
		key, what = slices.Concat(psk, shared), "zooid peer proof 3"
	}
	mac := hmac.New(sha256.New, derive(key, transcript, what))
	mac.Write(transcript)
	return mac.Sum(nil)
}

// transcript returns the hash of the bytes that both sides have sent and of whatever else the proof is bound to.
func (o *Opening) transcript(c net.Conn, challenge []byte) ([]byte, error) {
	all := append(o.append(nil), challenge...)
	if state, ok := TLS(c); ok {
		bound, err := state.ExportKeyingMaterial("EXPORTER-zooid-peer-proof", nil, 32)
		if err != nil {
			return nil, fmt.Errorf("bind the proof to the TLS connection: %w", err)
		}
		all = append(all, bound...)
	}
	sum := sha256.Sum256(all)
	return sum[:], nil
}

// Dial makes the proof that mode asks for to the listener at the other end of c, as the given version does, with psk,
// which is nil in ModePair. It returns the sealed connection and the listener's public key, with an error too if the
// listener has sent the key. It doesn't close c.
func (k *Keyring) Dial(c net.Conn, version byte, mode Mode, psk []byte,
	from uint64) (conn *Sealed, public []byte, err error) {
	o := Opening{Mode: mode, From: from, Public: k.Public(), version: version}
	rand.Read(o.nonce[:]) // never fails (crypto/rand)
	var challenge [challengeSize]byte
	if _, err = c.Write(o.append(nil)); err == nil {
		_, err = io.ReadFull(c, challenge[:])
	}
	switch {
	case err == nil:
	case Timeout(err):
		return nil, nil, fmt.Errorf("read the peer's challenge: %w", Bare(err))
	case alerted(err): // at the end of the TLS handshake the listener checks the certificate
		return nil, nil, Explained(err)
	default:
		return nil, nil, fmt.Errorf("%w (%w)", ErrOlder, Bare(err))
	}
	public = slices.Clone(challenge[32:])
	if subtle.ConstantTimeCompare(public, o.Public) == 1 {
		return nil, public, errSelf
	}
	shared, err := k.shared(public)
	if err != nil {
		return nil, public, fmt.Errorf("the peer's public key: %w", err)
	}
	if mode == ModePair {
		psk = shared
	}
	sum, err := o.transcript(c, challenge[:])
	if err != nil {
		return nil, public, err
	}
	if _, err := c.Write(o.proofOf(psk, shared, sum)); err != nil {
		return nil, public, fmt.Errorf("%w (%w)", ErrUnproven, Bare(err))
	}
	conn, err = newSealed(c, psk, shared, sum, true)
	return conn, public, err
}

// alerted reports whether err is an alert that the other end of a TLS connection has sent.
func alerted(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "remote error"
}

// Timeout reports whether err says that a deadline has passed.
func Timeout(err error) bool {
	var t net.Error
	return errors.As(err, &t) && t.Timeout()
}

// Accept answers an opening whose magic and version have been read, and checks the proof.
// If the proof fails, nothing more is sent on the connection.
func (k *Keyring) Accept(c net.Conn, version byte) (conn *Sealed, o Opening, err error) {
	if o, err = readOpening(c, version); err != nil {
		return nil, o, err
	}
	var challenge [challengeSize]byte
	rand.Read(challenge[:32]) // never fails (crypto/rand)
	copy(challenge[32:], k.Public())
	if _, err := c.Write(challenge[:]); err != nil {
		return nil, o, err
	}
	var proof [proofSize]byte
	if _, err := io.ReadFull(c, proof[:]); err != nil {
		return nil, o, fmt.Errorf("%w: %w", ErrNoProof, err)
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
// the two key pairs. In ModePair it computes these only for the process that this server has
// seen at the peer's address. A stranger's proof costs one X25519 and a hash for each secret.
func (k *Keyring) proven(o *Opening, proof, transcript []byte) (psk, shared []byte, err error) {
	switch {
	case o.Mode == ModePair && !k.Pinned(o.From, o.Public):
		return nil, nil, ErrUnpinned
	case o.Mode != ModeSecret && o.Mode != ModeTry && o.Mode != ModePair:
		return nil, nil, fmt.Errorf("its proof is of the unknown kind %d: upgrade this server", o.Mode)
	}
	if shared, err = k.shared(o.Public); err != nil {
		return nil, nil, fmt.Errorf("a peer's public key: %w", err)
	}
	if o.Mode == ModePair {
		if !hmac.Equal(proof, o.proofOf(shared, shared, transcript)) {
			return nil, nil, errors.New("its proof is wrong")
		}
		return shared, shared, nil
	}
	known := k.Secrets()
	if o.Mode == ModeSecret && len(known) == 0 {
		known = k.Offers()
	}
	for _, s := range known {
		if hmac.Equal(proof, o.proofOf(s[:], shared, transcript)) {
			if o.Mode == ModeSecret && !k.Secured() {
				// The dialler is secured, so all members have held this candidate.
				return s[:], shared, k.Adopt(s)
			}
			return s[:], shared, nil
		}
	}
	if len(known) == 0 {
		return nil, nil, errors.New("it knows a secret of its ensemble, and this server knows none yet: give it the same by quorum.secretFile, or let it in (zooid allow-join on a running server)")
	}
	return nil, nil, errors.New("its secret isn't this server's; all servers need the same (quorum.secretFile)")
}

// ErrNoProof says that a connection ended, or went silent, before its proof. A server may
// dial only to learn which process answers.
var ErrNoProof = errors.New("no proof came")

// ErrUnpinned says that a process without a secret isn't the one seen at the address
// of the server that it claims to be.
var ErrUnpinned = errors.New("it knows no secret, and has not been seen at the address of the server that it says it is")
