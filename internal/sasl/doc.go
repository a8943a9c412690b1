// Package sasl is SASL on client connections: the login file that says who may
// log in, and both halves of the mechanism DIGEST-MD5 (RFC 2831, authentication
// only), as Java's ZooKeeper clients and servers, kazoo and Cyrus speak it.
//
// # One login
//
//	client                     server
//	empty token           ──▶
//	                      ◀──  realm="zk-sasl-md5",nonce="…",charset=utf-8,algorithm=md5-sess
//	username, cnonce,
//	response=HASH         ──▶  the hash proves that the client knows the password
//	                      ◀──  rspauth=HASH, which proves that the server does
//
// The package does no I/O: the caller reads the file, carries the tokens and
// brings the random bytes. DIGEST-MD5 is an old mechanism that stands on MD5 and
// needs passwords in the clear on the server; it is here because that is what
// existing clients have. GSSAPI (Kerberos) isn't supported, and a login file that
// asks for it is refused.
package sasl
