// Package sim runs whole ensembles of the real server on virtual time, network
// and disks, from one seed, and checks everything they do.
//
// What runs is production code: quorum.Loop on a storage.Dir with the server's
// replica and its clients' bytes. What is simulated is the shell around it
// (life, the clocks, the goroutines), the peers' connections (link), the
// clients' connections (conn), the disks (storage.MemFS with faults) and the
// clients themselves.
//
// Everything happens in one goroutine, in the order of a queue of events by time,
// so a seed names one course of things: a World is the same, bit for bit, each
// time it runs. Randomness is split into streams, one per concern, so that
// taking a fault away leaves the dice of the others alone. Raft draws its election
// timeouts from crypto/rand, so Run replaces that package's Reader: one World
// runs per process at a time.
//
// # What is checked
//
// After each step: no server forgets what it told another (the promise
// ledger), one leader per term, no vote given twice, an entry applied is on a
// quorum of disks, all servers apply the same entries and reach the same
// digest, nobody stays behind with nothing in the way; a session begins once,
// is given to a connection once, and ends too early neither by a new leader
// nor, a local one, by its server. At the end: everybody agrees and makes
// progress within 30 s of the last fault, those vote who are to, and every
// reply every client got follows from the one order of changes (package
// check).
//
// # What the servers promise under which fault
//
//   - crashes, power cuts, lost connections, cuts, pauses, wrong clocks, of any
//     number of servers: nothing acknowledged is lost, no reply is wrong, and
//     service is back once a quorum is;
//   - a failing disk: that server stops; nothing is lost;
//   - a disk with too little room: that server refuses writes, and accepts them
//     again by itself once there is room; with none at all it may stop;
//   - bit rot on a minority: the server refuses to start, or has lost no more than
//     what it wrote last, which looks like a crash's work;
//   - an fsync that lies, on a minority: what the server forgot shows only in the
//     promise ledger, which nothing on its own disk can tell. It stays out;
//   - the loss of a disk, on a minority: the server joins anew under its id. So it
//     goes on after the two above, too;
//   - changes of membership under any of that: they come into force, and those that
//     left don't count.
//
// A disk is lost, rots or lies only while the ensemble can do without (World.spares).
package sim
