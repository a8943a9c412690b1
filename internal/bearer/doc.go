// Package bearer serves the scheme "bearer": a client is who a token says, a JSON Web Token
// (RFC 7519) signed by an issuer that the server trusts, such as an OpenID provider's. The
// issuer's public keys come from a file or over HTTPS.
//
// A token is unknown until its signature is verified, by an algorithm of a fixed list with
// public keys alone: neither the token's word for it nor a key that it brings counts.
package bearer
