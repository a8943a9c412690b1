package kerberos

import (
	"bytes"
	"testing"

	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/etypeID"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/types"
)

// sessionKey returns a ticket's key of a type, the same at each call.
func sessionKey(t testing.TB, kind int32) types.EncryptionKey {
	t.Helper()
	e, err := crypto.GetEtype(kind)
	if err != nil {
		t.Fatal(err)
	}
	key := bytes.Repeat([]byte{7}, e.GetKeyByteSize())
	return types.EncryptionKey{KeyType: kind, KeyValue: key}
}

// offered returns what a server that has the key offers.
func offered(t testing.TB, key types.EncryptionKey, payload ...byte) []byte {
	t.Helper()
	kind, err := crypto.GetEtype(key.KeyType)
	if err != nil {
		t.Fatal(err)
	}
	const fromAcceptor = 1
	token := gssapi.WrapToken{Flags: fromAcceptor, EC: uint16(kind.GetHMACBitLength() / 8), Payload: payload}
	if err := token.SetCheckSum(key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
		t.Fatal(err)
	}
	b, err := token.Marshal()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// second reports whether the login ends well with what the server says second.
func second(t testing.TB, key types.EncryptionKey, challenge []byte) bool {
	t.Helper()
	e := exchange{first: []byte("the ticket"), key: key}
	if first, done, err := e.Step(nil); err != nil || done || string(first) != "the ticket" {
		t.Fatalf("the first step: %q, %v, %v", first, done, err)
	}
	token, done, err := e.Step(challenge)
	if done != (err == nil) || done != (len(token) > 0) {
		t.Fatalf("%x: token %x, done %v, %v", challenge, token, done, err)
	}
	if _, again, err := e.Step(challenge); again || err == nil {
		t.Fatalf("%x: a third step: %v, %v", challenge, again, err)
	}
	return done
}

var kinds = []int32{
	etypeID.AES256_CTS_HMAC_SHA1_96, etypeID.AES128_CTS_HMAC_SHA1_96, etypeID.AES256_CTS_HMAC_SHA384_192,
	etypeID.AES128_CTS_HMAC_SHA256_128, etypeID.RC4_HMAC,
}

// TestOffers: an offer is taken that is signed with the ticket's key and includes no security layer.
func TestOffers(t *testing.T) {
	t.Parallel()
	for _, kind := range kinds {
		key := sessionKey(t, kind)
		other := types.EncryptionKey{KeyType: kind, KeyValue: make([]byte, len(key.KeyValue))}
		for name, c := range map[string]struct {
			challenge []byte
			believed  bool
		}{
			"no layer":        {offered(t, key, noLayer, 0, 0, 0), true},
			"any layer":       {offered(t, key, 7, 0, 1, 0), true},
			"layers only":     {offered(t, key, 6, 0, 1, 0), false},
			"a short payload": {offered(t, key, noLayer, 0, 0), false},
			"a long payload":  {offered(t, key, noLayer, 0, 0, 0, 0), false},
			"nothing":         {nil, false},
			"another's key":   {offered(t, other, noLayer, 0, 0, 0), false},
			"a head alone":    {offered(t, key, noLayer, 0, 0, 0)[:16], false},
		} {
			if second(t, key, c.challenge) != c.believed {
				t.Errorf("%s, key type %d: believed %v", name, kind, !c.believed)
			}
		}
	}
}

// FuzzOffer: whatever a server says that doesn't know the ticket's key, the login ends without a panic and without
// believing it. Of the seeds' signed offers, which are known, only what isn't signed may differ.
func FuzzOffer(f *testing.F) {
	for i, kind := range kinds {
		f.Add(uint8(i), offered(f, sessionKey(f, kind), noLayer, 0, 0, 0))
	}
	f.Add(uint8(0), []byte{})
	f.Add(uint8(1), []byte{5, 4, 1, 255, 255, 255, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0})
	f.Fuzz(func(t *testing.T, kind uint8, challenge []byte) {
		key := sessionKey(t, kinds[int(kind)%len(kinds)])
		if second(t, key, challenge) && !bytes.Contains(challenge, []byte{noLayer, 0, 0, 0}) {
			t.Fatalf("%x is believed", challenge)
		}
	})
}
