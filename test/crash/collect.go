package crash

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/internal/storage"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// A Collector reads one server's log from copies of its data directory made
// while its process is down, so that the check of the history need not guess
// which unanswered writes happened. Committed entries never change, so it
// continues where it stopped, and reads again and again before the server
// purges what a snapshot covers.
type Collector struct {
	// BodyMax, if not 0, is the length of the longest request that is recorded.
	// Clients whose history is checked send no longer ones.
	BodyMax int

	server int32
	tree   *tree.Tree
	next   uint64 // index of the next entry to read
	gap    bool   // something was purged before it was read
	list   []history.Entry
}

// NewCollector returns a Collector for a server that has read nothing yet.
func NewCollector(server int) *Collector {
	return &Collector{server: int32(server), tree: tree.New(tree.Options{}), next: 1}
}

// Read reads the committed entries in the directories of a server that is down. If
// all is set, the servers are at rest, and everything in the log is committed.
func (c *Collector) Read(dirs []string, all bool) error {
	if c.gap {
		return nil
	}
	dir, err := os.MkdirTemp("", "zooid-crash-log-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	for _, from := range dirs {
		if err := copyData(from, dir); err != nil {
			return err
		}
	}
	cluster, err := storage.ReadIdentity(storage.OS{}, dir, "")
	if err != nil {
		return err
	}
	d, err := storage.Open(storage.Options{Dir: dir, ClusterID: cluster, Space: storage.SpaceLimits{ReserveBytes: -1}})
	if err != nil {
		return fmt.Errorf("read the log of server %d: %w", c.server, err)
	}
	defer d.Close()
	return c.take(d, all)
}

func (c *Collector) take(d *storage.Dir, all bool) error {
	log := d.Log()
	skips, err := d.Skips()
	if err != nil {
		return err
	}
	first, err := log.FirstIndex()
	if err != nil {
		return err
	}
	last, err := log.LastIndex()
	if err != nil {
		return err
	}
	if !all {
		hard, _, err := log.InitialState()
		if err != nil {
			return err
		}
		last = min(last, hard.GetCommit())
	}
	if first > c.next {
		c.gap = true
		return nil
	}
	const perRead = 16 << 20
	for c.next <= last {
		entries, err := log.Entries(c.next, last+1, perRead)
		if err != nil {
			return fmt.Errorf("read the log of server %d at index %d: %w", c.server, c.next, err)
		}
		for _, e := range entries {
			// Type 0 is a normal entry; others change the membership.
			data := e.GetData()
			if e.GetType() != 0 ||
				slices.ContainsFunc(skips, func(s storage.Skip) bool { return s.Agreed && s.Index == e.GetIndex() }) {
				data = nil
			}
			if err := c.entry(e.GetTerm(), e.GetIndex(), data); err != nil {
				return fmt.Errorf("evaluate entry %d of server %d: %w", e.GetIndex(), c.server, err)
			}
			c.next = e.GetIndex() + 1
		}
	}
	return nil
}

// entryHead is the size of the fields before the batch in an entry: an index and a digest.
const entryHead = 16

// entry evaluates one log entry as the server did.
func (c *Collector) entry(term, index uint64, data []byte) error {
	if len(data) == 0 {
		return c.tree.NewTerm(term, index)
	}
	batch := data[entryHead:]
	records := tree.NewRecords(batch)
	var q tree.Request
	return c.tree.Apply(term, index, batch, func(res *tree.Result) {
		records.Next(&q)
		if res.Outcome != tree.Applied || res.Op == tree.OpAttach || res.Op == tree.OpEnter || res.Op == tree.OpSettings ||
			res.Op == tree.OpSecret || res.Op == tree.OpLineage || res.Zxid == 0 {
			return
		}
		if c.BodyMax > 0 && len(q.Body) > c.BodyMax {
			return
		}
		e := history.Entry{
			Zxid: res.Zxid, Session: q.Session, Cnx: q.Cnx, Seq: q.Seq, Time: res.Time, Term: int64(term),
			Digest: c.tree.Digest(),
			Body:   append([]byte(nil), q.Body...), Xid: q.Xid, Op: q.Op, Err: res.Err, Applied: true,
		}
		if e.Op == tree.OpExpire {
			e.Op, e.Cnx = jute.OpCloseSession, 0
		}
		c.list = append(c.list, e)
	})
}

// Record writes the entries read to the journal, and reports whether they are the whole
// log.
func (c *Collector) Record(j *history.Journal) bool {
	if c.gap {
		return false
	}
	for i := range c.list {
		j.Entry(c.server, &c.list[i])
	}
	return true
}

// copyData copies a data directory except for files that don't matter.
func copyData(from, to string) error {
	list, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, f := range list {
		if !f.Type().IsRegular() || strings.HasPrefix(f.Name(), "spare-") || f.Name() == "reserve" {
			continue
		}
		if err := copyFile(filepath.Join(from, f.Name()), filepath.Join(to, f.Name())); err != nil {
			return err
		}
	}
	return nil
}

func copyFile(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.OpenFile(to, os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := io.Copy(out, in); err != nil {
		out.Close()
		return err
	}
	return out.Close()
}
