// Package learner implements the learner's half of Apache ZooKeeper's quorum protocol for an observer, which receives
// all that an ensemble commits and has no vote.
//
// The package does no I/O: packets go in, packets and changes come out. The caller owns sockets and files.
//
//	learner                                leader
//	OBSERVERINFO acceptedEpoch<<32    ->
//	                                  <-   LEADERINFO epoch<<32
//	ACKEPOCH last zxid, currentEpoch  ->
//	                                  <-   DIFF, TRUNC or SNAP with a snapshot behind it
//	                                  <-   (PROPOSAL, COMMIT)*, INFORM*    what is missing
//	                                  <-   NEWLEADER epoch<<32, the configuration
//	ACK epoch<<32                     ->
//	                                  <-   UPTODATE
//	ACK epoch<<32                     ->
//	                                  <-   INFORM*, INFORMANDACTIVATE*, PING*
//	PING                              ->
//
// The leader is trusted about what it commits, and about nothing else: each length has a limit, packets must arrive in
// order, and zxids must be consecutive.
package learner
