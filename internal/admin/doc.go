// Package admin is the HTTP side of a server: Apache's AdminServer, with its commands under the same names, keys and
// status codes, and the pages that containers and load balancers request (/livez, /readyz). It runs from the start of
// the process, before there is a server that serves, and accesses the server only through the interface Server.
//
// A request passes these checks in order, and each may answer it:
//
//  1. the limits of the listener: connections, TLS, size and time of the header (internal/socket/port.go)
//  2. the method: TRACE is refused, the others go by path (http.go)
//  3. the command: does it exist, and is the server up (command.go)
//  4. the caller's permission, for the commands that show or change everything (access.go)
//  5. the method that the command accepts, then the command itself
//
// Headers added by proxies aren't trusted: the caller's address is that of the connection.
package admin
