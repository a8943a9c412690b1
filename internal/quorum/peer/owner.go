package peer

import (
	"fmt"
	"time"

	"github.com/zooid-project/zooid/internal/storage"
)

// A data directory of an ensemble holds one server's promises: its votes and the entries that it has acknowledged.
// Another server that continues with a copy of it hasn't made these promises, and lacks its own: entries that it has
// acknowledged may be lost. So the directory names its owner.
//
// The file is written before the server promises anything. Only one kind of directory may be in use without the file:
// an earlier version's, on a disk without room for the file when this version starts on it. Without the server its
// ensemble may lack a quorum, and earlier versions couldn't detect a copy of the directory either. So the server
// continues, logs that, and writes the file as soon as there is room.

// keptOwner is the file with the server's id.
var keptOwner = &keptNumber{
	name: "server", text: "cluster %016x\nserver %d\n", without: "the directory is taken for this server's",
}

// A CopiedError says that the data directory of server Self is a copy of server Owner's.
type CopiedError struct{ Owner, Self uint64 }

func (e *CopiedError) Error() string {
	return fmt.Sprintf("the data directory is a copy of server %d's, and this is server %d, which has promised other things: if its own directory is lost, start it with an empty one, and it joins; if it is server %d, correct its myid",
		e.Owner, e.Self, e.Owner)
}

// ownPause is the time between two attempts to write the file of a directory in use.
const ownPause = time.Second

// checkOwner reports whether dir, which belongs to a cluster, names server id as its owner. The error is a CopiedError
// if dir names another server.
func checkOwner(dir *storage.Dir, cluster, id uint64) (recorded bool, err error) {
	switch owner, err := Owner(dir, cluster); {
	case err != nil:
		return false, err
	case owner == 0:
		return false, nil
	case owner != id:
		return false, &CopiedError{Owner: owner, Self: id}
	}
	return true, nil
}

// Owned reports whether a log's directory names an owner, as that of a server of an ensemble does.
func Owned(logDir string) (bool, error) {
	b, err := storage.KeptBefore(storage.OS{}, logDir, keptOwner.name)
	return b != nil, err
}

// Owner returns the server that dir, which belongs to a cluster, names as its owner; 0 if it names none.
func Owner(dir *storage.Dir, cluster uint64) (uint64, error) {
	id, err := keptOwner.read(dir, cluster)
	if err != nil {
		err = fmt.Errorf("read whose data directory this is: %w", err)
	}
	return id, err
}

// recordOwner makes dir name server id as its owner.
func recordOwner(dir *storage.Dir, cluster, id uint64) error {
	if err := keptOwner.write(dir, cluster, id); err != nil {
		return fmt.Errorf("record whose data directory this is: %w", err)
	}
	return nil
}

// own makes this server the directory's owner at the start. last is the index of the log's last entry.
func (p *Peer) own(last uint64) error {
	if len(p.o.Members) <= 1 { // a standalone server's directory may be copied: it holds no promise to another server
		return nil
	}
	recorded, err := checkOwner(p.o.Dir, p.o.Cluster, p.o.ID)
	if err != nil || recorded {
		return err
	}
	if err = recordOwner(p.o.Dir, p.o.Cluster, p.o.ID); last == 0 || !storage.NoRoom(err) {
		return err
	}
	p.notOwned(err)
	return nil
}

// ownLater tries again to write the file that own could not write.
func (p *Peer) ownLater() {
	if p.ownAgain.IsZero() || time.Now().Before(p.ownAgain) {
		return
	}
	if err := recordOwner(p.o.Dir, p.o.Cluster, p.o.ID); err != nil {
		p.notOwned(err)
		return
	}
	p.ownAgain = time.Time{}
	p.o.Log.Info("the data directory says now whose it is", "server", p.o.ID)
}

func (p *Peer) notOwned(err error) {
	now := time.Now()
	p.ownAgain = now.Add(ownPause)
	if p.transport.logRate.Due("own", now) {
		p.o.Log.Warn("the file that records the owner of this data directory can't be written; it will be tried again. Until then, start no other server on a copy of the directory",
			"server", p.o.ID, "err", err)
	}
}
