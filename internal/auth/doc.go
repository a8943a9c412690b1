// Package auth determines the identities of a connection, each a [jute.ID], and whether an access control list admits
// them.
//
// # Where the two parts run
//
// [Permits], [Fix] and [Mask] depend only on their arguments. They run on every replica when an entry is applied, so
// the log has all that they depend on: the identities with each request, and [Schemes] as a setting. A server's own
// configuration is in its [Registry], which only turns credentials into identities. Two servers with different
// configurations may disagree about a client's identities, but never about an identity's rights.
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
