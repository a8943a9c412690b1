package handshake

import (
	"bytes"
	"crypto/ecdh"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// A Secret is a key that only the servers of an ensemble know.
type Secret [32]byte

// SecretOf derives a secret from a configured text.
func SecretOf(text string) Secret {
	return Secret(sha256.Sum256([]byte("zooid peer secret 1\n" + text)))
}

// A Keyring holds the keys by which a server authenticates to its peers. A server that knows
// the ensemble's secret, configured or agreed, is secured: it talks only to servers that know
// the secret too. Until then the server holds candidates, and the servers agree on one of
// them (see internal/quorum/peer/agree.go). A Keyring is safe for concurrent use.
type Keyring struct {
	own        *ecdh.PrivateKey // of this process
	dir        string           // data directory; if "", as in tests, nothing is saved
	configured []Secret         // the first is tried first when dialling; all are accepted

	mu         sync.Mutex
	agreed     []Secret             // the adopted secret, or none yet
	candidates []Secret             // ascending; the first is this server's choice
	pins       map[uint64][]byte    // by server: public key of the process at its address
	admitted   map[uint64]time.Time // by server: until when it is given the secret if it asks
}

const (
	// keyringName is the name of the keyring's file in the data directory, next to IDENTITY.
	keyringName = "PEERSECRET"
	keyringHead = "zooid peer secrets 1"
	// candidatesMax bounds the candidates that are kept: one for each server of a large
	// ensemble, and some of servers whose data was wiped.
	candidatesMax = 64
	// admitWindow is how long a server may take to ask for the secret after reconfig has
	// added it or an operator has let it in.
	admitWindow = 10 * time.Minute
	// admitAddrMax bounds the address at which an operator lets a server in: the longest
	// DNS name and a port.
	admitAddrMax = 255 + len(":65535")
	// secretsMax bounds the number of configured secrets. A change of secret needs two.
	secretsMax = 8
)

// admitName returns the name of the file by which an operator lets server id in.
func admitName(id uint64) string { return fmt.Sprintf("allow-join-%d", id) }

// AllowJoin lets server id, which lost its data or is new, get the ensemble's secret from
// the running server whose data directory is dir. A server that isn't a member yet must
// answer at addr, the "host:port" of its peer port. For a member addr is "", and it must
// answer at its address in the membership. AllowJoin returns the time until which the
// server may ask.
func AllowJoin(dir string, id uint64, addr string) (until time.Time, err error) {
	f, err := os.OpenFile(filepath.Join(dir, admitName(id)), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err == nil {
		_, err = f.WriteString(addr)
		now := time.Now()
		until = now.Add(admitWindow)
		err = errors.Join(err, f.Close(), os.Chtimes(f.Name(), now, now))
	}
	if err != nil {
		return until, fmt.Errorf("let server %d join: %w", id, err)
	}
	return until, nil
}

// OpenKeyring returns the keyring of the server whose data directory is dir, which
// need not exist. configured holds the secrets in the server's configuration.
func OpenKeyring(dir string, configured []Secret) (*Keyring, error) {
	if len(configured) > secretsMax {
		return nil, fmt.Errorf("there are %d secrets for peers, at most %d", len(configured), secretsMax)
	}
	own, err := ecdh.X25519().GenerateKey(rand.Reader)
	if err != nil {
		return nil, fmt.Errorf("make this process's key for peers: %w", err)
	}
	k := &Keyring{own: own, dir: dir, configured: configured, pins: map[uint64][]byte{}, admitted: map[uint64]time.Time{}}
	if dir == "" {
		return k, nil
	}
	path := filepath.Join(dir, keyringName)
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return k, nil
	}
	if err == nil {
		err = k.decode(string(b))
	}
	if err != nil {
		return nil, fmt.Errorf("read the ensemble's secret from %s: %w; restore the file, or remove it and let this server in (zooid allow-join)",
			path, err)
	}
	return k, nil
}

// decode parses the text that save wrote.
func (k *Keyring) decode(text string) error {
	head, rest, _ := strings.Cut(text, "\n")
	if head != keyringHead {
		return fmt.Errorf("it begins with %q, not %q", head[:min(len(head), 40)], keyringHead)
	}
	for line := range strings.Lines(rest) {
		what, digits, _ := strings.Cut(strings.TrimSpace(line), " ")
		b, err := hex.DecodeString(digits)
		if err != nil || len(b) != len(Secret{}) {
			return errors.New("a line of it isn't a secret")
		}
		switch what {
		case "agreed":
			k.agreed = []Secret{Secret(b)}
		case "candidate":
			k.candidates = append(k.candidates, Secret(b))
		default:
			return fmt.Errorf("a line of it begins with %q", what)
		}
	}
	return nil
}

// save makes the agreed secret and the candidates durable. The caller holds mu.
func (k *Keyring) save() error {
	if k.dir == "" {
		return nil
	}
	var text strings.Builder
	fmt.Fprintln(&text, keyringHead)
	for _, s := range k.agreed {
		fmt.Fprintf(&text, "agreed %x\n", s[:])
	}
	for _, s := range k.candidates {
		fmt.Fprintf(&text, "candidate %x\n", s[:])
	}
	path := filepath.Join(k.dir, keyringName)
	err := os.MkdirAll(k.dir, 0o700)
	var f *os.File
	if err == nil {
		f, err = os.OpenFile(path+".tmp", os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	}
	if err == nil {
		_, err = f.WriteString(text.String())
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(path+".tmp", path)
	}
	var d *os.File
	if err == nil {
		d, err = os.Open(k.dir)
	}
	if err == nil {
		err = errors.Join(d.Sync(), d.Close())
	}
	if err != nil {
		return fmt.Errorf("keep the ensemble's secret in %s: %w", path, err)
	}
	return nil
}

// Secrets returns the secrets that this server accepts, in the order in which to try them
// when dialling. It returns none if the server isn't secured.
func (k *Keyring) Secrets() []Secret {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Concat(k.configured, k.agreed)
}

// Secured reports whether this server knows the ensemble's secret.
func (k *Keyring) Secured() bool { return len(k.Secrets()) > 0 }

// Given reports whether an operator has configured a secret.
func (k *Keyring) Given() bool { return len(k.configured) > 0 }

// Offers returns this server's candidates, its choice first.
func (k *Keyring) Offers() []Secret {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Clone(k.candidates)
}

// Choice returns this server's candidate, which is durable. It creates one if there is
// none. The error is ErrAgreed if a secret has been adopted.
func (k *Keyring) Choice() (Secret, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case len(k.agreed) > 0:
		return Secret{}, ErrAgreed
	case len(k.candidates) > 0:
		return k.candidates[0], nil
	}
	var s Secret
	rand.Read(s[:]) // never fails (crypto/rand)
	k.candidates = []Secret{s}
	if err := k.save(); err != nil {
		k.candidates = nil
		return s, err
	}
	return s, nil
}

// ErrAgreed says that this server has adopted a secret, so candidates no longer count.
var ErrAgreed = errors.New("this server has adopted a secret meanwhile")

// Merge adds a peer's candidate and returns this server's choice, the least of all
// candidates, so that all servers make the same choice in whatever order they meet. Earlier
// choices are kept, since a peer may rely on them.
func (k *Keyring) Merge(theirs Secret) (Secret, error) {
	ours, err := k.Choice()
	if err != nil || ours == theirs {
		return ours, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.agreed) > 0 {
		return Secret{}, ErrAgreed
	}
	at, known := slices.BinarySearchFunc(k.candidates, theirs, func(a, b Secret) int { return bytes.Compare(a[:], b[:]) })
	if known {
		return k.candidates[0], nil
	}
	if len(k.candidates) >= candidatesMax {
		return k.candidates[0], errors.New("there are too many candidates for the ensemble's secret; give all servers one by quorum.secretFile")
	}
	was := k.candidates
	k.candidates = slices.Insert(slices.Clone(was), at, theirs)
	if err := k.save(); err != nil {
		k.candidates = was
		return Secret{}, err
	}
	return k.candidates[0], nil
}

// Adopt makes s the agreed secret, durably.
func (k *Keyring) Adopt(s Secret) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.agreed) > 0 || slices.Contains(k.configured, s) {
		return nil
	}
	was := k.candidates
	k.agreed, k.candidates = []Secret{s}, nil
	if err := k.save(); err != nil {
		k.agreed, k.candidates = nil, was
		return err
	}
	return nil
}

// Pin remembers the public key of the process that answers at the address of server id.
func (k *Keyring) Pin(id uint64, public []byte) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.pins[id] = public
}

// Pinned reports whether public is the key of the process at the address of server id.
func (k *Keyring) Pinned(id uint64, public []byte) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(public) > 0 && bytes.Equal(k.pins[id], public)
}

// Admit lets server id get the secret within admitWindow, since it was added to the ensemble.
func (k *Keyring) Admit(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.admitted[id] = time.Now().Add(admitWindow)
}

// Entered revokes what Admit has granted, once server id knows the secret.
func (k *Keyring) Entered(id uint64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.admitted, id)
}

// Admits reports whether server id may get the secret. It uses up an operator's permission,
// which is valid once.
func (k *Keyring) Admits(id uint64) bool {
	k.mu.Lock()
	until := k.admitted[id]
	k.mu.Unlock()
	if time.Now().Before(until) {
		return true
	}
	if k.dir == "" {
		return false
	}
	path := filepath.Join(k.dir, admitName(id))
	st, err := os.Stat(path)
	if err != nil {
		return false
	}
	return os.Remove(path) == nil && time.Since(st.ModTime()) < admitWindow
}

// AdmittedAt returns the address at which an operator lets server id in, or "".
func (k *Keyring) AdmittedAt(id uint64) string {
	if k.dir == "" {
		return ""
	}
	f, err := os.Open(filepath.Join(k.dir, admitName(id)))
	if err != nil {
		return ""
	}
	defer f.Close()
	addr, err := io.ReadAll(io.LimitReader(f, int64(admitAddrMax)+1))
	if err != nil || len(addr) > admitAddrMax {
		return ""
	}
	if _, _, err := net.SplitHostPort(string(addr)); err != nil {
		return ""
	}
	return string(addr)
}

// Public returns this process's public key.
func (k *Keyring) Public() []byte { return k.own.PublicKey().Bytes() }

// shared returns the secret that only this process and the owner of a public key can compute.
func (k *Keyring) shared(public []byte) ([]byte, error) {
	p, err := ecdh.X25519().NewPublicKey(public)
	if err != nil {
		return nil, err
	}
	return k.own.ECDH(p) // returns an error for an invalid key
}
