// Package kerberos implements the client's side of GSSAPI, a login to ZooKeeper's servers with a Kerberos ticket. The
// ticket comes from a keytab or from the cache that kinit fills.
//
//	zk.Options{SASL: kerberos.Login{Principal: "app@EXAMPLE.COM", Keytab: "/etc/app.keytab"}}
//
// Each connection reads the keytab or the cache again, so later connections use a renewed one. The client keeps a
// connection when its ticket expires.
package kerberos

import (
	"errors"
	"fmt"
	"net"
	"os"
	"strings"

	"github.com/jcmturner/gokrb5/v8/client"
	"github.com/jcmturner/gokrb5/v8/config"
	"github.com/jcmturner/gokrb5/v8/credentials"
	"github.com/jcmturner/gokrb5/v8/crypto"
	"github.com/jcmturner/gokrb5/v8/gssapi"
	"github.com/jcmturner/gokrb5/v8/iana/keyusage"
	"github.com/jcmturner/gokrb5/v8/keytab"
	"github.com/jcmturner/gokrb5/v8/spnego"
	"github.com/jcmturner/gokrb5/v8/types"

	"github.com/zooid-project/zooid/zk"
)

// Login is the mechanism GSSAPI. It implements zk.SASLMechanism. The ticket proves both sides to each other; it doesn't
// encrypt what follows, so use TLS too. A server that insists on a security layer of GSSAPI is refused.
type Login struct {
	// Keytab is a file with the key of Principal. If it is "", the ticket comes from Cache, and Principal isn't used.
	Keytab string
	// Principal has the form name[/host][@REALM], and Keytab needs it. Without a realm, Config's default_realm applies.
	Principal string
	// Cache is the file that kinit writes. Only files are supported, with or without FILE: before the path. "" means
	// $KRB5CCNAME, or /tmp/krb5cc_UID.
	Cache string
	// Config is the configuration file of Kerberos. "" means $KRB5_CONFIG, or /etc/krb5.conf.
	Config string
	// Service is the part of the servers' principal before the slash; the part after it is the server's host as in the
	// connect string or the SRV record. "" means zookeeper. A Service with a "/" is the whole principal, for all servers;
	// a realm in it is ignored. The realm of servers is the one that Config has for their host (domain_realm).
	Service string
}

// Name returns "GSSAPI".
func (l Login) Name() string { return "GSSAPI" }

// Begin requests a ticket for the server from the KDC, and waits for the reply, some five seconds for each KDC and
// protocol that doesn't answer. The client calls it for each connection. If Begin fails, the client tries the next
// server, whatever the reason. A program that wants to see a wrong keytab or principal at its start calls Begin itself.
func (l Login) Begin(server string) (zk.SASLLogin, error) {
	c, err := l.client()
	if err != nil {
		return nil, err
	}
	defer c.Destroy()
	name, err := l.service(server)
	if err != nil {
		return nil, err
	}
	ticket, session, err := c.GetServiceTicket(name)
	if err != nil {
		return nil, fmt.Errorf("get a ticket for %s: %w", name, err)
	}
	token, err := spnego.NewKRB5TokenAPREQ(c, ticket, session, []int{gssapi.ContextFlagInteg, gssapi.ContextFlagSequence},
		nil)
	if err != nil {
		return nil, fmt.Errorf("make a token for %s: %w", name, err)
	}
	first, err := token.Marshal()
	if err != nil {
		return nil, fmt.Errorf("make a token for %s: %w", name, err)
	}
	if err := token.APReq.DecryptAuthenticator(session); err != nil {
		return nil, fmt.Errorf("make a token for %s: %w", name, err)
	}
	return &exchange{first: first, key: session, sequence: uint64(token.APReq.Authenticator.SeqNumber)}, nil
}

// service returns the principal of server, which is a host:port.
func (l Login) service(server string) (string, error) {
	if strings.Contains(l.Service, "/") {
		name, _, _ := strings.Cut(l.Service, "@")
		return name, nil
	}
	host, _, err := net.SplitHostPort(server)
	if err != nil {
		return "", fmt.Errorf("name the server's principal: %w", err)
	}
	service := l.Service
	if service == "" {
		service = "zookeeper"
	}
	return service + "/" + host, nil
}

// client returns a Kerberos client that has logged in.
func (l Login) client() (*client.Client, error) {
	conf, err := config.Load(or(l.Config, os.Getenv("KRB5_CONFIG"), "/etc/krb5.conf"))
	if err != nil {
		return nil, fmt.Errorf("read Kerberos' configuration: %w", err)
	}
	if l.Keytab == "" {
		file := strings.TrimPrefix(or(l.Cache, os.Getenv("KRB5CCNAME"), fmt.Sprintf("/tmp/krb5cc_%d", os.Getuid())), "FILE:")
		cache, err := credentials.LoadCCache(file)
		if err != nil {
			return nil, fmt.Errorf("read the ticket cache %s (run kinit): %w", file, err)
		}
		c, err := client.NewFromCCache(cache, conf, client.DisablePAFXFAST(true))
		if err != nil {
			return nil, fmt.Errorf("use the ticket cache %s (run kinit): %w", file, err)
		}
		return c, nil
	}
	keys, err := keytab.Load(l.Keytab)
	if err != nil {
		return nil, fmt.Errorf("read the keytab %s: %w", l.Keytab, err)
	}
	name, realm, _ := strings.Cut(l.Principal, "@")
	if name == "" {
		return nil, errors.New("use a keytab: its principal is missing")
	}
	c := client.NewWithKeytab(name, or(realm, conf.LibDefaults.DefaultRealm), keys, conf, client.DisablePAFXFAST(true))
	if err := c.Login(); err != nil {
		c.Destroy()
		return nil, fmt.Errorf("log in at the KDC as %s: %w", l.Principal, err)
	}
	return c, nil
}

func or(texts ...string) string {
	for _, t := range texts {
		if t != "" {
			return t
		}
	}
	return ""
}

// exchange is the client's half of one login.
type exchange struct {
	first []byte
	key   types.EncryptionKey
	step  int

	sequence uint64 // of the next token
}

// noLayer selects no security layer; TLS protects the connection.
const noLayer = 1

// Step implements zk.SASLLogin. The ticket's session key signs the server's offer, which proves that the server is the
// one that the ticket is for.
func (e *exchange) Step(challenge []byte) (token []byte, done bool, err error) {
	e.step++
	switch e.step {
	case 1:
		return e.first, false, nil
	case 2:
		token, err = e.choose(challenge)
		return token, err == nil, err
	}
	return nil, false, errors.New("the login is over")
}

func (e *exchange) choose(challenge []byte) ([]byte, error) {
	var offer gssapi.WrapToken
	if err := offer.Unmarshal(challenge, true); err != nil {
		return nil, fmt.Errorf("the server's offer of security layers: %w", err)
	}
	if ok, err := offer.Verify(e.key, keyusage.GSSAPI_ACCEPTOR_SEAL); err != nil || !ok {
		return nil, errors.New("the server's offer of security layers isn't signed with the ticket's key: it isn't the server that it should be")
	}
	if len(offer.Payload) != 4 || offer.Payload[0]&noLayer == 0 {
		return nil, errors.New("the server wants a security layer; use TLS to protect the connection")
	}
	kind, err := crypto.GetEtype(e.key.KeyType)
	if err != nil {
		return nil, err
	}
	choice := gssapi.WrapToken{
		EC: uint16(kind.GetHMACBitLength() / 8), SndSeqNum: e.sequence, Payload: []byte{noLayer, 0, 0, 0},
	}
	if err := choice.SetCheckSum(e.key, keyusage.GSSAPI_INITIATOR_SEAL); err != nil {
		return nil, err
	}
	return choice.Marshal()
}
