package keystore

import (
	"bytes"
	"crypto/aes"
	"crypto/cipher"
	"crypto/des"
	"crypto/pbkdf2"
	"crypto/sha1"
	"crypto/sha256"
	"crypto/sha512"
	"crypto/x509/pkix"
	"encoding/asn1"
	"errors"
	"fmt"
	"hash"
	"unicode/utf16"
)

// An encryptedKey is an encrypted PKCS #8 key (RFC 5958). Its encryption key is derived from the password: by PBKDF2
// (RFC 8018, PBES2), as in openssl pkcs8 and genpkey, or as in PKCS #12 (RFC 7292), as in older tools and Java:
//
//	encryptedKey := SEQUENCE { PBES2 { PBKDF2 {salt, iterations, hash}, AES-CBC {iv} }, OCTET STRING }
//	              | SEQUENCE { PBE-SHA1-3DES {salt, iterations}, OCTET STRING }
type encryptedKey struct {
	Algorithm pkix.AlgorithmIdentifier
	Data      []byte
}

type pbes2Params struct{ Derive, Cipher pkix.AlgorithmIdentifier }

type pbkdf2Params struct {
	Salt       []byte
	Iterations int
	KeyLength  int                      `asn1:"optional"`
	Hash       pkix.AlgorithmIdentifier `asn1:"optional"`
}

var (
	oidPBES2  = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 13}
	oidPBKDF2 = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 5, 12}
)

// oidPBESHA3DES is PBE-SHA1-3DES.
var oidPBESHA3DES = asn1.ObjectIdentifier{1, 2, 840, 113549, 1, 12, 1, 3}

type pkcs12Params struct {
	Salt       []byte
	Iterations int
}

// iterationsMax bounds the work that a damaged file can cause. openssl uses 2048, and cautious users a million.
const iterationsMax = 20_000_000

// decryptPKCS8 returns the decrypted PKCS #8 key.
func decryptPKCS8(der []byte, password string) ([]byte, error) {
	var enc encryptedKey
	var params pbes2Params
	var derive pbkdf2Params
	if err := unmarshal(der, &enc); err != nil {
		return nil, err
	}
	if enc.Algorithm.Algorithm.Equal(oidPBESHA3DES) {
		return decryptPKCS12(&enc, password)
	}
	if !enc.Algorithm.Algorithm.Equal(oidPBES2) {
		return nil, fmt.Errorf("it is encrypted by the algorithm %v, which is old; convert it by openssl pkcs8 -topk8 -v2 aes256",
			enc.Algorithm.Algorithm)
	}
	if err := unmarshal(enc.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	if !params.Derive.Algorithm.Equal(oidPBKDF2) {
		return nil, fmt.Errorf("its key is derived by the algorithm %v; only PBKDF2 is known; convert it by openssl pkcs8 -topk8 -v2 aes256",
			params.Derive.Algorithm)
	}
	if err := unmarshal(params.Derive.Parameters.FullBytes, &derive); err != nil {
		return nil, err
	}
	if err := checkIterations(derive.Iterations); err != nil {
		return nil, err
	}
	newHash, err := pbkdf2Hash(derive.Hash.Algorithm)
	if err != nil {
		return nil, err
	}
	size, err := aesKeySize(params.Cipher.Algorithm)
	if err != nil {
		return nil, err
	}
	key, err := pbkdf2.Key(newHash, password, derive.Salt, derive.Iterations, size)
	if err != nil {
		return nil, err
	}
	var iv []byte
	if err := unmarshal(params.Cipher.Parameters.FullBytes, &iv); err != nil {
		return nil, err
	}
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	return decryptCBC(block, iv, enc.Data)
}

func checkIterations(n int) error {
	if n < 1 || n > iterationsMax {
		return fmt.Errorf("%d iterations to derive its key; allowed: 1 to %d", n, iterationsMax)
	}
	return nil
}

// decryptPKCS12 returns a key decrypted with PBE-SHA1-3DES.
func decryptPKCS12(enc *encryptedKey, password string) ([]byte, error) {
	var params pkcs12Params
	if err := unmarshal(enc.Algorithm.Parameters.FullBytes, &params); err != nil {
		return nil, err
	}
	if err := checkIterations(params.Iterations); err != nil {
		return nil, err
	}
	const forKey, forIV, keySize = 1, 2, 24
	block, err := des.NewTripleDESCipher(pkcs12Derive(password, &params, forKey, keySize))
	if err != nil {
		return nil, err
	}
	return decryptCBC(block, pkcs12Derive(password, &params, forIV, des.BlockSize), enc.Data)
}

// pkcs12Derive derives size bytes for a purpose from a password (RFC 7292, B.2, with SHA-1).
func pkcs12Derive(password string, params *pkcs12Params, purpose byte, size int) []byte {
	const block = sha1.BlockSize
	var text []byte
	for _, c := range utf16.Encode([]rune(password + "\x00")) {
		text = append(text, byte(c>>8), byte(c))
	}
	fill := func(b []byte) []byte { // repeats b to a multiple of the block size
		n := pad(len(b), block)
		return bytes.Repeat(b, n/max(len(b), 1)+1)[:n]
	}
	state := append(fill(params.Salt), fill(text)...)
	var derived []byte
	for len(derived) < size {
		sum := sha1.Sum(append(bytes.Repeat([]byte{purpose}, block), state...))
		for range params.Iterations - 1 {
			sum = sha1.Sum(sum[:])
		}
		derived = append(derived, sum[:]...)
		add := fill(sum[:])
		for at := 0; at < len(state); at += block {
			carry := 1
			for i := block - 1; i >= 0; i-- {
				carry += int(state[at+i]) + int(add[i])
				state[at+i] = byte(carry)
				carry >>= 8
			}
		}
	}
	return derived[:size]
}

func pad(n, unit int) int { return (n + unit - 1) / unit * unit }

// pbkdf2Hash returns the hash of PBKDF2's HMAC.
func pbkdf2Hash(id asn1.ObjectIdentifier) (func() hash.Hash, error) {
	for last, h := range map[int]func() hash.Hash{
		7: sha1.New, 8: sha256.New224, 9: sha256.New, 10: sha512.New384, 11: sha512.New,
	} {
		if id.Equal(asn1.ObjectIdentifier{1, 2, 840, 113549, 2, last}) {
			return h, nil
		}
	}
	if len(id) == 0 {
		return sha1.New, nil // the default of RFC 8018
	}
	return nil, fmt.Errorf("its key is derived by the hash %v, which is not known", id)
}

// aesKeySize returns the size in bytes of the key of an AES-CBC variant.
func aesKeySize(id asn1.ObjectIdentifier) (int, error) {
	for last, size := range map[int]int{2: 16, 22: 24, 42: 32} {
		if id.Equal(asn1.ObjectIdentifier{2, 16, 840, 1, 101, 3, 4, 1, last}) {
			return size, nil
		}
	}
	return 0, fmt.Errorf("it is encrypted by the cipher %v; only AES in CBC mode is known; convert it by openssl pkcs8 -topk8 -v2 aes256",
		id)
}

// decryptCBC decrypts data and removes the padding. With a wrong password, the padding or the key is invalid.
func decryptCBC(block cipher.Block, iv, data []byte) ([]byte, error) {
	size := block.BlockSize()
	if len(iv) != size || len(data) == 0 || len(data)%size != 0 {
		return nil, errors.New("the encrypted key is damaged")
	}
	plain := make([]byte, len(data))
	cipher.NewCBCDecrypter(block, iv).CryptBlocks(plain, data)
	padding := int(plain[len(plain)-1])
	if padding < 1 || padding > size || !bytes.HasSuffix(plain, bytes.Repeat([]byte{byte(padding)}, padding)) {
		return nil, errWrongPassword
	}
	return plain[:len(plain)-padding], nil
}

// unmarshal parses one DER value and rejects trailing bytes.
func unmarshal(der []byte, to any) error {
	rest, err := asn1.Unmarshal(der, to)
	if err == nil && len(rest) > 0 {
		err = errors.New("the encrypted key has bytes after its end")
	}
	return err
}
