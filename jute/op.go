package jute

import "strconv"

// Op is an operation code in a RequestHeader.
type Op int32

// The operation codes. Clients never send OpNotification, OpCreateSession and OpError: notifications are known by their
// xid, OpError is the type of a failed result of a multi, and the servers' logs use OpCreateSession and OpCloseSession
// for the beginning and the end of a session. OpDeleteContainer is the servers' own, too, and OpCheck is only part of a
// multi. Requests of ping, closeSession and whoAmI have no record. Neither do the replies to ping, closeSession,
// delete, checkWatches, removeWatches, auth, setWatches and setWatches2.
const (
	OpNotification         Op = 0
	OpCreate               Op = 1
	OpDelete               Op = 2
	OpExists               Op = 3
	OpGetData              Op = 4
	OpSetData              Op = 5
	OpGetACL               Op = 6
	OpSetACL               Op = 7
	OpGetChildren          Op = 8
	OpSync                 Op = 9
	OpPing                 Op = 11
	OpGetChildren2         Op = 12
	OpCheck                Op = 13
	OpMulti                Op = 14
	OpCreate2              Op = 15
	OpReconfig             Op = 16
	OpCheckWatches         Op = 17
	OpRemoveWatches        Op = 18
	OpCreateContainer      Op = 19
	OpDeleteContainer      Op = 20
	OpCreateTTL            Op = 21
	OpMultiRead            Op = 22
	OpAuth                 Op = 100
	OpSetWatches           Op = 101
	OpSASL                 Op = 102
	OpGetEphemerals        Op = 103
	OpGetAllChildrenNumber Op = 104
	OpSetWatches2          Op = 105
	OpAddWatch             Op = 106
	OpWhoAmI               Op = 107
	OpCreateSession        Op = -10
	OpCloseSession         Op = -11
	OpError                Op = -1
)

// opTrait is a set of properties of an operation.
type opTrait uint8

const (
	logged   opTrait = 1 << iota // it takes a zxid, a place in the order of changes
	creates                      // it makes a znode; its record begins like a CreateRequest
	hasPath                      // its record begins with a path
	mayWatch                     // its record is a PathWatchRequest, which may set a watch
)

// ops is the table of operations, the only place that has their properties.
var ops = map[Op]struct {
	name   string
	traits opTrait
}{
	OpNotification:         {"notification", 0},
	OpCreate:               {"create", logged | creates | hasPath},
	OpDelete:               {"delete", logged | hasPath},
	OpExists:               {"exists", hasPath | mayWatch},
	OpGetData:              {"getData", hasPath | mayWatch},
	OpSetData:              {"setData", logged | hasPath},
	OpGetACL:               {"getACL", hasPath},
	OpSetACL:               {"setACL", logged | hasPath},
	OpGetChildren:          {"getChildren", hasPath | mayWatch},
	OpSync:                 {"sync", hasPath},
	OpPing:                 {"ping", 0},
	OpGetChildren2:         {"getChildren2", hasPath | mayWatch},
	OpCheck:                {"check", hasPath}, // logged as part of a multi
	OpMulti:                {"multi", logged},
	OpCreate2:              {"create2", logged | creates | hasPath},
	OpReconfig:             {"reconfig", logged},
	OpCheckWatches:         {"checkWatches", hasPath},
	OpRemoveWatches:        {"removeWatches", hasPath},
	OpCreateContainer:      {"createContainer", logged | creates | hasPath},
	OpDeleteContainer:      {"deleteContainer", logged | hasPath},
	OpCreateTTL:            {"createTTL", logged | creates | hasPath},
	OpMultiRead:            {"multiRead", 0},
	OpAuth:                 {"auth", 0},
	OpSetWatches:           {"setWatches", 0},
	OpSASL:                 {"sasl", 0},
	OpGetEphemerals:        {"getEphemerals", hasPath},
	OpGetAllChildrenNumber: {"getAllChildrenNumber", hasPath},
	OpSetWatches2:          {"setWatches2", 0},
	OpAddWatch:             {"addWatch", hasPath},
	OpWhoAmI:               {"whoAmI", 0},
	OpCreateSession:        {"createSession", logged},
	OpCloseSession:         {"closeSession", logged},
	OpError:                {"error", 0},
}

// traitsOf has the traits of the table, indexed by code for speed.
var traitsOf = func() (t [1 << 7]opTrait) {
	for op, row := range ops { // any order: each has a place of its own
		t[uint8(op)&(1<<7-1)] = row.traits
	}
	return t
}()

func (o Op) has(t opTrait) bool {
	return o >= OpCloseSession && o <= OpWhoAmI && traitsOf[uint8(o)&(1<<7-1)]&t != 0
}

// IsWrite reports whether the operation, if it is carried out, takes a zxid, which is its place in the order of
// changes. This includes the beginning and the end of a session, and a multi, whatever its operations are.
func (o Op) IsWrite() bool { return o.has(logged) }

// IsCreate reports whether the operation makes a znode.
func (o Op) IsCreate() bool { return o.has(creates) }

// HasPath reports whether the operation's record begins with a path.
func (o Op) HasPath() bool { return o.has(hasPath) }

// MayWatch reports whether the operation's record is a PathWatchRequest.
func (o Op) MayWatch() bool { return o.has(mayWatch) }

// String returns Apache's name of the operation, or "op(N)" if there is none.
func (o Op) String() string {
	if row, ok := ops[o]; ok {
		return row.name
	}
	return "op(" + strconv.Itoa(int(o)) + ")"
}

// The xids of frames that aren't numbered. A client numbers its other requests, sasl among them, from 1, and again from
// 1 before the number is too large; the reply repeats the number.
const (
	XidNotification int32 = -1 // a notification
	XidPing         int32 = -2 // ping and its reply
	XidAuth         int32 = -4 // auth and its reply
	XidSetWatches   int32 = -8 // setWatches, setWatches2, and their replies
)
