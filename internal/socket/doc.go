// Package socket asks of a TCP connection what package net doesn't tell, and has the port of HTTP servers that few
// call, over TLS or not.
package socket
