package proof

import (
	"errors"
	"fmt"
)

// An Answer is what the server that answers at a configuration's addresses says about itself.
type Answer struct {
	Version string   // its own; that of Zooid has "-zooid-" in it. "" if the version wasn't asked for
	Zooid   bool     // it is a Zooid server
	Lineage uint64   // id of the history in its data directory; 0 if it doesn't tell
	Zxid    int64    // of the last change that it has applied
	Reasons []string // why it doesn't serve clients; none if it does
}

// ErrOther says that the server that answers isn't the one that is to serve.
var ErrOther = errors.New("another server answers")

// Serves returns why the server that answers isn't yet the one that is to serve, which has the history of its directory
// and at least the zxid that was copied. If the server doesn't tell its lineage, Serves calls held, which reports
// whether a process has the lock of that directory. Serves calls it only then, because held takes the lock for a
// moment, which would keep a server from starting.
func (s *Answer) Serves(lineage uint64, zxid int64, held func() (bool, error)) error {
	switch {
	case !s.Zooid:
		return fmt.Errorf("%w: it isn't a Zooid server (its version is %q). Something has started Apache on these ports again",
			ErrOther, s.Version)
	case len(s.Reasons) > 0:
		return errors.New(s.Reasons[0])
	case s.Lineage != 0 && s.Lineage != lineage:
		return fmt.Errorf("%w: its data has the lineage %016x, but the new directory has %016x", ErrOther, s.Lineage,
			lineage)
	case s.Zxid < zxid:
		return fmt.Errorf("it is at zxid %#x, but the copy was at %#x", uint64(s.Zxid), uint64(zxid))
	}
	if s.Lineage != 0 {
		return nil
	}
	running, err := held()
	if err == nil && !running {
		err = fmt.Errorf("%w: no process uses the new directory", ErrOther)
	}
	return err
}
