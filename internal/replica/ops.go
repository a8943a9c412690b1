package replica

import "github.com/zooid-project/zooid/jute"

// opKind says where an operation runs.
type opKind uint8

const (
	kindRefused opKind = iota // unknown, or not for clients: UNIMPLEMENTED, then close
	kindRead                  // here, from the applied state
	kindWrite                 // through the log
	kindSync                  // here, once everything acknowledged anywhere is applied
	kindLogin                 // at once, out of order: auth and sasl
)

// An op is one row of the table that drives dispatch, statistics and tests.
type op struct {
	code  jute.Op
	kind  opKind
	short string // as the `cons` four-letter word calls it
	// read appends the reply's body to out. It is called with the replica held
	// and c.mu held; body is the request's record.
	read func(r *Replica, c *Client, out, body []byte) ([]byte, jute.Code)
}

func (o *op) isWrite() bool { return o.kind == kindWrite }

var (
	opRefused       = op{code: jute.OpError, kind: kindRefused, short: "NA"}
	opCreateSession = op{code: jute.OpCreateSession, kind: kindWrite, short: "SESS"} // done by connecting
	opCloseSession  = op{code: jute.OpCloseSession, kind: kindWrite, short: "CLOS"}
)

// lookup returns the row of code; codes that clients may not send give
// &opRefused.
func lookup(code jute.Op) *op {
	if code == jute.OpCloseSession {
		return &opCloseSession
	}
	if code > 0 && int(code) < len(ops) && ops[code].kind != kindRefused {
		return &ops[code]
	}
	return &opRefused
}

// ops holds a row for every operation a client may send but closeSession. Check
// is only part of a multi; deleteContainer belongs to the reaper alone
// (docs/protocol.md says why).
var ops = [128]op{
	jute.OpCreate:               {jute.OpCreate, kindWrite, "CREA", nil},
	jute.OpDelete:               {jute.OpDelete, kindWrite, "DELE", nil},
	jute.OpExists:               {jute.OpExists, kindRead, "EXIS", (*Replica).readExists},
	jute.OpGetData:              {jute.OpGetData, kindRead, "GETD", (*Replica).readGetData},
	jute.OpSetData:              {jute.OpSetData, kindWrite, "SETD", nil},
	jute.OpGetACL:               {jute.OpGetACL, kindRead, "GETA", (*Replica).readGetACL},
	jute.OpSetACL:               {jute.OpSetACL, kindWrite, "SETA", nil},
	jute.OpGetChildren:          {jute.OpGetChildren, kindRead, "GETC", (*Replica).readGetChildren},
	jute.OpSync:                 {jute.OpSync, kindSync, "SYNC", (*Replica).readSync},
	jute.OpPing:                 {jute.OpPing, kindRead, "PING", (*Replica).readPing},
	jute.OpGetChildren2:         {jute.OpGetChildren2, kindRead, "GETC", (*Replica).readGetChildren2},
	jute.OpMulti:                {jute.OpMulti, kindWrite, "MULT", nil},
	jute.OpCreate2:              {jute.OpCreate2, kindWrite, "CREA", nil},
	jute.OpReconfig:             {jute.OpReconfig, kindWrite, "RECO", nil},
	jute.OpCheckWatches:         {jute.OpCheckWatches, kindRead, "CHKW", (*Replica).readCheckWatches},
	jute.OpRemoveWatches:        {jute.OpRemoveWatches, kindRead, "REMW", (*Replica).readRemoveWatches},
	jute.OpCreateContainer:      {jute.OpCreateContainer, kindWrite, "CREA", nil},
	jute.OpCreateTTL:            {jute.OpCreateTTL, kindWrite, "CREA", nil},
	jute.OpMultiRead:            {jute.OpMultiRead, kindRead, "MLTR", (*Replica).readMulti},
	jute.OpAuth:                 {jute.OpAuth, kindLogin, "AUTH", nil},
	jute.OpSetWatches:           {jute.OpSetWatches, kindRead, "SETW", (*Replica).readSetWatches},
	jute.OpSASL:                 {jute.OpSASL, kindLogin, "SASL", nil},
	jute.OpGetEphemerals:        {jute.OpGetEphemerals, kindRead, "GETE", (*Replica).readGetEphemerals},
	jute.OpGetAllChildrenNumber: {jute.OpGetAllChildrenNumber, kindRead, "GETACN", (*Replica).readGetAllChildrenNumber},
	jute.OpSetWatches2:          {jute.OpSetWatches2, kindRead, "STW2", (*Replica).readSetWatches},
	jute.OpAddWatch:             {jute.OpAddWatch, kindRead, "ADDW", (*Replica).readAddWatch},
	jute.OpWhoAmI:               {jute.OpWhoAmI, kindRead, "HOMI", (*Replica).readWhoAmI},
}
