package sasl

import (
	"crypto/md5"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"strings"
)

// The names that every ZooKeeper server uses in DIGEST-MD5, on any host: clients have them built
// in.
const (
	serverName = "zk-sasl-md5"
	digestURI  = "zookeeper/" + serverName
	realm      = serverName
	peerRealm  = "zk-quorum-sasl-md5" // of the quorum ports of Apache's servers
	peerURI    = "zookeeper-quorum/" + peerRealm
	qopAuth    = "auth"
	firstCount = "00000001" // nc: each nonce is used once
)

// nonceBytes is the number of random bytes in a nonce, the same as in Java.
const nonceBytes = 30

// super is the user whose password may be given by a separate setting.
const super = "super"

// DigestMD5 is the mechanism DIGEST-MD5 with the users of a server. It is immutable, so any number
// of connections may use it at once, if its source of randomness allows that.
type DigestMD5 struct {
	users      map[string]string
	realm, uri string
	random     io.Reader
}

// NewDigestMD5 returns the mechanism for users and their passwords. A superPassword that isn't
// empty replaces the password of the user super, if that user exists: as in Apache, the user must
// be in the login file too. random must be cryptographically strong and safe for concurrent use.
func NewDigestMD5(users map[string]string, superPassword string, random io.Reader) *DigestMD5 {
	users = maps.Clone(users)
	if _, ok := users[super]; ok && superPassword != "" {
		users[super] = superPassword
	}
	return &DigestMD5{users: users, realm: realm, uri: digestURI, random: random}
}

// NewPeerDigestMD5 returns the mechanism for a port at which Apache's servers log in (QuorumLearner),
// where servers have another name.
func NewPeerDigestMD5(users map[string]string, random io.Reader) *DigestMD5 {
	return &DigestMD5{users: maps.Clone(users), realm: peerRealm, uri: peerURI, random: random}
}

// Begin returns the state of one connection's login.
func (m *DigestMD5) Begin() Login { return &Server{mechanism: m} }

// A Server is the server's side of one login, for one connection at a time.
type Server struct {
	mechanism *DigestMD5
	nonce     string // "" before the challenge
	over      bool   // succeeded or failed; there is no second try
}

// Step takes the client's next token and returns the reply. When done is true, authorizationID is
// the user that the client has proved to be. The first token must be empty. After an error, or
// after done, every further token is an error. Errors are meant for the log: they say what was
// wrong, and contain no secret. Step doesn't retain token.
func (s *Server) Step(token []byte) (reply []byte, done bool, authorizationID string, err error) {
	switch {
	case s.over:
		return nil, false, "", errors.New("log in by DIGEST-MD5: the login is over; a new one needs a new connection")
	case s.nonce == "" && len(token) > 0:
		s.over = true
		return nil, false, "", errors.New("log in by DIGEST-MD5: the first token is not empty; the client may want another mechanism, which this server does not have")
	case s.nonce == "":
		reply, err = s.challenge()
		return reply, false, "", err
	}
	s.over = true
	user, reply, err := s.verify(string(token))
	if err != nil {
		return nil, false, "", fmt.Errorf("log in by DIGEST-MD5: %w", err)
	}
	return reply, true, user, nil
}

// challenge makes the server's first token.
func (s *Server) challenge() ([]byte, error) {
	raw := make([]byte, nonceBytes)
	if _, err := io.ReadFull(s.mechanism.random, raw); err != nil {
		s.over = true
		return nil, fmt.Errorf("log in by DIGEST-MD5: draw a nonce: %w", err)
	}
	s.nonce = base64.StdEncoding.EncodeToString(raw)
	return fmt.Appendf(nil, `realm=%s,nonce=%s,charset=utf-8,algorithm=md5-sess`, quote(s.mechanism.realm),
		quote(s.nonce)), nil
}

// verify checks the client's answer to the challenge and returns the user and the server's proof.
// It requires the directives that Java's server requires, and accepts the same values. That covers
// all of RFC 2831 except the nonce count, which isn't checked because each nonce is used once.
func (s *Server) verify(token string) (user string, reply []byte, err error) {
	d, err := parseDirectives(token)
	if err != nil {
		return "", nil, err
	}
	for _, name := range []string{"username", "nonce", "cnonce", "digest-uri", "response"} {
		if d[name] == "" {
			return "", nil, fmt.Errorf("directive %s is missing or empty", name)
		}
	}
	authzid, hasAuthzid := d["authzid"]
	_, hasQOP := d["qop"]
	_, hasCharset := d["charset"]
	switch {
	case subtle.ConstantTimeCompare([]byte(d["nonce"]), []byte(s.nonce)) != 1:
		return "", nil, errors.New("the nonce is not the one the server gave")
	case d["realm"] != s.mechanism.realm: // also if it is missing, since the challenge has one
		return "", nil, fmt.Errorf("the realm is %.64q, not %q", d["realm"], s.mechanism.realm)
	case hasQOP && d["qop"] != qopAuth:
		return "", nil, fmt.Errorf("the quality of protection is %.32q; only %q is offered, use TLS to protect the connection",
			d["qop"], qopAuth)
	case hasCharset && !strings.EqualFold(d["charset"], "utf-8"):
		return "", nil, errors.New("the charset is not utf-8")
	case !strings.EqualFold(d["digest-uri"], s.mechanism.uri):
		return "", nil, fmt.Errorf("the digest-uri is %.64q, not %q: the client thinks the server has another name", d["digest-uri"],
			s.mechanism.uri)
	}
	user = d["username"]
	// An unknown user takes the same work, so that the time reveals nothing.
	password, known := s.mechanism.users[user]
	h := exchange{
		user: user, realm: d["realm"], password: password, nonce: s.nonce, cnonce: d["cnonce"], count: firstCount,
		qop: qopAuth, uri: d["digest-uri"],
	}
	if hasAuthzid {
		h.authzid = ":" + authzid
	}
	equal := subtle.ConstantTimeCompare([]byte(d["response"]), []byte(h.hash("AUTHENTICATE"))) == 1
	switch {
	case !known:
		return "", nil, fmt.Errorf("there is no user %.64q", user)
	case !equal:
		return "", nil, fmt.Errorf("wrong password for user %.64q", user)
	}
	return user, []byte("rspauth=" + h.hash("")), nil
}

// exchange holds the input of the hashes of both sides.
type exchange struct {
	user, realm, password, nonce, cnonce, count, qop, uri string

	authzid string // with a colon before it, or "" if there is none
}

// hash returns the response-value of RFC 2831, 2.1.2.1: the client's for the method AUTHENTICATE,
// the server's for the empty method.
func (x *exchange) hash(method string) string {
	secret := md5.Sum([]byte(latin1(x.user) + ":" + latin1(x.realm) + ":" + latin1(x.password)))
	a1 := string(secret[:]) + ":" + x.nonce + ":" + x.cnonce + x.authzid
	return hexMD5(strings.Join([]string{hexMD5(a1), x.nonce, x.count, x.cnonce, x.qop, hexMD5(method + ":" + x.uri)}, ":"))
}

func hexMD5(s string) string {
	sum := md5.Sum([]byte(s))
	return hex.EncodeToString(sum[:])
}

// latin1 encodes a text in ISO 8859-1, as the RFC requires before hashing, if it has only
// characters of that set, and returns it unchanged otherwise.
func latin1(s string) string {
	b := make([]byte, 0, len(s))
	for _, r := range s {
		if r > 0xff {
			return s
		}
		b = append(b, byte(r))
	}
	return string(b)
}

// Name returns "DIGEST-MD5".
func (m *DigestMD5) Name() string { return "DIGEST-MD5" }

// Begins reports whether token is empty: the mechanism begins with the server.
func (m *DigestMD5) Begins(token []byte) bool { return len(token) == 0 }
