package follow

import (
	"errors"
	"fmt"
	"slices"

	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/learner"
)

// A copy is continued only with the ensemble that it was made of. At each connection, two things show that it is the
// same one:
//
//   - The leader has the copy's last transaction, byte by byte except for the digest: Apache's servers pass a
//     transaction on as they read it, but leave the digest out if digests are off. The follower says that it is one
//     transaction behind, so that the leader sends that transaction first. It holds the session, the time in
//     milliseconds, the operation and all data; by its zxid and the protocol, all transactions before it are the same
//     too. The only other ensemble that can have it was started on a copy of this ensemble's files, with that
//     transaction in them.
//   - The servers that the leader describes have an address in common with those of the copy. This is checked if the
//     leader no longer has that transaction and sends everything, or if the copy has only a snapshot.
//
// Other facts prove nothing: zxids and epochs, because every ensemble counts them from 1; Apache's dbid, which is the
// same in all ensembles; that the copy is up to date.

// lastTxn is the last transaction of a copy.
type lastTxn struct {
	record []byte // nil if it isn't known
	before int64  // the zxid before it
}

// errAnother says that the leader belongs to another ensemble than the copy. The follower doesn't retry after it.
var errAnother = errors.New("the copy belongs to another ensemble, or this ensemble's servers have lost data. Nothing was changed. Give a new directory")

// recognize compares the leader's first transaction with the copy's last one.
func (s *session) recognize(record []byte) error {
	if !files.SameTxn(record, s.expects) {
		return fmt.Errorf("the leader and the copy have different transactions with the zxid %#x (leader: %s; copy: %s): %w",
			uint64(s.f.state.Zxid), files.DescribeTxn(record), files.DescribeTxn(s.expects), errAnother)
	}
	s.expects = nil
	return nil
}

// known checks the servers that the leader describes before its state is taken over, and that it has sent the
// transaction that it must have.
func (s *session) known(config []byte) error {
	f := s.f
	if s.expects != nil {
		return fmt.Errorf("%w: it ends before zxid %#x", learner.ErrStartOver, uint64(f.state.Zxid))
	}
	if len(config) == 0 {
		return nil
	}
	members, _, err := learner.ParseConfig(string(config))
	if err != nil {
		return fmt.Errorf("read the leader's configuration: %w", err)
	}
	var addresses []string
	for _, m := range members {
		addresses = append(addresses, m.Quorum...)
	}
	before := f.keep.mine.Mark().Servers
	if len(before) > 0 && !slices.ContainsFunc(addresses, func(a string) bool { return slices.Contains(before, a) }) {
		return fmt.Errorf("the leader's servers are %v, but the copy's were %v: %w", addresses, before, errAnother)
	}
	return f.keep.fail(f.keep.mine.Follows(addresses))
}
