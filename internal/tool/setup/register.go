package setup

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/zooid-project/zooid/internal/config"
)

// The files in DIR/ca in addition to the authority's key and certificate. Each is replaced as a whole.
const (
	issuedFile = "issued.pem" // every certificate that the authority has issued
	listFile   = "crl.pem"    // its revocation list, which servers read (ssl.crlFile)
	lockFile   = "lock"
)

// registerBytesMax bounds each file of a register: some 20,000 certificates. It is also the largest
// revocation list that servers read.
const registerBytesMax = 16 << 20

// A register is an authority with the certificates that it has issued and its revocation list.
// A certificate is recorded before it is handed out.
type register struct {
	dir    string     // DIR/ca
	ca     *authority // its key is nil where the register is only read
	issued []*x509.Certificate
	list   *x509.RevocationList // nil if there is none yet
	now    time.Time
}

// change calls do with the register of dir, and prevents other changes meanwhile.
func change(dir string, now time.Time, do func(*register) error) error {
	ca := filepath.Join(dir, "ca")
	if _, err := os.Stat(filepath.Join(ca, "ca.key")); err != nil {
		return fmt.Errorf("open the authority in %s: %w; 'zooid init -tls' makes one, and -dir names the directory that has its folder ca",
			dir, err)
	}
	f, err := os.OpenFile(filepath.Join(ca, lockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // which unlocks
	if err := lock(f); err != nil {
		return fmt.Errorf("lock %s: %w", f.Name(), err)
	}
	r, err := openRegister(dir, now)
	if err != nil {
		return err
	}
	if err := r.openKey(); err != nil {
		return err
	}
	return do(r)
}

// openRegister reads the register in dir. An authority from before registers existed has none: its certificates are
// then those that init has written and that still exist.
func openRegister(dir string, now time.Time) (*register, error) {
	r := &register{dir: filepath.Join(dir, "ca"), ca: &authority{}, now: now}
	text, err := readBounded(filepath.Join(r.dir, "ca.pem"))
	if err != nil {
		return nil, fmt.Errorf("open the authority in %s: %w; 'zooid init -tls' makes one, and -dir names the directory that has its folder ca",
			dir, err)
	}
	certs, err := certificates(text)
	if err != nil || len(certs) != 1 {
		return nil, fmt.Errorf("read %s: want one certificate, the authority's: %w", filepath.Join(r.dir, "ca.pem"),
			errors.Join(err, countError(len(certs))))
	}
	r.ca.cert, r.ca.text = certs[0], string(text)
	if err := r.ca.cert.CheckSignatureFrom(r.ca.cert); err != nil {
		return nil, fmt.Errorf("read %s: it isn't an authority's certificate: %w", filepath.Join(r.dir, "ca.pem"), err)
	}
	if err := r.readList(); err != nil {
		return nil, err
	}
	return r, r.readIssued(dir)
}

func countError(n int) error { return fmt.Errorf("there are %d", n) }

// openKey reads the authority's key, which only its owner may be able to read.
func (r *register) openKey() error {
	file := filepath.Join(r.dir, "ca.key")
	st, err := os.Stat(file)
	if err != nil {
		return err
	}
	if st.Mode().Perm()&0o077 != 0 {
		return fmt.Errorf("read %s: others may read it (mode %04o): anybody who has it can act as any server; run chmod 600, and consider who may have read it",
			file, st.Mode().Perm())
	}
	text, err := readBounded(file)
	if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return fmt.Errorf("read %s: it holds no key in PEM", file)
	}
	parsed, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	key, ok := parsed.(*ecdsa.PrivateKey)
	if !ok || !key.PublicKey.Equal(r.ca.cert.PublicKey) {
		return fmt.Errorf("read %s: it isn't the key of the certificate in ca.pem", file)
	}
	r.ca.key = key
	if r.now.Before(r.ca.cert.NotBefore) || r.now.After(r.ca.cert.NotAfter) {
		return fmt.Errorf("use the authority in %s: it is valid from %s until %s, and this machine's clock says %s; the page operations (rotate certificates) says how to change the issuer",
			r.dir, day(r.ca.cert.NotBefore), day(r.ca.cert.NotAfter), day(r.now))
	}
	return nil
}

// readList reads the revocation list, if there is one.
func (r *register) readList() error {
	file := filepath.Join(r.dir, listFile)
	text, err := readBounded(file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return err
	}
	block, _ := pem.Decode(text)
	if block == nil || block.Type != listBlock {
		return fmt.Errorf("read %s: it contains no revocation list; every server has a copy", file)
	}
	if r.list, err = x509.ParseRevocationList(block.Bytes); err == nil {
		err = r.list.CheckSignatureFrom(r.ca.cert)
	}
	if err != nil {
		return fmt.Errorf("read %s: %w; every server has a copy", file, err)
	}
	return nil
}

// readIssued reads the certificates that were issued.
func (r *register) readIssued(dir string) error {
	file := filepath.Join(r.dir, issuedFile)
	text, err := readBounded(file)
	if errors.Is(err, fs.ErrNotExist) {
		return r.adopt(dir)
	} else if err != nil {
		return err
	}
	if r.list == nil {
		return fmt.Errorf("read %s: it is missing; put a server's copy there: a new list would undo all revocations",
			filepath.Join(r.dir, listFile))
	}
	if r.issued, err = certificates(text); err != nil {
		return fmt.Errorf("read %s: %w", file, err)
	}
	for _, cert := range r.issued {
		if err := cert.CheckSignatureFrom(r.ca.cert); err != nil {
			return fmt.Errorf("read %s: the certificate %s isn't this authority's: %w", file, serialText(cert), err)
		}
	}
	return nil
}

// adopt records the certificates that init has written into dir.
func (r *register) adopt(dir string) error {
	servers, _ := filepath.Glob(filepath.Join(literal(dir), "*", "server.pem"))
	for _, file := range append(servers, filepath.Join(dir, "client", "client.pem")) {
		text, err := readBounded(file)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		} else if err != nil {
			return err
		}
		certs, err := certificates(text)
		if err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
		for _, cert := range certs {
			if cert.CheckSignatureFrom(r.ca.cert) == nil && !r.has(cert) {
				r.issued = append(r.issued, cert)
			}
		}
	}
	return nil
}

// literal returns a pattern that matches path alone.
func literal(path string) string {
	return strings.NewReplacer(`\`, `\\`, "*", `\*`, "?", `\?`, "[", `\[`).Replace(path)
}

func (r *register) has(cert *x509.Certificate) bool {
	return slices.ContainsFunc(r.issued, cert.Equal)
}

// record adds certificates to the register, unless they are in it.
func (r *register) record(certs ...*x509.Certificate) error {
	all := slices.Clone(r.issued)
	for _, cert := range certs {
		if !r.has(cert) {
			all = append(all, cert)
		}
	}
	if r.list == nil { // written before issued.pem: if that exists, a missing list was lost
		if err := r.revoke(); err != nil {
			return err
		}
	}
	var text bytes.Buffer
	for _, cert := range all {
		text.WriteString(block("CERTIFICATE", cert.Raw))
	}
	if err := replaceFile(filepath.Join(r.dir, issuedFile), text.Bytes()); err != nil {
		return err
	}
	r.issued = all
	return nil
}

// revoke writes a revocation list that also has certs.
func (r *register) revoke(certs ...*x509.Certificate) error {
	var entries []x509.RevocationListEntry
	if r.list != nil {
		entries = slices.Clone(r.list.RevokedCertificateEntries)
	}
	for _, cert := range certs {
		entries = append(entries, x509.RevocationListEntry{SerialNumber: cert.SerialNumber, RevocationTime: r.now.UTC()})
	}
	text, err := r.ca.revoke(entries, r.list, r.now)
	if err != nil {
		return err
	}
	if err := replaceFile(filepath.Join(r.dir, listFile), text); err != nil {
		return err
	}
	return r.readList()
}

// revoked returns when a certificate was revoked, or the zero time.
func (r *register) revoked(cert *x509.Certificate) time.Time {
	if r.list != nil {
		for i := range r.list.RevokedCertificateEntries {
			if e := &r.list.RevokedCertificateEntries[i]; e.SerialNumber.Cmp(cert.SerialNumber) == 0 {
				return e.RevocationTime
			}
		}
	}
	return time.Time{}
}

// live reports whether a certificate is neither revoked nor expired.
func (r *register) live(cert *x509.Certificate) bool {
	return r.revoked(cert).IsZero() && r.now.Before(cert.NotAfter)
}

// certificates parses the certificates among the PEM blocks of text.
func certificates(text []byte) (certs []*x509.Certificate, err error) {
	for block, rest := pem.Decode(text); block != nil; block, rest = pem.Decode(rest) {
		if block.Type != "CERTIFICATE" {
			continue
		}
		cert, err := x509.ParseCertificate(block.Bytes)
		if err != nil {
			return nil, err
		}
		certs = append(certs, cert)
	}
	return certs, nil
}

// readBounded reads a file of at most registerBytesMax bytes.
func readBounded(file string) ([]byte, error) { return config.ReadFile(file, registerBytesMax) }

// replaceFile replaces a file atomically, so that it is whole at every moment.
func replaceFile(file string, text []byte) error {
	if len(text) > registerBytesMax {
		return fmt.Errorf("write %s: it would have more than %d bytes; change the issuer", file, registerBytesMax)
	}
	return config.ReplaceFile(file, text, 0o644)
}

func day(t time.Time) string { return t.UTC().Format(time.DateOnly) }

// serialText returns a certificate's serial number as it is listed.
func serialText(cert *x509.Certificate) string { return fmt.Sprintf("%032x", cert.SerialNumber) }
