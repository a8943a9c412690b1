package handshake

import (
	"bytes"
	"crypto/ecdh"
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// TestBytes compares what is sent on a connection with bytes that were recorded once: another version sends the same.
func TestBytes(t *testing.T) {
	t.Parallel()
	key := func(fill byte) *ecdh.PrivateKey {
		k, err := ecdh.X25519().NewPrivateKey(bytes.Repeat([]byte{fill}, 32))
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	dialler, listener := key(1), key(2)
	shared, err := dialler.ECDH(listener.PublicKey())
	if err != nil {
		t.Fatal(err)
	}
	secret := SecretOf("a secret")
	var text bytes.Buffer
	say := func(what string, b []byte) { fmt.Fprintf(&text, "%s\n%x\n\n", what, b) }
	say("secret", secret[:])
	challenge := append(bytes.Repeat([]byte{4}, 32), listener.PublicKey().Bytes()...)
	for _, version := range []byte{Version, Version2} {
		o := &Opening{
			version: version, Mode: ModeSecret, From: 2, nonce: [32]byte(bytes.Repeat([]byte{3}, 32)),
			Public: dialler.PublicKey().Bytes(),
		}
		say(fmt.Sprintf("version %d: opening", version), o.append(nil))
		sum, err := o.transcript(nil, challenge)
		if err != nil {
			t.Fatal(err)
		}
		say(fmt.Sprintf("version %d: proof", version), o.proofOf(secret[:], shared, sum))
	}
	for _, dialled := range []bool{true, false} {
		wire := &tapped{Conn: discarding{}}
		c, err := newSealed(wire, secret[:], shared, []byte("transcript"), dialled)
		if err != nil {
			t.Fatal(err)
		}
		c.Write([]byte("hello"))
		say(fmt.Sprintf("dialled %t: encrypted record", dialled), wire.wrote)
		wire.wrote = nil
		c.Unveil()
		c.Write([]byte("hello"))
		say(fmt.Sprintf("dialled %t: unveiled record", dialled), wire.wrote)
	}
	recorded, err := os.ReadFile(filepath.Join("testdata", "bytes.txt"))
	if err != nil || string(recorded) != text.String() {
		t.Errorf("other bytes are sent than were recorded (%v):\n%s", err, text.Bytes())
	}
}
