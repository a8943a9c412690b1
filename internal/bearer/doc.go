// Package bearer implements the scheme "bearer": a client is identified by a token, a JSON Web Token (RFC 7519) signed
// by an issuer that the server trusts, such as an OpenID provider. The issuer's public keys come from a file or over
// HTTPS.
//
// Nothing in a token is trusted until its signature is verified, with the issuer's public keys only and an algorithm
// from a fixed list. The token can neither choose another algorithm nor bring its own key.
package bearer
