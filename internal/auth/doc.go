// Package auth decides who is at the other end of a connection (a set of identities, each a [jute.ID]), and whether an
// access control list admits that set.
//
// # Where the two parts run
//
// [Permits], [Fix] and [Mask] depend only on their arguments. They run on every replica when an entry is applied, so
// the log has everything that they depend on: the identities with each request, and [Schemes] as a setting. A server's
// own configuration is in its [Registry], which only turns credentials into identities. Two servers with different
// configurations may disagree about who a client is, but never about what an identity may do.
//
// # Identities
//
//	scheme   id                          comes from                     in an ACL
//	world    anyone                      no connection has it           admits everybody
//	ip       the address as Java prints  every connection               address or CIDR block
//	digest   user:BASE64(HASH(u:p))      auth packet                    equality
//	sasl     authorization id            SASL exchange                  equality; id "super" matches all
//	x509     subject, RFC 2253           TLS handshake                  equality
//	super    "" or the subject           the superuser of each above    admits its bearer everywhere
//	auth     ignored                     no connection has it           replaced by the creator's identities
//	ensemble                             no connection has it           not allowed
package auth
