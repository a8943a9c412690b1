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
// After each step: no server forgets what it told another (the promise ledger),
// one leader per term, an entry applied is on a quorum of disks, all servers
// apply the same entries and reach the same digest. At the end: everybody agrees
// and makes progress within 30 s of the last fault, and every reply every client
// got follows from the one order of changes (package check).
//
// # What the servers promise under which fault
//
//   - crashes, power cuts, lost connections, cuts, pauses, wrong clocks, of any
//     number of servers: nothing acknowledged is lost, no reply is wrong, and
//     service is back once a quorum is;
//   - a failing or full disk: that server stops; nothing is lost;
//   - bit rot or an fsync that lies, on a minority: the server refuses to start,
//     or what it forgot shows only in the promise ledger, which nothing on its
//     own disk can tell. It then stays out, as after the loss of a disk. The
//     others never notice.
package sim
