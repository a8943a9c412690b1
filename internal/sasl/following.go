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
	others    bool
}

// A Lasting is a login that may become invalid after it has succeeded.
type Lasting interface {
	Login
	// Holds reports whether the user who has logged in still exists and has the same password. It may
	// be called from any goroutine.
	Holds() bool
}

// Follow returns a mechanism that can be replaced. secrets has the secret that proves each user's
// identity; others says that users that aren't in secrets may log in too, by tickets.
func Follow(m Mechanism, secrets map[string]string, others bool) *Following {
	f := &Following{}
	f.Replace(m, secrets, others)
	return f
}

// Replace puts another mechanism and its users in force. Logins in progress continue with the
// previous mechanism.
func (f *Following) Replace(m Mechanism, secrets map[string]string, others bool) {
	f.now.Store(&generation{m, secrets, others})
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
	was, named := l.began.secrets[*user]
	if !named {
		return now.others
	}
	is, known := now.secrets[*user]
	return known && is == was
}
