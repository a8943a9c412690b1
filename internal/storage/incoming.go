package storage

// Incoming takes the files of peers' snapshots. If a transfer breaks off, it keeps the part that has arrived, in case
// the sender resumes the transfer. The zero Incoming has no part. Only one goroutine at a time may use it.
type Incoming struct{ part *Part }

// A Part is what has arrived of a peer's snapshot.
type Part struct {
	*SnapshotWriter
	index, term uint64
	size        int64
}

// Resume returns the part of a snapshot that is kept, or begins a new one.
func (i *Incoming) Resume(d *Dir, index, term uint64, size int64) (*Part, error) {
	p, lacks := i.part, size
	i.part = nil
	if p != nil && p.index == index && p.term == term && p.size == size {
		lacks -= p.Offset()
	} else if p != nil {
		if err := p.Abort(); err != nil {
			return nil, err
		}
		p = nil
	}
	err := d.RoomFor(lacks)
	if err != nil {
		i.part = p
	} else if p == nil {
		p = &Part{index: index, term: term, size: size}
		p.SnapshotWriter, err = d.ReceiveSnapshot()
	}
	return p, err
}

// Keep keeps a part for the sender's next attempt, in place of the one kept before. If p is nil, it keeps none.
func (i *Incoming) Keep(p *Part) {
	if i.part != nil {
		i.part.Abort()
	}
	i.part = p
}
