package auth

import (
	"crypto/md5"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	"encoding/base64"
	"fmt"
	"hash"
	"strings"
	"unicode/utf8"
)

// newHash returns the hash with a name of Java's MessageDigest, in upper or lower case.
func newHash(name string) (func() hash.Hash, error) {
	switch strings.ToUpper(name) {
	case "", "SHA1", "SHA-1", "SHA":
		return sha1.New, nil
	case "SHA-224", "SHA224":
		return sha256.New224, nil
	case "SHA-256", "SHA256":
		return sha256.New, nil
	case "SHA-384", "SHA384":
		return sha512.New384, nil
	case "SHA-512", "SHA512":
		return sha512.New, nil
	case "SHA-512/224", "SHA512/224":
		return sha512.New512_224, nil
	case "SHA-512/256", "SHA512/256":
		return sha512.New512_256, nil
	case "SHA3-224":
		return func() hash.Hash { return sha3.New224() }, nil
	case "SHA3-256":
		return func() hash.Hash { return sha3.New256() }, nil
	case "SHA3-384":
		return func() hash.Hash { return sha3.New384() }, nil
	case "SHA3-512":
		return func() hash.Hash { return sha3.New512() }, nil
	case "MD5":
		return md5.New, nil
	}
	return nil, fmt.Errorf("set up digest authentication: unknown hash %q in DigestAuthenticationProvider.digestAlg; use SHA1, SHA-256, SHA-384, SHA-512 or SHA3-256",
		name)
}

// Digest returns the id of the digest scheme for a credential of the form "user:password": the user, a colon, and the
// base64 of the hash of the whole credential. algorithm is a name of Java's MessageDigest; "" means SHA1.
// DigestAuthenticationProvider prints the same id for superDigest.
func Digest(algorithm, credential string) (string, error) {
	h, err := newHash(algorithm)
	if err != nil {
		return "", err
	}
	return digestID(h, []byte(credential)), nil
}

func digestID(newHash func() hash.Hash, credential []byte) string {
	text := javaString(credential)
	user, _, _ := strings.Cut(text, ":")
	h := newHash()
	h.Write([]byte(text))
	return user + ":" + base64.StdEncoding.EncodeToString(h.Sum(nil))
}

// javaString decodes UTF-8 as Java does: each maximal incomplete prefix of a character becomes one U+FFFD, where Go
// makes one for each byte. Otherwise passwords in other encodings would have other digests than in Apache.
func javaString(b []byte) string {
	if utf8.Valid(b) {
		return string(b)
	}
	var s strings.Builder
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		if r == utf8.RuneError && n == 1 {
			n = malformedLen(b)
		}
		s.WriteRune(r)
		b = b[n:]
	}
	return s.String()
}

// malformedLen returns how many bytes at the start of b Java replaces with one U+FFFD. b begins with an invalid
// sequence. For Java a surrogate is one invalid character of three bytes.
func malformedLen(b []byte) int {
	want, low, high := 1, byte(0x80), byte(0xbf)
	switch lead := b[0]; {
	case lead >= 0xc2 && lead <= 0xdf:
		want = 2
	case lead >= 0xe0 && lead <= 0xef:
		want = 3
	case lead >= 0xf0 && lead <= 0xf4:
		want = 4
	}
	switch b[0] {
	case 0xe0:
		low = 0xa0
	case 0xf0:
		low = 0x90
	case 0xf4:
		high = 0x8f
	}
	n := 1
	for n < want && n < len(b) && low <= b[n] && b[n] <= high {
		n++
		low, high = 0x80, 0xbf
	}
	return n
}
