// Package sasl implements SASL on client connections: the login file that says who may log in, and
// both sides of the mechanism DIGEST-MD5 (RFC 2831, authentication only), as ZooKeeper's Java
// clients and servers, kazoo and Cyrus implement it.
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
// The package does no I/O: the caller reads the file, carries the tokens and provides the random
// bytes. DIGEST-MD5 is an old mechanism that is based on MD5 and needs passwords in the clear on
// the server; it is supported because existing clients use it. GSSAPI (Kerberos) is not part of
// this package, which only reads its options from the login file; see package kerberos.
package sasl
