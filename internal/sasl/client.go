package sasl

import (
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Client is the client's side of one DIGEST-MD5 login.
type Client struct {
	proof  exchange
	random io.Reader
	step   int
}

// NewClient begins a login. random must be cryptographically strong.
func NewClient(user, password string, random io.Reader) *Client {
	return &Client{
		proof: exchange{user: user, password: password, count: firstCount, qop: qopAuth, uri: digestURI}, random: random,
	}
}

// NewPeerClient begins a login at the quorum port of one of Apache's servers (QuorumServer), where
// servers have another name.
func NewPeerClient(user, password string, random io.Reader) *Client {
	c := NewClient(user, password, random)
	c.proof.uri = peerURI
	return c
}

// Step takes the server's next token, nil at first, and returns the reply to send, nil if there is
// none. When done is true, the server has proved that it knows the password too. After an error, or
// after done, every further token is an error. Errors contain no secret. Step doesn't retain token.
func (c *Client) Step(token []byte) (reply []byte, done bool, err error) {
	c.step++
	switch c.step {
	case 1:
		return []byte{}, false, nil // in DIGEST-MD5 the server sends the first challenge
	case 2:
		reply, err = c.respond(string(token))
	case 3:
		done, err = true, c.verify(string(token))
	default:
		err = errors.New("the login is over")
	}
	if err != nil {
		c.step = 3
		return nil, false, fmt.Errorf("log in by DIGEST-MD5: %w", err)
	}
	return reply, done, nil
}

// respond answers the server's challenge.
func (c *Client) respond(challenge string) ([]byte, error) {
	d, err := parseDirectives(challenge)
	if err != nil {
		return nil, fmt.Errorf("the server's challenge: %w", err)
	}
	offered, hasQOP := d["qop"]
	charset, hasCharset := d["charset"]
	switch {
	case d["nonce"] == "":
		return nil, errors.New("the server's challenge has no nonce")
	case !strings.EqualFold(d["algorithm"], "md5-sess"):
		return nil, fmt.Errorf("the server's challenge is for the algorithm %.32q, not md5-sess", d["algorithm"])
	case hasQOP && !offers(offered, qopAuth):
		return nil, fmt.Errorf("the server offers the qualities of protection %.64q; only %q is known, use TLS to protect the connection",
			offered, qopAuth)
	case hasCharset && !strings.EqualFold(charset, "utf-8"):
		return nil, fmt.Errorf("the server's challenge has the charset %.32q, not utf-8", charset)
	}
	raw := make([]byte, nonceBytes)
	if _, err := io.ReadFull(c.random, raw); err != nil {
		return nil, fmt.Errorf("draw a nonce: %w", err)
	}
	p := &c.proof
	p.realm, p.nonce, p.cnonce = d["realm"], d["nonce"], base64.StdEncoding.EncodeToString(raw)
	var b strings.Builder
	if hasCharset {
		b.WriteString("charset=utf-8,")
	}
	fmt.Fprintf(&b, "username=%s,realm=%s,nonce=%s,cnonce=%s,nc=%s,qop=%s,digest-uri=%s,response=%s",
		quote(p.user), quote(p.realm), quote(p.nonce), quote(p.cnonce), p.count, p.qop, quote(p.uri), p.hash("AUTHENTICATE"))
	return []byte(b.String()), nil
}

// offers reports whether a comma-separated list contains wanted.
func offers(list, wanted string) bool {
	for item := range strings.SplitSeq(list, ",") {
		if strings.EqualFold(strings.Trim(item, blank), wanted) {
			return true
		}
	}
	return false
}

// verify checks the server's proof.
func (c *Client) verify(token string) error {
	d, err := parseDirectives(token)
	if err != nil {
		return fmt.Errorf("the server's proof: %w", err)
	}
	if subtle.ConstantTimeCompare([]byte(d["rspauth"]), []byte(c.proof.hash(""))) != 1 {
		return errors.New("the server does not prove that it knows the password: it isn't the server that it should be")
	}
	return nil
}
