// Package learner speaks the learner's half of Apache ZooKeeper's quorum protocol, as an observer does: it
// gets everything that an ensemble commits, and has no vote.
//
// It computes: packets go in, packets and changes come out. Sockets and files are the caller's.
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
// A leader is believed what it commits, and nothing else: each length has a limit, each packet its
// place, zxids go up one by one.
package learner
