// Package keystore turns what a configuration says about TLS into a
// [crypto/tls.Config]: key and trust stores as Java's tools make them (JKS,
// PKCS12, PEM), which of the other side's certificates to ask for, protocol
// versions and cipher suites by the names Java has for them, and stores that
// change on disk while the server runs.
//
// What a setting asks for and can't be had is an error if it would make TLS weaker
// than asked, and a note (see [Port.Notes]) otherwise. Errors name the file and
// the reason, never a password.
package keystore
