package tree

import (
	"strconv"

	"github.com/zooid-project/zooid/jute"
)

// reconfig evaluates a client's reconfig as a server alone does. An ensemble
// never puts one into the log: its leader checks the request, changes the
// membership, and ApplyConfig follows.
func (t *Tree) reconfig(*jute.Decoder) jute.Code {
	if !t.settings.ReconfigEnabled {
		return jute.ErrReconfigDisabled
	}
	return jute.ErrUnimplemented
}

// ApplyConfig applies the log entry at (term, index) that changed the
// membership, at the time ms of the leader: it takes a zxid and stores members
// (lines of server.N=...), followed by a line version= with that zxid in
// hexadecimal, as the data of /zookeeper/config. The znode's version is always
// -1, and its ACL is not asked. visit, which may be nil, gets the result of a
// reconfig.
func (t *Tree) ApplyConfig(term, index uint64, ms int64, members string, visit func(*Result)) error {
	if err := t.follow(term, index, ms); err != nil {
		return err
	}
	t.request = Request{Op: jute.OpReconfig}
	r := &t.result
	r.reset(&t.request)
	r.Zxid = t.nextZxid()
	if members != "" && members[len(members)-1] != '\n' {
		members += "\n"
	}
	r.Data = strconv.AppendUint([]byte(members+"version="), uint64(r.Zxid), 16)
	r.Stat = t.changeData(t.find(pathConfig), pathConfig, r.Data, -1, r)
	if visit != nil {
		visit(r)
	}
	return nil
}
