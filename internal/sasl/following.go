package sasl

import "sync/atomic"

// A Following is a mechanism whose users can be replaced while it is in use. Logins that begin
// after a replacement are judged by the new users, and logins that have succeeded can tell whether
// they would succeed again.
type Following struct {
	now atomic.Pointer[generation]
}

// A generation is the mechanism and the users in force between two replacements.
type generation struct {
	mechanism Mechanism
	secrets   map[string]string
}

// A Lasting is a login that may become invalid after it has succeeded.
type Lasting interface {
	Login
	// Holds reports whether the user who has logged in still exists and has the same password or, after a login by a
	// ticket, whether the ticket's principal would still be this user. It may be called from any goroutine.
	Holds() bool
}

// A Ticketed is a login by a ticket, whose principal a mechanism gives the name of a user.
type Ticketed interface {
	Login
	// UserBy returns the user that the principal who has logged in is to another mechanism, or "" if that mechanism
	// accepts no tickets, or none of this principal. It may be called from any goroutine.
	UserBy(m Mechanism) string
}

// Follow returns a mechanism that can be replaced. secrets has the secrets of the users that log in without a ticket.
func Follow(m Mechanism, secrets map[string]string) *Following {
	f := &Following{}
	f.Replace(m, secrets)
	return f
}

// Replace puts another mechanism and its users in force. Logins in progress continue with the
// previous mechanism.
func (f *Following) Replace(m Mechanism, secrets map[string]string) {
	f.now.Store(&generation{m, secrets})
}

// Name implements Mechanism.
func (f *Following) Name() string { return f.now.Load().mechanism.Name() }

// Begins implements Mechanism.
func (f *Following) Begins(token []byte) bool { return f.now.Load().mechanism.Begins(token) }

// Begin returns the state of one connection's login, which is a Lasting.
func (f *Following) Begin() Login {
	began := f.now.Load()
	return &followed{Login: began.mechanism.Begin(), of: f, began: began}
}

type followed struct {
	Login
	of    *Following
	began *generation
	user  atomic.Pointer[string] // the user who has logged in
}

// Step implements Login.
func (l *followed) Step(token []byte) (reply []byte, done bool, user string, err error) {
	reply, done, user, err = l.Login.Step(token)
	if done && err == nil {
		l.user.Store(&user)
	}
	return reply, done, user, err
}

// Holds implements Lasting.
func (l *followed) Holds() bool {
	user, now := l.user.Load(), l.of.now.Load()
	if user == nil || now == l.began {
		return true
	}
	if ticket := ticketed(l.Login); ticket != nil {
		return ticket.UserBy(now.mechanism) == *user
	}
	is, known := now.secrets[*user]
	return known && is == l.began.secrets[*user]
}

// ticketed returns the login by a ticket that l is, or that l has chosen; nil if there is none.
func ticketed(l Login) Ticketed {
	if c, ok := l.(*choice); ok {
		l = c.chosen
	}
	ticket, _ := l.(Ticketed)
	return ticket
}
