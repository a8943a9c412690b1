// Package handshake begins a connection between two servers: it proves to each that the other knows the secret of their
// ensemble, over TLS too, and seals the rest of the connection.
package handshake
