package keystore

import (
	"crypto/tls"
	"fmt"
	"strings"
)

// versions returns the range of protocol versions with the given Java names, and notes on ignored ones. The default is
// TLS 1.2 and 1.3.
func versions(protocol string, enabled []string) (low, high uint16, notes []string, err error) {
	if len(enabled) == 0 && protocol != "" {
		enabled = []string{protocol}
	}
	if len(enabled) == 0 {
		return tls.VersionTLS12, tls.VersionTLS13, nil, nil
	}
	for _, name := range enabled {
		var v uint16
		switch name {
		case "TLSv1.2":
			v = tls.VersionTLS12
		case "TLSv1.3":
			v = tls.VersionTLS13
		case "TLSv1", "TLSv1.1", "SSLv2Hello", "SSLv3":
			notes = append(notes, fmt.Sprintf("the protocol %s is broken and stays off; use TLSv1.2 or TLSv1.3", name))
			continue
		default:
			return 0, 0, nil, fmt.Errorf("unknown TLS protocol %.40q; allowed: TLSv1.2, TLSv1.3", name)
		}
		if low == 0 || v < low {
			low = v
		}
		high = max(high, v)
	}
	if low == 0 {
		return 0, 0, nil, fmt.Errorf("enable the TLS protocols %s: all are broken; use TLSv1.2 or TLSv1.3",
			strings.Join(enabled, ", "))
	}
	return low, high, notes, nil
}

// suiteIDs returns the cipher suites with the given Java names. It restricts the protocol versions to those of the
// suites, and returns notes on unsupported suites.
func suiteIDs(names []string, low, high uint16) (ids []uint16, min, max uint16, notes []string, err error) {
	if len(names) == 0 {
		return safeSuites(), low, high, nil, nil
	}
	known := map[string]*tls.CipherSuite{}
	for _, s := range append(tls.CipherSuites(), tls.InsecureCipherSuites()...) {
		known[s.Name] = s
	}
	newest := 0 // number of TLS 1.3 suites
	for _, name := range names {
		s := known["TLS_"+strings.TrimPrefix(strings.TrimPrefix(name, "TLS_"), "SSL_")]
		switch {
		case s == nil || strings.Contains(name, "_RC4_") || strings.Contains(name, "_3DES_"):
			notes = append(notes, fmt.Sprintf("the cipher suite %.80s can't be had; the others of the list are used", name))
		case s.SupportedVersions[0] == tls.VersionTLS13:
			newest++
		default:
			ids = append(ids, s.ID)
		}
	}
	if newest == 0 && len(ids) == 0 {
		return nil, 0, 0, nil, fmt.Errorf("use the cipher suites %.400s: none can be had; remove the list to use the safe ones",
			strings.Join(names, ", "))
	}
	if newest > 0 && newest < newestSuites && high == tls.VersionTLS13 {
		notes = append(notes, "the cipher suites of TLS 1.3 can't be chosen one by one, all three are used; remove all of them from the list to turn TLS 1.3 off")
	}
	if newest == 0 && high > tls.VersionTLS12 {
		high = tls.VersionTLS12
	}
	if len(ids) == 0 && low < tls.VersionTLS13 {
		low = tls.VersionTLS13
	}
	if low > high {
		return nil, 0, 0, nil, fmt.Errorf("use the cipher suites %.400s: none is of an enabled protocol; change the list or the protocols",
			strings.Join(names, ", "))
	}
	return ids, low, high, notes, nil
}

// newestSuites is the number of TLS 1.3 suites that Go supports: AES-128, AES-256, ChaCha20.
const newestSuites = 3

// safeSuites returns the TLS 1.2 suites that are enabled by default: Go's suites with authenticated encryption. CBC
// suites encrypt and authenticate separately, which has been attacked many times; they must be listed explicitly.
func safeSuites() (ids []uint16) {
	for _, s := range tls.CipherSuites() {
		if s.SupportedVersions[0] != tls.VersionTLS13 && !strings.Contains(s.Name, "_CBC_") {
			ids = append(ids, s.ID)
		}
	}
	return ids
}
