package follow

import (
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
)

// Ensemble is the ensemble that a follower follows, as the leader described it.
type Ensemble struct {
	Members []learner.Member
	Version int64 // of the configuration
	// Weighted says that servers have weights or groups, so that a majority of them may not be a quorum.
	Weighted bool
}

// Ensemble returns the followed ensemble.
func (f *Follower) Ensemble() Ensemble {
	f.mu.RLock()
	defer f.mu.RUnlock()
	return Ensemble{slices.Clone(f.members), f.version, f.weighted}
}

// View calls see with the state between two transactions, which wait for it, and the highest epoch that was promised to
// a leader. see must not keep the state.
func (f *Follower) View(see func(s *files.State, epoch int64) error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.state.Complete()
	return see(f.state, f.accepted)
}

// Extend applies the rest of what a stopped server had logged: the transactions that the leader had no time to send.
// Run must have returned. The tail must continue the followed history.
//
// The records aren't stored in the directory: Apache's servers have them.
func (f *Follower) Extend(tail *files.Tail) (added int, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.state
	if tail.Last < s.Zxid || tail.After > s.Zxid {
		return 0, fmt.Errorf("the log ends at zxid %#x, its tail begins after %#x, and the copy is at %#x, which was committed: their histories differ",
			uint64(tail.Last), uint64(tail.After), uint64(s.Zxid))
	}
	if f.at.Mismatch != nil {
		return 0, fmt.Errorf("the digests differ since zxid %#x", uint64(f.at.Mismatch.Zxid))
	}
	joined := tail.After == s.Zxid
	if err := tail.Each(func(record []byte) error {
		zxid, err := files.TxnZxid(record)
		joined = joined || zxid == s.Zxid
		switch {
		case err != nil:
			return err
		case zxid <= s.Zxid:
			return nil
		case !joined:
			return fmt.Errorf("the log goes from before zxid %#x, which was committed, to %#x after it: their histories differ",
				uint64(s.Zxid), uint64(zxid))
		}
		added++
		return f.extend(zxid, record)
	}); err != nil {
		return added, err
	}
	if s.Zxid != tail.Last {
		return added, fmt.Errorf("the log should end at zxid %#x, but its transactions end at %#x", uint64(tail.Last),
			uint64(s.Zxid))
	}
	f.accepted = max(f.accepted, tail.Accepted)
	return added, nil
}

// extend applies the next transaction of a tail. The caller holds the lock.
func (f *Follower) extend(zxid int64, record []byte) error {
	s := f.state
	switch {
	case zxid != s.Zxid+1 && !(zxid>>32 > s.Zxid>>32 && zxid&0xffffffff == 1):
		return fmt.Errorf("zxid %#x follows %#x in the log: the transactions between them are missing", uint64(zxid),
			uint64(s.Zxid))
	case files.ConfigIn(record) != nil:
		return fmt.Errorf("the transaction of zxid %#x changes the ensemble's servers, so the quorum is unknown",
			uint64(zxid))
	}
	done, err := s.Apply(record)
	if err != nil || !done.Compared {
		return err
	}
	f.at.Compared++
	if here := s.Digest(); here != done.Digest {
		f.at.Mismatch = &Mismatch{zxid, done.Digest, here}
		return fmt.Errorf("the digests differ at zxid %#x: the log's is %#x, the copy's is %#x", uint64(zxid),
			done.Digest, here)
	}
	return nil
}
