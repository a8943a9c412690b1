package handshake

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"io"
	"net"
	"testing"
)

// sharing returns the keys of servers that share a secret.
func sharing(secret string) *Keyring {
	k, err := OpenKeyring("", []Secret{SecretOf(secret)})
	if err != nil {
		panic(err)
	}
	return k
}

// TestRecordedProof: who knows the secret can't find it in a recorded connection, so no weaker one can be guessed
// there.
func TestRecordedProof(t *testing.T) {
	t.Parallel()
	for _, version := range []byte{Version, Version2} {
		a, b := sharing("a secret"), sharing("a secret")
		near, far := net.Pipe()
		tap := &tapped{Conn: near}
		done := make(chan bool)
		go func() {
			v, _ := ReadVersion(far)
			if _, _, err := b.Accept(far, v); err != nil {
				t.Errorf("version %d isn't accepted: %v", version, err)
			}
			close(done)
		}()
		secret := SecretOf("a secret")
		if _, _, err := a.Dial(tap, version, ModeSecret, secret[:], 1); err != nil {
			t.Fatal(err)
		}
		<-done
		proof := tap.wrote[len(tap.wrote)-proofSize:]
		o, err := readOpening(bytes.NewReader(tap.wrote[len(Magic)+1:]), version)
		if err != nil {
			t.Fatal(err)
		}
		guessed := false
		for _, shared := range [][]byte{nil, secret[:], o.Public, b.Public()} {
			guessed = guessed || hmac.Equal(proof, o.proofOf(secret[:], shared, tap.transcript(&o)))
		}
		if guessed != (version == Version2) {
			t.Errorf("version %d: a recorded proof shows its secret: %t", version, guessed)
		}
	}
}

// transcript is what both sides have said up to the proof.
func (c *tapped) transcript(o *Opening) []byte {
	sum := sha256.Sum256(append(o.append(nil), c.read...))
	return sum[:]
}

// FuzzProof gives the handshake whatever a stranger may say: it ends with an error.
func FuzzProof(f *testing.F) {
	k := sharing("a secret")
	o := Opening{version: Version, Mode: ModeSecret, From: 2, Public: k.Public()}
	f.Add(byte(Version), o.append(nil)[len(Magic)+1:])
	o.Mode = ModePair
	f.Add(byte(Version2), append(o.append(nil)[len(Magic)+1:], make([]byte, proofSize)...))
	f.Fuzz(func(t *testing.T, version byte, data []byte) {
		c, _, err := k.Accept(scripted{r: bytes.NewReader(data)}, version)
		if err == nil {
			t.Fatalf("%d bytes are a proof: %v", len(data), c)
		}
	})
}

// scripted is a connection whose peer says what it is to say whatever it hears.
type scripted struct {
	net.Conn
	r io.Reader
}

func (s scripted) Read(b []byte) (int, error)  { return s.r.Read(b) }
func (s scripted) Write(b []byte) (int, error) { return len(b), nil }
