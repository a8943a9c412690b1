package main

import (
	"bytes"
	"crypto"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"github.com/ProtonMail/go-crypto/openpgp"
	"github.com/ProtonMail/go-crypto/openpgp/armor"
	"github.com/ProtonMail/go-crypto/openpgp/clearsign"
	"github.com/ProtonMail/go-crypto/openpgp/packet"
)

// A signer signs a release with an OpenPGP key. The same input gives the same signatures.
type signer struct {
	entity *openpgp.Entity
	config *packet.Config
}

// newSigner reads a secret key, armoured, that is valid now. Signatures carry the time at, or that of the key if it is
// younger: verifiers refuse a signature that is older than its key.
func newSigner(file string, passphrase []byte, at time.Time) (*signer, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the key that signs: %w", err)
	}
	keys, err := openpgp.ReadArmoredKeyRing(bytes.NewReader(text))
	switch {
	case err != nil:
		return nil, fmt.Errorf("read the key that signs, %s: %w", file, err)
	case len(keys) != 1:
		return nil, fmt.Errorf("%s has %d keys; export the one that signs: gpg --armor --export-secret-keys KEY",
			file, len(keys))
	case keys[0].PrivateKey == nil:
		return nil, fmt.Errorf("%s has a public key; the secret one signs: gpg --armor --export-secret-keys KEY", file)
	}
	e := keys[0]
	key, ok := e.SigningKey(time.Now())
	if !ok || key.PrivateKey == nil {
		return nil, fmt.Errorf("the key in %s can't sign: it has expired, was revoked, or is for something else", file)
	}
	if key.PrivateKey.Encrypted {
		if err := key.PrivateKey.Decrypt(passphrase); err != nil {
			return nil, fmt.Errorf("the key in %s needs the right SIGNING_PASSPHRASE: %w", file, err)
		}
	}
	for _, t := range []time.Time{key.PublicKey.CreationTime, key.SelfSignature.CreationTime,
		e.PrimaryIdentity().SelfSignature.CreationTime} {
		if t.After(at) {
			at = t
		}
	}
	same := false // no salt
	return &signer{e, &packet.Config{
		DefaultHash: crypto.SHA512, Time: func() time.Time { return at }, SigningKeyId: key.PublicKey.KeyId,
		NonDeterministicSignaturesViaNotation: &same, InsecureGenerateNonCriticalSignatureCreationTime: true,
	}}, nil
}

// bare returns the signature of a text.
func (s *signer) bare(text []byte) ([]byte, error) {
	var b bytes.Buffer
	if err := openpgp.DetachSign(&b, s.entity, bytes.NewReader(text), s.config); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return b.Bytes(), nil
}

// detached returns the signature of a text, armoured.
func (s *signer) detached(text []byte) ([]byte, error) {
	signature, err := s.bare(text)
	if err != nil {
		return nil, err
	}
	return armored(openpgp.SignatureType, func(w io.Writer) error {
		_, err := w.Write(signature)
		return err
	})
}

// clear returns a text with its signature around it.
func (s *signer) clear(text []byte) ([]byte, error) {
	key, ok := s.entity.SigningKeyById(s.config.Now(), s.config.SigningKeyId)
	if !ok {
		return nil, errors.New("sign: the key can't sign any more")
	}
	var b bytes.Buffer
	w, err := clearsign.Encode(&b, key.PrivateKey, s.config)
	if err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	_, err = w.Write(text)
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, fmt.Errorf("sign: %w", err)
	}
	return append(b.Bytes(), '\n'), nil
}

// armored returns write's output, armoured as a block of the given type, with the checksum that old versions of rpm
// want.
func armored(block string, write func(io.Writer) error) ([]byte, error) {
	var b bytes.Buffer
	w, err := armor.EncodeWithChecksumOption(&b, block, nil, true)
	if err == nil {
		err = errors.Join(write(w), w.Close())
	}
	return append(b.Bytes(), '\n'), err
}

// The public half of the key that signs: armoured, as apt, rpm and gpg read it, and bare, for gpgv.
const publicKey, publicKeyBare = "zooid.asc", "zooid.gpg"

// writePublicKey writes the public half into dir.
func (s *signer) writePublicKey(dir string) error {
	var bare bytes.Buffer
	if err := s.entity.Serialize(&bare); err != nil {
		return fmt.Errorf("write the public key: %w", err)
	}
	text, err := armored(openpgp.PublicKeyType, s.entity.Serialize)
	return errors.Join(err, os.WriteFile(filepath.Join(dir, publicKey), text, 0o644),
		os.WriteFile(filepath.Join(dir, publicKeyBare), bare.Bytes(), 0o644))
}
