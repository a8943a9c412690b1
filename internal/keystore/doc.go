// Package keystore turns the TLS settings of a configuration into a [crypto/tls.Config]: key and trust stores in the
// formats of Java's tools (JKS, PKCS12, PEM), whether to request a certificate from the other side, protocol versions
// and cipher suites by their Java names, and stores that change on disk while the server runs.
//
// A setting that can't be applied is an error if TLS would be weaker than requested, and otherwise a note (see
// [Port.Notes]). Errors have the name of the file and the reason, never a password.
package keystore
