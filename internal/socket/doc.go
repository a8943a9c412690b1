// Package socket provides information about TCP connections that package net doesn't, and a listener for HTTP servers
// with few clients, with or without TLS.
package socket
