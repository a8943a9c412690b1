// Package keystore turns the TLS settings of a configuration into a [crypto/tls.Config]: key and trust stores as
// Java's tools make them (JKS, PKCS12, PEM), whether to ask the other side for a certificate, protocol versions and
// cipher suites by their Java names, and stores that change on disk while the server runs.
//
// A setting that can't be fulfilled is an error if it would make TLS weaker than requested, and a note (see
// [Port.Notes]) otherwise. Errors name the file and the reason, never a password.
package keystore
