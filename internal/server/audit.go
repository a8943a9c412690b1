package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"github.com/zooid-project/zooid/internal/audit"
	"github.com/zooid-project/zooid/internal/auth"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// Audit selects the audited requests: all that Apache audits, and more. The comments name the keys of zoo.cfg.
type Audit struct {
	Log      *audit.Log
	User     string // the user that this server runs as; the deletion of znodes of ended sessions is attributed to it
	Reads    bool   // audit.reads: requests that change nothing, except pings
	Logins   bool   // audit.logins
	Refusals bool   // audit.refusals: requests refused without being tried, and reads that an ACL forbids
	Hashes   bool   // audit.hashes: hashes of data before and after each change
}

// An auditor writes audit entries about the replica's work. As in Apache, a client's writes are audited when they are
// answered, by the server that the client is connected to; every server audits the end of each session's ephemeral
// znodes. A write is audited even if its client has disconnected.
type auditor struct {
	Audit
	// firstCnx is smaller than the id of any connection of this run, and has this server's id in its high byte.
	firstCnx int64
	vouched  func(id jute.ID, beside []jute.ID) bool
	// The following are owned by the goroutine that applies entries.
	changes []change // changes by the request being applied
	staged  asked    // the reconfig under way, if a client of this server requested it
}

// A change is a change of a znode's data; a hash is "" if the znode doesn't exist or has no data.
type change struct{ path, before, after string }

// asked records the origin of a request.
type asked struct {
	cnx, seq int64
	entry    audit.Entry
}

func newAuditor(o *Audit, firstCnx int64, vouched func(jute.ID, []jute.ID) bool) *auditor {
	if o == nil {
		return nil
	}
	return &auditor{Audit: *o, firstCnx: firstCnx, vouched: vouched}
}

// counts returns how many lines were written, how many were lost, and how many failures were omitted.
func (a *auditor) counts() map[string]float64 {
	written, lost, leftOut := a.Log.Counts()
	return map[string]float64{"written": float64(written), "lost": float64(lost), "left_out": float64(leftOut)}
}

// changing returns the function to call for each change of data, or nil if none is needed.
func (a *auditor) changing() func(path string, before, after []byte) {
	if a == nil || !a.Hashes {
		return nil
	}
	return func(path string, before, after []byte) {
		a.changes = append(a.changes, change{strings.Clone(path), hashOf(before), hashOf(after)})
	}
}

// hashOf returns the SHA-256 of data, or "" if data is empty, as for a znode that doesn't exist.
func hashOf(data []byte) string {
	if len(data) == 0 {
		return ""
	}
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}

// observing returns the function to call for each request that is applied. It calls observe, too, unless that is nil.
func (a *auditor) observing(e *engine, observe func(*tree.Result)) func(*tree.Result) {
	if a == nil {
		return observe
	}
	return func(res *tree.Result) {
		if observe != nil {
			observe(res)
		}
		a.applied(res, e.replica)
		if a.changes = a.changes[:0]; cap(a.changes) > changesKeep {
			a.changes = nil
		}
	}
}

// changesKeep is the largest capacity of auditor.changes that is kept for the next requests.
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
		for _, names := range [][]string{a.staged.entry.Users, a.staged.entry.Claimed} {
			for i, name := range names {
				names[i] = strings.Clone(name)
			}
		}
		a.staged.entry.IP, a.staged.entry.Source = strings.Clone(a.staged.entry.IP), strings.Clone(a.staged.entry.Source)
	case res.Outcome == tree.Applied:
		a.written(res)
	}
}

// sessionEnded audits the deletion of the session's ephemeral znodes.
func (a *auditor) sessionEnded(res *tree.Result) {
	for i := range res.Events {
		if res.Events[i].Type != jute.EventNodeDeleted {
			continue
		}
		e := audit.Entry{
			Session: res.Session, Users: []string{a.User}, Operation: audit.EphemeralsGoing, Result: audit.Success,
		}
		a.write(&e, res.Events[i].Path)
	}
}

// entryOf returns an entry with the session and identities of a request's client.
func (a *auditor) entryOf(session int64, ids []jute.ID) audit.Entry {
	e := audit.Entry{Session: session, Users: make([]string, 0, len(ids)), Result: audit.Success}
	if len(ids) > 0 && ids[0].Scheme == "super" { // the server's own client; others begin with their address
		e.Users = append(e.Users, a.User)
	}
	for _, id := range ids {
		name := auth.UserName(id)
		switch {
		case strings.TrimSpace(name) == "":
		case a.vouched(id, ids):
			e.Users = append(e.Users, name)
		default:
			e.Claimed = append(e.Claimed, name)
		}
		if id.Scheme == "ip" {
			e.IP, e.Source = id.ID, auth.Neighbourhood(id.ID)
		}
	}
	return e
}

// write writes an entry about a znode, including the hashes of its data.
func (a *auditor) write(e *audit.Entry, path string) {
	e.Znode = path
	if e.Result == audit.Success {
		for i, c := range a.changes {
			if c.path == path {
				e.Before, e.After = c.before, c.after
				a.changes[i].path = "" // a multi may change the znode again
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
		if res.Request.Op != jute.OpReconfig { // the result is that of the last step of the reconfig
			e = audit.Entry{Session: res.Session, Result: e.Result}
			if s := &a.staged; s.cnx == res.Cnx && s.seq == res.Seq {
				e.Users, e.Claimed, e.IP, e.Source = s.entry.Users, s.entry.Claimed, s.entry.IP, s.entry.Source
			}
		}
		if e.Operation = audit.Reconfig; res.Err == jute.OK {
			path = configPath
		}
	case tree.OpRestore:
		e.Operation = audit.Restore
	default:
		return
	}
	a.write(&e, path)
}

// configPath is the znode that a reconfig changes.
const configPath = "/zookeeper/config"

// multi audits each operation of a multi that succeeded. As in Apache, it omits the type of
// sequential znodes and of those with a time to live.
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

// typeOf returns the name that Apache's audit log has for a create mode.
func typeOf(m jute.CreateMode) string { return cmp.Or(znodeTypes[m], "invalid") }

var znodeTypes = map[jute.CreateMode]string{
	jute.ModePersistent: "persistent", jute.ModePersistentSequential: "persistent_sequential",
	jute.ModeEphemeral: "ephemeral", jute.ModeEphemeralSequential: "ephemeral_sequential",
	jute.ModePersistentWithTTL: "persistent_with_ttl", jute.ModeContainer: "container",
	jute.ModePersistentSequentialWithTTL: "persistent_sequential_with_ttl",
}

// aclText formats an ACL as Apache's audit log does: without a separator between entries. Unlike
// Apache, it masks the hashes of passwords.
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

// answers returns the function to call for requests that are not writes, or nil if none is needed.
func (a *auditor) answers() func(c *replica.Client, op jute.Op, body []byte, code jute.Code, how replica.Became) {
	if a == nil || !a.Reads && !a.Logins && !a.Refusals {
		return nil
	}
	return a.answered
}

// answered audits a read, a login, or a refused request.
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
	switch op {
	case jute.OpError:
		e.Operation = "unknown"
	case tree.OpAttach: // with a wrong password
		e.Session, e.Operation = c.Wanted(), "connect"
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
	from := addressID(remote).ID
	a.Log.Write(&audit.Entry{
		Source: auth.Neighbourhood(from), IP: from, Operation: "connect", Result: audit.Failure, Error: why,
	})
}
