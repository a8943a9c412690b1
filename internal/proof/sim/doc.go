// Package sim runs whole ensembles of the real server on virtual time, network
// and disks, from one seed, and checks everything they do.
//
// The code under test is production code: quorum.Loop on a storage.Dir, with
// the server's replica and the bytes of its clients. The simulation provides
// the shell around it (life, the clocks, the goroutines), the connections
// between peers (link, waiting, transfer), the clients' connections (conn), the disks
// (storage.MemFS with faults) and the clients themselves.
//
// Everything happens in one goroutine, in the order of an event queue sorted by
// time, so a seed determines the whole run: a World is the same, bit for bit,
// each time it runs. Randomness is split into streams, one per concern, so that
// removing a fault leaves the other random choices alone. Raft draws its
// election timeouts from crypto/rand, so Run replaces that package's Reader,
// and only one World can run per process at a time.
//
// # What is checked
//
// After each step: no server forgets what it told another (the promise ledger);
// a term has one leader; no vote is given twice; an applied entry is on a
// quorum of disks; all servers apply the same entries and reach the same
// digest; no server stays behind with nothing in the way; a session begins once, is given
// to a connection once, and is ended too early neither by a new leader nor, if it is
// local, by its server; none of its requests is answered long after its end (X10); when a
// connection has ended, the server keeps nothing of it (leaks.go). At the end: all
// servers agree and make progress within 30 s of the last fault, exactly the servers that
// should have votes have them, and every reply that a client got follows from the one
// order of changes (package check). The rules in able.go judge servers while disks hang
// and loops stand. The lineages in which leaders are elected succeed each other, and the
// beginning of servers is judged by the state of all servers at that moment (lineage.go).
//
// # What the servers promise under which fault
//
//   - crashes, power cuts, lost connections, cuts, pauses, wrong clocks, on any
//     number of servers: nothing acknowledged is lost, no reply is wrong, and
//     service is back once there is a quorum;
//   - a failing disk: that server stops; nothing is lost;
//   - a disk that hangs or is slow, an Apply that takes long, a snapshot that is
//     loaded: nothing that waits for it is sent. While a majority works, it excuses only
//     that server, and only meanwhile (able.go);
//   - a disk with too little room: that server refuses writes, and accepts them
//     again by itself once there is room; if there is none at all, it may stop;
//   - bit rot on a minority: the server refuses to start, or has lost no more than
//     its last write, as after a crash;
//   - an fsync that lies, on a minority: only the promise ledger shows what the
//     server forgot, nothing on its own disk does. The server stays out;
//   - the loss of a disk, on a minority: the server joins again under its id. This also
//     follows the two faults above;
//   - the loss of a majority: an operator makes a new ensemble of a survivor that has
//     everything (recover.go);
//   - servers that begin, with any content of disks and lines: one ensemble, with all
//     existing data, or none while something is unknown;
//   - changes of membership under any of these: they come into force, and servers
//     that left don't count.
//
// A disk is lost, rots or lies only while the ensemble doesn't need it (World.spares).
package sim
