package kerberos

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/jcmturner/gofork/encoding/asn1"
	"github.com/jcmturner/gokrb5/v8/asn1tools"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/asnAppTag"
	"github.com/jcmturner/gokrb5/v8/iana/flags"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/iana/msgtype"
	"github.com/jcmturner/gokrb5/v8/messages"
	"github.com/jcmturner/gokrb5/v8/service"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"
)

// applicationTag begins the first token of a GSSAPI mechanism (RFC 2743, 3.1).
const applicationTag = 0x60

// A context is the security context that a ticket has established between client and server.
type context struct {
	client  Principal
	mutual  bool // the client wants the server to authenticate itself
	session types.EncryptionKey
	key     types.EncryptionKey // the key of the tokens: the client's subkey, or the session key

	// What the client's authenticator says. All of it may have 64 KiB, which a connection would keep.
	time   time.Time
	micros int
	serial int64
}

// accept verifies a client's first token: its ticket is for this server and still valid, and the client has the
// ticket's session key. A token is accepted only once.
func accept(token []byte, settings *service.Settings) (*context, error) {
	var first spnego.KRB5Token
	if err := first.Unmarshal(token); err != nil {
		return nil, err
	}
	if !first.IsAPReq() {
		return nil, errors.New("the token isn't a request with a ticket")
	}
	req := &first.APReq
	if ok, _, err := service.VerifyAPREQ(req, settings); err != nil || !ok {
		return nil, fmt.Errorf("the ticket is refused: %w", err)
	}
	ticket := &req.Ticket.DecryptedEncPart // the authenticator is only the client's claim
	c := &context{
		client: Principal{Names: ticket.CName.NameString, Realm: ticket.CRealm},
		mutual: types.IsFlagSet(&req.APOptions, flags.APOptionMutualRequired), session: ticket.Key,
		key: ticket.Key, time: req.Authenticator.CTime, micros: req.Authenticator.Cusec,
		serial: req.Authenticator.SeqNumber,
	}
	if subkey := req.Authenticator.SubKey; len(subkey.KeyValue) > 0 {
		if err := checkKey(subkey); err != nil {
			return nil, err
		}
		c.key = subkey
	}
	if n := len(c.client.Names); n == 0 || n > 2 || slices.Contains(c.client.Names, "") {
		return nil, fmt.Errorf("the client's principal %.200q has not the form name/host@REALM", c.client)
	}
	return c, nil
}

// checkKey returns an error unless a client's key has the size of its type: the connection keeps it.
func checkKey(k types.EncryptionKey) error {
	kind, err := crypto.GetEtype(k.KeyType)
	if err != nil {
		return fmt.Errorf("the client's key is refused: %w", err)
	}
	if len(k.KeyValue) != kind.GetKeyByteSize() {
		return fmt.Errorf("the client's key is refused: it has %d bytes, and keys of its type have %d", len(k.KeyValue),
			kind.GetKeyByteSize())
	}
	return nil
}

// proof returns the token that proves to the client that the server has the ticket's session key too (AP-REP, RFC
// 4120, 5.5.2).
func (c *context) proof() ([]byte, error) {
	part, err := asn1.Marshal(messages.EncAPRepPart{
		CTime: c.time, Cusec: c.micros, SequenceNumber: c.serial,
	})
	if err != nil {
		return nil, err
	}
	sealed, err := crypto.GetEncryptedData(asn1tools.AddASNAppTag(part, asnAppTag.EncAPRepPart), c.session,
		keyusage.AP_REP_ENCPART, 0)
	if err != nil {
		return nil, err
	}
	reply, err := asn1.Marshal(messages.APRep{PVNO: 5, MsgType: msgtype.KRB_AP_REP, EncPart: sealed})
	if err != nil {
		return nil, err
	}
	body, err := asn1.Marshal(gssapi.OIDKRB5.OID())
	if err != nil {
		return nil, err
	}
	body = append(body, 2, 0) // the token's type
	return asn1tools.AddASNAppTag(append(body, asn1tools.AddASNAppTag(reply, asnAppTag.APREP)...), 0), nil
}

// noLayer is the only security layer on offer: none (RFC 4752, 3.1).
const noLayer = 1

// offer returns the token that offers the security layers.
func (c *context) offer() ([]byte, error) {
	kind, err := crypto.GetEtype(c.key.KeyType)
	if err != nil {
		return nil, err
	}
	t := gssapi.WrapToken{
		Flags: fromAcceptor, EC: uint16(kind.GetHMACBitLength() / 8), SndSeqNum: uint64(c.serial),
		Payload: []byte{noLayer, 0, 0, 0},
	}
	if err := t.SetCheckSum(c.key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil {
		return nil, err
	}
	return t.Marshal()
}

// Flags of a token (RFC 4121, 4.2.2).
const (
	fromAcceptor = 1
	sealed       = 2
)

// layer verifies the client's choice of a security layer and returns the authorization id that it asks for.
func (c *context) layer(token []byte) (authzid string, err error) {
	payload, err := c.unwrap(token)
	switch {
	case err != nil:
		return "", err
	case len(payload) < 4:
		return "", errors.New("the client's choice of a security layer is cut short")
	case payload[0] != noLayer:
		return "", errors.New("the client chooses a security layer that wasn't offered; use TLS to protect the connection")
	}
	return string(payload[4:]), nil
}

// unwrap verifies an unencrypted token of the client and returns its payload.
func (c *context) unwrap(token []byte) ([]byte, error) {
	if len(token) < gssapi.HdrLen || token[0] != 5 || token[1] != 4 || token[3] != gssapi.FillerByte {
		return nil, errors.New("the token is none of RFC 4121; use a key of AES")
	}
	if token[2]&(fromAcceptor|sealed) != 0 {
		return nil, errors.New("the token is encrypted, or the server's own")
	}
	check, rotated := int(binary.BigEndian.Uint16(token[4:])), int(binary.BigEndian.Uint16(token[6:]))
	body := slices.Clone(token[gssapi.HdrLen:])
	if check > len(body) {
		return nil, errors.New("the token is cut short")
	}
	if len(body) > 0 {
		rotated %= len(body)
		body = append(body[rotated:], body[:rotated]...)
	}
	t := gssapi.WrapToken{
		Flags: token[2], SndSeqNum: binary.BigEndian.Uint64(token[8:]),
		Payload: body[:len(body)-check], CheckSum: body[len(body)-check:],
	}
	if ok, err := t.Verify(c.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil || !ok {
		return nil, errors.New("the token's checksum is wrong")
	}
	return t.Payload, nil
}
