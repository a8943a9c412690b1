// Package admin is the HTTP side of a server: Apache's AdminServer with its commands under
// their names, keys and status codes, and the pages that containers and load balancers ask
// (/livez, /readyz). It runs from the start of the process, before there is a server that
// serves, and looks at the server by the interface Server alone.
//
// A request passes these in order, and each may answer it:
//
//  1. the limits of the listener: connections, TLS, size and time of the header (listen.go)
//  2. the method: TRACE is refused, the others go by path (http.go)
//  3. the command: is there one, is the server up (command.go)
//  4. who asks, for the commands that show or change everything (access.go)
//  5. the method that the command takes, then the command itself
//
// No header that a proxy adds is believed: the caller's address is the connection's.
package admin
