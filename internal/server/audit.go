package server

import (
	"crypto/sha256"
	"encoding/hex"
	"net"
	"strings"

	"github.com/zooid-project/zooid/internal/audit"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Audit says what is audited: what Apache audits, and more. The comments name the keys of zoo.cfg.
type Audit struct {
	Log      *audit.Log
	User     string // the user that this server runs as; it deletes the znodes of sessions that end
	Reads    bool   // audit.reads: requests that change nothing, but pings
	Logins   bool   // audit.logins
	Refusals bool   // audit.refusals: what was refused without being tried, reads that an ACL forbids
	Hashes   bool   // audit.hashes: of data before and after each change
}

// An auditor makes entries of what the replica does. As at Apache, the server that a client is connected to audits its
// writes, when they are answered, and every server the end of each session's ephemeral znodes. A write whose client
// has left meanwhile is audited all the same.
type auditor struct {
	Audit
	// firstCnx is less than the id of each connection of this run, and has this server's id in its high byte.
	firstCnx int64
	// The following belong to the goroutine that applies.
	changes []change // by the request being applied
	staged  asked    // the reconfig under way, if it was asked for here
}

// A change is one of a znode's data; a hash is "" for what doesn't exist.
type change struct{ path, before, after string }

// asked is who asked for what.
type asked struct {
	cnx, seq int64
	entry    audit.Entry
}

func newAuditor(o *Audit, firstCnx int64) *auditor {
	if o == nil {
		return nil
	}
	return &auditor{Audit: *o, firstCnx: firstCnx}
}

// counts are the lines that were written and lost.
func (a *auditor) counts() map[string]float64 {
	written, lost := a.Log.Counts()
	return map[string]float64{"written": float64(written), "lost": float64(lost)}
}

// changing returns what is to see each change of data, nil for nobody.
func (a *auditor) changing() func(path string, before, after []byte) {
	if a == nil || !a.Hashes {
		return nil
	}
	return func(path string, before, after []byte) {
		a.changes = append(a.changes, change{strings.Clone(path), hashOf(before), hashOf(after)})
	}
}

// hashOf returns the SHA-256 of data. A znode without data counts as one that doesn't exist.
func hashOf(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// observed sees each request that is applied.
func (s *Server) observed(res *tree.Result) {
	if s.opt.observe != nil {
		s.opt.observe(res)
	}
	a := s.auditor
	a.applied(res, s.replica)
	if a.changes = a.changes[:0]; cap(a.changes) > changesKeep {
		a.changes = nil
	}
}

// changesKeep is the most changes whose memory is kept for the next requests.
const changesKeep = 1024

func (a *auditor) applied(res *tree.Result, r *replica.Replica) {
	if res.Closed && !r.Replaying() {
		a.sessionEnded(res)
	}
	if res.Session == 0 || res.Cnx>>56 != a.firstCnx>>56 || res.Cnx < a.firstCnx {
		return
	}
	switch {
	case res.Outcome == tree.Staged:
		a.staged = asked{res.Cnx, res.Seq, a.entryOf(res.Session, res.Request.Identities)}
		for i, user := range a.staged.entry.Users {
			a.staged.entry.Users[i] = strings.Clone(user)
		}
		a.staged.entry.IP = strings.Clone(a.staged.entry.IP)
	case res.Outcome == tree.Applied:
		a.written(res)
	}
}

// sessionEnded audits the deletion of its znodes.
func (a *auditor) sessionEnded(res *tree.Result) {
	for i := range res.Events {
		if res.Events[i].Type != jute.EventNodeDeleted {
			continue
		}
		e := audit.Entry{Session: res.Session, Users: []string{a.User}, Operation: audit.EphemeralsGoing, Result: audit.Success}
		a.write(&e, res.Events[i].Path)
	}
}

// entryOf returns an entry that says who did something.
func (a *auditor) entryOf(session int64, ids []jute.ID) audit.Entry {
	e := audit.Entry{Session: session, Users: make([]string, 0, len(ids)), Result: audit.Success}
	for _, id := range ids {
		name := auth.UserName(id)
		if strings.TrimSpace(name) != "" {
			e.Users = append(e.Users, name)
		}
		if id.Scheme == "ip" {
			e.IP = id.ID
		}
	}
	return e
}

// write writes an entry about a znode, with the hashes of its data.
func (a *auditor) write(e *audit.Entry, path string) {
	e.Znode = path
	if e.Result == audit.Success {
		for i, c := range a.changes {
			if c.path == path {
				e.Before, e.After = c.before, c.after
				a.changes[i].path = "" // a multi may change it again
				break
			}
		}
	}
	a.Log.Write(e)
}

// written audits a client's write.
func (a *auditor) written(res *tree.Result) {
	if res.Op == jute.OpMulti {
		a.multi(res)
		return
	}
	e := a.entryOf(res.Session, res.Request.Identities)
	if res.Err != jute.OK {
		e.Result = audit.Failure
	}
	d := jute.NewDecoder(res.Request.Body)
	path := ""
	switch res.Op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL:
		var req jute.CreateRequest
		req.Decode(d)
		e.Operation, e.ZnodeType = audit.Create, typeOf(req.Flags)
		if path = req.Path; res.Err == jute.OK {
			path = res.Path
		}
	case jute.OpDelete:
		e.Operation, path = audit.Delete, d.String()
	case jute.OpSetData:
		e.Operation, path = audit.SetData, d.String()
	case jute.OpSetACL:
		var req jute.SetACLRequest
		req.Decode(d)
		e.Operation, path, e.ACL = audit.SetACL, req.Path, aclText(req.ACL)
	case jute.OpReconfig:
		if res.Request.Op != jute.OpReconfig { // it is the last step's that answers it
			e = audit.Entry{Session: res.Session, Result: e.Result}
			if s := &a.staged; s.cnx == res.Cnx && s.seq == res.Seq {
				e.Users, e.IP = s.entry.Users, s.entry.IP
			}
		}
		if e.Operation = audit.Reconfig; res.Err == jute.OK {
			path = configPath
		}
	default:
		return
	}
	a.write(&e, path)
}

// configPath is the znode that a reconfig changes.
const configPath = "/zookeeper/config"

// multi audits each operation of one that succeeded. Like Apache it tells no type of sequential znodes, nor of those
// with a time to live.
func (a *auditor) multi(res *tree.Result) {
	e := a.entryOf(res.Session, res.Request.Identities)
	ops, err := jute.DecodeMulti(jute.NewDecoder(res.Request.Body))
	if res.Err != jute.OK || err != nil || len(ops) > 0 && len(res.Multi) > 0 && res.Multi[0].Op == jute.OpError {
		e.Operation, e.Result = audit.Multi, audit.Failure
		a.write(&e, "")
		return
	}
	for i := range min(len(ops), len(res.Multi)) {
		o := &ops[i]
		one := e
		switch o.Op {
		case jute.OpCheck:
			continue
		case jute.OpDelete:
			one.Operation = audit.Delete
		case jute.OpSetData:
			one.Operation = audit.SetData
		default:
			if one.Operation = audit.Create; !o.Flags.Sequential() && !o.Flags.TTL() {
				one.ZnodeType = typeOf(o.Flags)
			}
			a.write(&one, res.Multi[i].Path)
			continue
		}
		a.write(&one, o.Path)
	}
}

// typeOf is a mode as Apache's audit log calls it.
func typeOf(m jute.CreateMode) string {
	switch m {
	case jute.ModePersistent:
		return "persistent"
	case jute.ModeEphemeral:
		return "ephemeral"
	case jute.ModePersistentSequential:
		return "persistent_sequential"
	case jute.ModeEphemeralSequential:
		return "ephemeral_sequential"
	case jute.ModeContainer:
		return "container"
	case jute.ModePersistentWithTTL:
		return "persistent_with_ttl"
	case jute.ModePersistentSequentialWithTTL:
		return "persistent_sequential_with_ttl"
	}
	return "invalid"
}

// aclText is an ACL as Apache's audit log has it: nothing stands between its entries. Unlike there, the hashes of
// passwords are masked.
func aclText(acl []jute.ACL) string {
	var b strings.Builder
	for _, entry := range auth.Mask(acl) {
		perms := ""
		if known := entry.Perms & jute.PermAll; known != 0 {
			perms = known.String()
		}
		b.WriteString(entry.ID.Scheme + ":" + entry.ID.ID + ":" + perms)
	}
	return b.String()
}

// answers returns what is to see requests that are no writes, nil for nobody.
func (a *auditor) answers() func(c *replica.Client, op jute.Op, body []byte, code jute.Code, how replica.Became) {
	if a == nil || !a.Reads && !a.Logins && !a.Refusals {
		return nil
	}
	return a.answered
}

// answered audits a read, a login, or a request that was refused.
func (a *auditor) answered(c *replica.Client, op jute.Op, body []byte, code jute.Code, how replica.Became) {
	scheme, refused := "", how == replica.Refused
	switch login := op == jute.OpAuth || op == jute.OpSASL; {
	case op == jute.OpPing || op == jute.OpCloseSession:
		return
	case login && !a.Logins:
		return
	case !login && !a.Reads && !(a.Refusals && (refused || code == jute.ErrNoAuth)):
		return
	case !login && refused && !a.Refusals:
		return
	case op == jute.OpAuth:
		var p jute.AuthPacket
		p.Decode(jute.NewDecoder(body))
		scheme = p.Scheme
	case op == jute.OpSASL:
		scheme = "sasl"
	}
	e := a.entryOf(c.Session(), c.Identities())
	e.Scheme, e.Operation = scheme, op.String()
	if op == jute.OpError {
		e.Operation = "unknown"
	}
	switch {
	case how == replica.Undecided:
		e.Result = audit.Undecided
	case code != jute.OK:
		e.Result, e.Error = audit.Failure, code.String()
	}
	if op.HasPath() {
		e.Znode = jute.NewDecoder(body).String()
	}
	a.Log.Write(&e)
}

// turnedAway audits a connection that was refused.
func (a *auditor) turnedAway(remote, why string) {
	if a == nil || !a.Refusals {
		return
	}
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		host = remote
	}
	a.Log.Write(&audit.Entry{IP: host, Operation: "connect", Result: audit.Failure, Error: why})
}
