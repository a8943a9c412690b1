package replica

import (
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

// opKind says where and how an operation runs.
type opKind uint8

const (
	kindRefused opKind = iota // unknown, or not for clients: UNIMPLEMENTED, then close
	kindRead                  // here, from the applied state
	kindWrite                 // through the log
	kindSync                  // here, once everything acknowledged by any server is applied
	kindLogin                 // at once, out of order: auth and sasl
)

// An op is what this server does with an operation: one row of the table that drives dispatch,
// statistics, metrics and tests. Jute's table defines the operation itself.
type op struct {
	code  jute.Op
	kind  opKind
	short string // its name in the `cons` four-letter word
	// counter is the end of its metric's name, op_count_…; several operations may share one.
	counter string
	// read appends the reply's body to out. It is called with the replica held
	// and c.mu held; body is the request's record.
	read func(r *reads, c *Client, out, body []byte) ([]byte, jute.Code)
}

func (o *op) isWrite() bool { return o.kind == kindWrite }

var (
	opRefused = op{code: jute.OpError, kind: kindRefused, short: "NA"}
	// performed by connecting
	opCreateSession = op{code: jute.OpCreateSession, kind: kindWrite, short: "SESS", counter: "create_session"}
	opAttach        = op{code: tree.OpAttach, kind: kindWrite} // connecting with a session's password
	opCloseSession  = op{code: jute.OpCloseSession, kind: kindWrite, short: "CLOS", counter: "close_session"}
	opRestore       = op{code: tree.OpRestore, kind: kindWrite, short: "REPL"} // only from a client that MayRestore
)

// lookup returns the row of code, or &opRefused for codes that clients may not send.
func lookup(code jute.Op) *op {
	switch code {
	case jute.OpCloseSession:
		return &opCloseSession
	case tree.OpRestore:
		return &opRestore
	}
	if code > 0 && int(code) < len(ops) && ops[code].kind != kindRefused {
		return &ops[code]
	}
	return &opRefused
}

// ops holds a row for every operation a client may send except closeSession. Check exists only
// inside a multi; deleteContainer is for the reaper alone, and is counted (docs/protocol.md says
// why).
var ops = [128]op{
	jute.OpCreate:          {jute.OpCreate, kindWrite, "CREA", "create", nil},
	jute.OpDelete:          {jute.OpDelete, kindWrite, "DELE", "delete", nil},
	jute.OpExists:          {jute.OpExists, kindRead, "EXIS", "exists", (*reads).readExists},
	jute.OpGetData:         {jute.OpGetData, kindRead, "GETD", "get_data", (*reads).readGetData},
	jute.OpSetData:         {jute.OpSetData, kindWrite, "SETD", "set_data", nil},
	jute.OpGetACL:          {jute.OpGetACL, kindRead, "GETA", "get_acl", (*reads).readGetACL},
	jute.OpSetACL:          {jute.OpSetACL, kindWrite, "SETA", "set_acl", nil},
	jute.OpGetChildren:     {jute.OpGetChildren, kindRead, "GETC", "get_children", (*reads).readGetChildren},
	jute.OpSync:            {jute.OpSync, kindSync, "SYNC", "sync", (*reads).readSync},
	jute.OpPing:            {jute.OpPing, kindRead, "PING", "ping", (*reads).readPing},
	jute.OpGetChildren2:    {jute.OpGetChildren2, kindRead, "GETC", "get_children", (*reads).readGetChildren2},
	jute.OpMulti:           {jute.OpMulti, kindWrite, "MULT", "multi", nil},
	jute.OpCreate2:         {jute.OpCreate2, kindWrite, "CREA", "create", nil},
	jute.OpReconfig:        {jute.OpReconfig, kindWrite, "RECO", "reconfig", nil},
	jute.OpCheckWatches:    {jute.OpCheckWatches, kindRead, "CHKW", "check_watches", (*reads).readCheckWatches},
	jute.OpRemoveWatches:   {jute.OpRemoveWatches, kindRead, "REMW", "remove_watches", (*reads).readRemoveWatches},
	jute.OpCreateContainer: {jute.OpCreateContainer, kindWrite, "CREA", "create", nil},
	jute.OpCreateTTL:       {jute.OpCreateTTL, kindWrite, "CREA", "create", nil},
	jute.OpDeleteContainer: {jute.OpDeleteContainer, kindRefused, "NA", "delete", nil},
	jute.OpMultiRead:       {jute.OpMultiRead, kindRead, "MLTR", "multi_read", (*reads).readMulti},
	jute.OpAuth:            {jute.OpAuth, kindLogin, "AUTH", "", nil},
	jute.OpSetWatches:      {jute.OpSetWatches, kindRead, "SETW", "set_watches", (*reads).readSetWatches},
	jute.OpSASL:            {jute.OpSASL, kindLogin, "SASL", "", nil},
	jute.OpGetEphemerals:   {jute.OpGetEphemerals, kindRead, "GETE", "get_ephemerals", (*reads).readGetEphemerals},
	jute.OpGetAllChildrenNumber: {
		jute.OpGetAllChildrenNumber, kindRead, "GETACN", "get_all_children_number", (*reads).readGetAllChildrenNumber,
	},
	jute.OpSetWatches2: {jute.OpSetWatches2, kindRead, "STW2", "set_watches", (*reads).readSetWatches},
	jute.OpAddWatch:    {jute.OpAddWatch, kindRead, "ADDW", "add_watch", (*reads).readAddWatch},
	jute.OpWhoAmI:      {jute.OpWhoAmI, kindRead, "HOMI", "who_am_i", (*reads).readWhoAmI},
}
