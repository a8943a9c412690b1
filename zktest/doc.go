// Package zktest runs real ZooKeeper servers inside a test, and makes them fail.
//
//	e := zktest.Start(t, zktest.Options{Servers: 3})
//	c, err := zk.Open(ctx, e.Connect(), zk.Options{})
//	...
//	e.Cut()           // every connection is lost; clients come back at once
//	e.Refuse(0, true) // server 0 can't be reached any more
//	e.Stop(1)         // a server goes down, e.Leader() for the one that leads ...
//	e.Start(1)        // ... and recovers from its data directory
//	zktest.Expire(t, c, e.Connect())
//
// The servers are Zooid's own, on loopback ports the kernel chooses, with data
// directories that go with the test. Clients reach them through a TCP proxy each,
// whose address stays when a server restarts. [NewProxy] puts the same faults in
// front of any other server. [Serve] runs servers outside of a test.
//
// Servers run on Linux and macOS. On other systems the package has [NewProxy] and
// [Expire].
package zktest
