package socket

import (
	"crypto/x509"
	"testing"
)

// TestRecheckAsksOnce: a certificate that many clients show is judged once in each look.
func TestRecheckAsksOnce(t *testing.T) {
	t.Parallel()
	asked := 0
	check := func([]*x509.Certificate) error { asked++; return nil }
	j := Judged{}
	for range 3 {
		for serial := range byte(5) {
			j.Check([]*x509.Certificate{{Raw: []byte{serial}}}, check)
		}
	}
	if asked != 5 {
		t.Errorf("asked %d times", asked)
	}
	for i := range judgedMax + 10 {
		j.Check([]*x509.Certificate{{Raw: []byte{byte(i), byte(i >> 8), 1}}}, check)
	}
	if len(j) != judgedMax {
		t.Errorf("%d are remembered", len(j))
	}
}
