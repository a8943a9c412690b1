package sasl

// A Mechanism is the server's side of a way to log in. Any number of connections may use it at
// once.
type Mechanism interface {
	// Name returns the registered name of the SASL mechanism, such as "DIGEST-MD5".
	Name() string
	// Begins reports whether a login by this mechanism begins with token. ZooKeeper's protocol doesn't
	// name the mechanism, so this is how a server with several mechanisms chooses one.
	Begins(token []byte) bool
	// Begin returns the state of one connection's login.
	Begin() Login
}

// A Login is the server's side of one login, for one connection at a time.
type Login interface {
	// Step takes the client's next token and returns the reply. When done is true, authorizationID is
	// the user that the client has proved to be. After an error, or after done, every further token is
	// an error. Errors are meant for the log: they say what was wrong, and contain no secret. Step
	// doesn't retain token.
	Step(token []byte) (reply []byte, done bool, authorizationID string, err error)
}
