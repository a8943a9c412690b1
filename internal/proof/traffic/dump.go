package traffic

import (
	"fmt"
	"io"

	"github.com/zooid-project/zooid/internal/proof/history"
	"github.com/zooid-project/zooid/jute"
)

// Dump records every znode of a server that has come to rest, for example after a restart, for the rule durability. It
// reads over its own connection and session, which the journal doesn't record. server is the server's number in the
// history. who identifies the reader: ACLs may hide znodes from all but a super user. The server must not change
// meanwhile. Unless everything could be read, nothing is recorded.
func Dump(addr string, server int32, who ClientOptions, j *history.Journal) error {
	c := NewClient(history.NewJournal(io.Discard), who, addr)
	if err := c.Connect(); err != nil {
		return fmt.Errorf("dump server %d: %w", server, err)
	}
	defer c.Close()
	var found []history.Event
	paths := []string{"/"}
	for len(paths) > 0 {
		path := paths[0]
		paths = paths[1:]
		q := jute.PathWatchRequest{Path: path}
		data, err := c.Do(jute.OpGetData, q.Append(nil))
		if err != nil {
			return fmt.Errorf("dump server %d: read %s: %w", server, path, err)
		}
		list, err := c.Do(jute.OpGetChildren, q.Append(nil))
		if err != nil {
			return fmt.Errorf("dump server %d: list %s: %w", server, path, err)
		}
		if data.Err != jute.OK || list.Err != jute.OK {
			return fmt.Errorf("dump server %d: %s can't be read: %w; dump as one who may read everything", server, path,
				max(data.Err, list.Err))
		}
		found = append(found,
			history.Event{
				Kind: history.KindDump, Conn: server, Zxid: data.Zxid, Body: append(jute.AppendString(nil, path), data.Body...),
			})
		if path == "/" {
			path = ""
		}
		for _, name := range jute.NewDecoder(list.Body).Strings() {
			paths = append(paths, path+"/"+name)
		}
	}
	for _, e := range found {
		j.Record(e)
	}
	return nil
}
