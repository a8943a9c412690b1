package replica

import (
	"errors"

	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/jute"
)

// SASLOptions are the settings of logins by SASL. The zero value allows no such logins: sasl requests have no effect.
type SASLOptions struct {
	Mechanism   sasl.Mechanism // has the users of the login file; nil for none
	AllowFailed bool           // allowSaslFailedClients: a client that fails stays, without an identity
	Required    bool           // an identity of the scheme sasl is required: a client that fails may not stay
}

// saslLogin answers one token of a client's login. Without a mechanism it answers with no
// token and leaves the client unchanged, as Apache does without a login file.
func (r *Replica) saslLogin(c *Client, xid int32, d *jute.Decoder, guess *auth.Guess) error {
	var req jute.SASLPacket
	req.Decode(d)
	if r.sasl.Mechanism == nil {
		c.reply(jute.ReplyHeader{Xid: xid}, (&jute.SASLPacket{}).Append)
		return nil
	}
	if c.reader.sasl == nil {
		c.reader.sasl = r.sasl.Mechanism.Begin()
	}
	token, err := []byte(nil), d.Err()
	if err == nil {
		token, err = r.logins.saslStep(c, req.Token)
	}
	if err != nil {
		r.logins.throttle.Failed(guess, r.now())
		r.logins.tried(c, &ops[jute.OpSASL], nil, jute.ErrAuthFailed, Tried)
	}
	switch {
	case err == nil && c.over():
		return ErrClosing
	case err == nil:
		if why := r.counts.belongs(c); why != "" {
			c.CloseAfter(why)
			return ErrClosing
		}
		c.reply(jute.ReplyHeader{Xid: xid}, (&jute.SASLPacket{Token: token}).Append)
		return nil
	case r.sasl.AllowFailed && !r.sasl.Required:
		r.clientLog.Warn("a client failed to log in; its connection stays open (allowSaslFailedClients)", "client", c.remote,
			"session", SessionText(c.session), "err", err)
		c.reply(jute.ReplyHeader{Xid: xid}, (&jute.SASLPacket{}).Append)
		return nil
	}
	r.clientLog.Warn("a client failed to log in", "client", c.remote, "session", SessionText(c.session), "err", err)
	code := jute.ErrAuthFailed
	if r.sasl.Required {
		code = jute.ErrSessionClosedRequireSASLAuth
	}
	c.reply(jute.ReplyHeader{Xid: xid, Err: code}, (&jute.SASLPacket{}).Append)
	c.CloseAfter("it failed to log in by SASL")
	return ErrClosing
}

var errUsersReplaced = errors.New("log in: the user was removed, or got another password or name, since the login began")

// saslStep processes one token and, when the login is complete, adds the identity it proved.
func (l *logins) saslStep(c *Client, token []byte) ([]byte, error) {
	reply, done, user, err := c.reader.sasl.Step(token)
	if err != nil || !done {
		return reply, err
	}
	proof, err := l.auth.AddSASL(c.identities(), user)
	if err != nil {
		return nil, err
	}
	if login, ok := c.reader.sasl.(sasl.Lasting); ok {
		c.Login.Store(&login)
		if !login.Holds() { // a recheck after the replacement may have come too early to see this client
			return nil, errUsersReplaced
		}
	}
	if !l.proved(c, &proof) {
		return nil, nil // saslLogin sees that it is closing
	}
	l.tried(c, &ops[jute.OpSASL], nil, jute.OK, Tried)
	l.clientLog.Info("a client logged in by SASL", "client", c.remote, "session", SessionText(c.session), "user", user)
	return reply, nil
}
