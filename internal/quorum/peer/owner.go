package peer

import (
	"fmt"

	"github.com/zooid-project/zooid/internal/storage"
)

// A data directory of an ensemble holds what one server has promised: how it voted, and which entries it has
// acknowledged. Another server that goes on with a copy of it hasn't promised that, and lacks what it has promised
// itself; entries that it has acknowledged may be gone with that. So the directory says whose it is.

// ownerName is the name of the kept file (storage.Dir.Keep) with the server's id. A file of another cluster id counts
// for nothing: recovery and founding give an ensemble a new id.
const ownerName = "server"

// The text of the file, and how it is read.
const (
	ownerText = "cluster %016x\nserver %d\n"
	ownerForm = "cluster %x\nserver %d\n"
)

// A CopiedError says that the data directory of server Self is a copy of server Owner's.
type CopiedError struct{ Owner, Self uint64 }

func (e *CopiedError) Error() string {
	return fmt.Sprintf("the data directory is a copy of server %d's, and this is server %d, which has promised other things: if its own directory is lost, start it with an empty one, and it joins; if it is server %d, correct its myid",
		e.Owner, e.Self, e.Owner)
}

// own makes dir, which belongs to a cluster, the directory of server id. The error is a CopiedError if it is another
// server's.
func own(dir *storage.Dir, cluster, id uint64) error {
	b, err := dir.Kept(ownerName)
	if err != nil {
		return fmt.Errorf("read whose data directory this is: %w", err)
	}
	var of, owner uint64
	if b != nil {
		if _, err := fmt.Sscanf(string(b), ownerForm, &of, &owner); err != nil || owner == 0 {
			return &storage.DamageError{
				File: ownerName + ".kept",
				Reason: fmt.Sprintf("want the form %q, found %q; without the file, the directory is taken for this server's",
					ownerText, b),
			}
		}
	}
	switch {
	case of == cluster && owner == id:
		return nil
	case of == cluster && b != nil:
		return &CopiedError{Owner: owner, Self: id}
	}
	if err := dir.Keep(ownerName, fmt.Appendf(nil, ownerText, cluster, id)); err != nil {
		return fmt.Errorf("record whose data directory this is: %w", err)
	}
	return nil
}
