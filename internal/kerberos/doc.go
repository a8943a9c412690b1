// Package kerberos implements the server's side of GSSAPI over SASL (RFC 4752, 4121): clients log in with a ticket for
// the server's principal, whose key is in a keytab. Security layers aren't offered, as in ZooKeeper; TLS protects the
// connection.
//
// The work before a ticket is verified is bounded, and costs one decryption.
package kerberos
