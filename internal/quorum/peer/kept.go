package peer

import (
	"fmt"
	"strings"

	"github.com/zooid-project/zooid/internal/storage"
)

// A keptNumber is a number that a data directory keeps in a file of its own (storage.Dir.Keep), with the id of its
// cluster. A file of another cluster is ignored: recovery and founding give an ensemble a new id.
type keptNumber struct {
	name    string // of the file
	text    string // of the file, with a verb for the cluster and one for the number
	without string // what happens without the file, for an error about a damaged one
}

// read returns the number that dir keeps for a cluster, or 0 if there is none.
func (k *keptNumber) read(dir *storage.Dir, cluster uint64) (number uint64, err error) {
	b, err := dir.Kept(k.name)
	if err != nil || b == nil {
		return 0, err
	}
	var of uint64
	form := strings.ReplaceAll(k.text, "%016x", "%x")
	if _, err := fmt.Sscanf(string(b), form, &of, &number); err != nil || number == 0 {
		return 0, &storage.DamageError{
			File:   k.name + ".kept",
			Reason: fmt.Sprintf("want the form %q, found %q; without the file, %s", k.text, b, k.without),
		}
	}
	if of != cluster {
		return 0, nil
	}
	return number, nil
}

// write makes dir keep a number for a cluster.
func (k *keptNumber) write(dir *storage.Dir, cluster, number uint64) error {
	return dir.Keep(k.name, fmt.Appendf(nil, k.text, cluster, number))
}
