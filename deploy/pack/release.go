package main

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// signatures are the files of a release that vouch for the others.
var signatures = []string{"SHA256SUMS", "SHA256SUMS.asc", publicKey, publicKeyBare}

// signRelease makes a release of the files in dir: its .rpm packages get signatures, repositories of the packages are
// made in apt and rpm, and the checksums of its files are signed. The public key is next to them.
func signRelease(key string, passphrase []byte, at time.Time, dir string) error {
	s, err := newSigner(key, passphrase, at)
	if err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("sign a release: %w", err)
	}
	var debs, rpms []string
	var sums bytes.Buffer
	for _, e := range entries {
		file := filepath.Join(dir, e.Name())
		if e.IsDir() || slices.Contains(signatures, e.Name()) {
			continue
		}
		if filepath.Ext(file) == ".rpm" {
			if err := signRPM(file, s); err != nil {
				return err
			}
		}
		b, err := os.ReadFile(file)
		if err != nil {
			return fmt.Errorf("sign a release: %w", err)
		}
		fmt.Fprintf(&sums, "%x  %s\n", sha256.Sum256(b), e.Name())
		switch filepath.Ext(file) {
		case ".deb":
			debs = append(debs, file)
		case ".rpm":
			rpms = append(rpms, file)
		}
	}
	signature, err := s.detached(sums.Bytes())
	return errors.Join(err, os.WriteFile(filepath.Join(dir, "SHA256SUMS"), sums.Bytes(), 0o644),
		os.WriteFile(filepath.Join(dir, "SHA256SUMS.asc"), signature, 0o644),
		writeAPT(debs, s, at, filepath.Join(dir, "apt")), writeRPMRepository(rpms, s, at, filepath.Join(dir, "rpm")),
		s.writePublicKey(dir))
}
