package proposals

import (
	"encoding/binary"

	"github.com/zooid-project/zooid/internal/tree"
)

// DigestSize is the size of the fields before the tree's batch in a log entry: the index of an
// earlier entry and the digest of the leader's state after that entry (D16).
//
//	entry := long index | long digest | batch
const DigestSize = 16

// HeadSize is the size of an entry's head, before the requests.
var HeadSize = len(AppendHead(nil, 0, 0, 0))

// AppendHead appends the head of an entry: the batch's time (ms since 1970), and the digest of the state after the
// entry with that index.
func AppendHead(b []byte, time int64, index, digest uint64) []byte {
	b = binary.BigEndian.AppendUint64(b, index)
	b = binary.BigEndian.AppendUint64(b, digest)
	return tree.AppendBatchHeader(b, time)
}
