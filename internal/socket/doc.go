// Package socket provides functions for TCP connections that package net doesn't have, closes listeners so that their
// addresses are free at once, and has a listener for HTTP servers with few clients, with or without TLS.
package socket
