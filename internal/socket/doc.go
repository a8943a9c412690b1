// Package socket provides information about TCP connections that package net doesn't, closes listeners so that
// their addresses are free at once, and has a listener for HTTP servers with few clients, with or without TLS.
package socket
