package sasl

import "sync/atomic"

// A Following is a mechanism whose users can be replaced while it is in use: logins that begin then are judged by
// what counts now, and those that have succeeded tell whether they would again.
type Following struct {
	now atomic.Pointer[generation]
}

// A generation is what counts from one replacement to the next.
type generation struct {
	mechanism Mechanism
	secrets   map[string]string
	others    bool
}

// A Lasting is a login that may cease to hold after it has succeeded.
type Lasting interface {
	Login
	// Holds reports whether the user who has logged in still exists and has the same password. It may be called from
	// any goroutine.
	Holds() bool
}

// Follow returns a mechanism that can be replaced. Secrets has what proves each user's identity; others says that there
// are logins of users that it doesn't have, by tickets.
func Follow(m Mechanism, secrets map[string]string, others bool) *Following {
	f := &Following{}
	f.Replace(m, secrets, others)
	return f
}

// Replace puts another mechanism and its users in force. Logins under way go on under the former ones.
func (f *Following) Replace(m Mechanism, secrets map[string]string, others bool) {
	f.now.Store(&generation{m, secrets, others})
}

// Name is Mechanism.Name.
func (f *Following) Name() string { return f.now.Load().mechanism.Name() }

// Begins is Mechanism.Begins.
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
	user  atomic.Pointer[string] // who has logged in
}

// Step is Login.Step.
func (l *followed) Step(token []byte) (reply []byte, done bool, user string, err error) {
	reply, done, user, err = l.Login.Step(token)
	if done && err == nil {
		l.user.Store(&user)
	}
	return reply, done, user, err
}

// Holds is Lasting.Holds.
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
