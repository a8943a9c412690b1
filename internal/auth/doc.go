// Package auth answers two questions: who is at the other end of a connection
// (a set of identities, each a [jute.ID]), and does an access control list
// admit that set.
//
// # Where each half runs
//
// [Permits], [Fix] and [Mask] are functions of their arguments alone. They run
// at apply time on every replica, so whatever they depend on travels in the log:
// the identities with each request, [Schemes] as a setting. A server's own
// configuration is in its [Registry], which only turns credentials into
// identities; two servers configured differently disagree about who a client
// is, never about what an identity may do.
//
// # Identities
//
//	scheme   id                          comes from                     in an ACL
//	world    anyone                      nobody carries it              admits everybody
//	ip       the address as Java prints  every connection               address or CIDR block
//	digest   user:BASE64(HASH(u:p))      auth packet                    equality
//	sasl     authorization id            SASL exchange                  equality; id "super" matches all
//	x509     subject, RFC 2253           TLS handshake                  equality
//	super    "" or the subject           the superuser of each above    admits its bearer everywhere
//	auth     ignored                     nobody carries it              replaced by the creator's identities
//	ensemble                             nobody carries it              not allowed
package auth
