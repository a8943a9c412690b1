package socket

import (
	"crypto/sha256"
	"crypto/x509"
)

// Judged holds the results of one recheck by certificate, which many clients may present. It is not safe for concurrent
// use.
type Judged map[[sha256.Size]byte]error

// judgedMax bounds Judged; further certificates are checked each time.
const judgedMax = 10_000

// Check returns the result of the function check for the certificates shown, and calls it only once for equal ones.
func (j Judged) Check(shown []*x509.Certificate, check func([]*x509.Certificate) error) error {
	h := sha256.New()
	for _, c := range shown {
		h.Write(c.Raw)
	}
	var key [sha256.Size]byte
	h.Sum(key[:0])
	err, known := j[key]
	if !known {
		if err = check(shown); len(j) < judgedMax {
			j[key] = err
		}
	}
	return err
}
