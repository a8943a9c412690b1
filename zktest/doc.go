// Package zktest runs real ZooKeeper servers inside a test, and makes them fail.
//
//	e := zktest.Start(t, zktest.Options{Servers: 3})
//	c, err := zk.Open(ctx, e.Connect(), zk.Options{})
//	...
//	e.Cut()           // closes every connection; clients reconnect at once
//	e.Refuse(0, true) // server 0 accepts no clients
//	e.Stop(1)         // stops server 1; e.Stop(e.Leader()) stops the leader
//	e.Start(1)        // it recovers from its data directory
//	zktest.Expire(t, c, e.Connect())
//
// The servers are Zooid's own. They listen on loopback ports that the kernel chooses, and their data directories are
// removed with the test. Clients reach each server through a TCP proxy, whose address stays the same when the server
// restarts. [NewProxy] puts a proxy in front of any other server. [Serve] runs servers outside of a test. TTL znodes
// and all four-letter words are enabled. Reconfig and TLS are not. Several ensembles may run at once, in parallel tests
// too.
//
// Servers run on Linux and macOS. On other systems the package has only [NewProxy] and [Expire].
package zktest
