package sasl

// A Mechanism is the server's side of a way to log in. Any number of connections may use
// it at once.
type Mechanism interface {
	// Name is what the registry of SASL mechanisms calls it, such as "DIGEST-MD5".
	Name() string
	// Begins reports whether a login by this mechanism begins with token. ZooKeeper's
	// protocol doesn't name the mechanism, so that is how a server tells several apart.
	Begins(token []byte) bool
	// Begin returns the state of one connection's login.
	Begin() Login
}

// A Login is the server's half of one login, for one connection at a time.
type Login interface {
	// Step takes the client's next token and returns the one to answer with. When done,
	// authorizationID is who the client has proved to be. After an error, or when done,
	// every further token is an error. Errors are for the log: they say what was wrong,
	// and contain no secret. Token isn't kept.
	Step(token []byte) (reply []byte, done bool, authorizationID string, err error)
}
