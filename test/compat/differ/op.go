package differ

import (
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// slot describes an argument of a step: its key in a script and its type on the wire.
type slot struct {
	key string
	typ string
}

// The types of slots. Strings, buffers and vectors may be null.
const (
	typString  = "string"
	typPath    = "path" // a string in which "~" stands for the root
	typBuffer  = "buffer"
	typBytes   = "bytes" // raw bytes, without a length
	typInt     = "int"
	typLong    = "long"
	typBool    = "bool"
	typPaths   = "paths" // vector of ustring
	typACL     = "acl"   // vector of ACL, each "perms scheme id"
	typZxid    = "zxid"  // "0", "max", "last" for the last one that the seat saw, or "mark", set by the step mark
	typNothing = ""
)

// local is the code of steps that aren't requests.
const local jute.Op = -1000

// row describes one kind of step. in lists the arguments as "key:type", and out lists the parts of a successful reply,
// as known to the readers in reply.go.
type row struct {
	code jute.Op
	in   string
	out  string
	// read says that the step can't cause an event on another connection.
	read bool
	// risky steps may make the server close the connection.
	risky bool
}

const (
	createSlots = "path:path data:buffer acl:acl flags:int"
	watchSlots  = "path:path watch:bool"
	setSlots    = "rel:zxid data:paths exist:paths child:paths"
)

// rows returns all kinds of steps by their word in scripts.
func rows() map[string]row {
	return map[string]row{
		"create":          {code: jute.OpCreate, in: createSlots, out: "path"},
		"create2":         {code: jute.OpCreate2, in: createSlots, out: "path stat"},
		"createContainer": {code: jute.OpCreateContainer, in: createSlots, out: "path stat"},
		"createTTL":       {code: jute.OpCreateTTL, in: createSlots + " ttl:long", out: "path stat"},
		"delete":          {code: jute.OpDelete, in: "path:path version:int"},
		"deleteContainer": {code: jute.OpDeleteContainer, in: "path:path", risky: true},
		"exists":          {code: jute.OpExists, in: watchSlots, out: "stat", read: true},
		"getData":         {code: jute.OpGetData, in: watchSlots, out: "data stat", read: true},
		"setData":         {code: jute.OpSetData, in: "path:path data:buffer version:int", out: "stat"},
		"getACL":          {code: jute.OpGetACL, in: "path:path", out: "acl stat", read: true},
		"setACL":          {code: jute.OpSetACL, in: "path:path acl:acl version:int", out: "stat"},
		"getChildren":     {code: jute.OpGetChildren, in: watchSlots, out: "names", read: true},
		"getChildren2":    {code: jute.OpGetChildren2, in: watchSlots, out: "names stat", read: true},
		"sync":            {code: jute.OpSync, in: "path:path", out: "path", read: true},
		"ping":            {code: jute.OpPing, read: true},
		"check":           {code: jute.OpCheck, in: "path:path version:int", risky: true},
		"multi":           {code: jute.OpMulti, out: "multi"},
		"multiRead":       {code: jute.OpMultiRead, out: "multi", read: true},
		"reconfig": {
			code: jute.OpReconfig, in: "joining:string leaving:string members:string config:long", out: "data stat",
		},
		"checkWatches":         {code: jute.OpCheckWatches, in: "path:path type:int", read: true},
		"removeWatches":        {code: jute.OpRemoveWatches, in: "path:path type:int", read: true},
		"setWatches":           {code: jute.OpSetWatches, in: setSlots, read: true},
		"setWatches2":          {code: jute.OpSetWatches2, in: setSlots + " persistent:paths recursive:paths", read: true},
		"addWatch":             {code: jute.OpAddWatch, in: "path:path mode:int", out: "number", read: true},
		"auth":                 {code: jute.OpAuth, in: "type:int scheme:string auth:buffer", read: true, risky: true},
		"sasl":                 {code: jute.OpSASL, in: "token:buffer", out: "token", read: true, risky: true},
		"getEphemerals":        {code: jute.OpGetEphemerals, in: "path:path", out: "names", read: true},
		"getAllChildrenNumber": {code: jute.OpGetAllChildrenNumber, in: "path:path", out: "number", read: true},
		"whoAmI":               {code: jute.OpWhoAmI, out: "who", read: true},
		"closeSession":         {code: jute.OpCloseSession, risky: true},
		"raw":                  {in: "op:int body:bytes", risky: true}, // the first argument is the operation code

		// Actions on a connection.
		"connect": {code: local, in: "how:string timeout:int"},
		"drop":    {code: local, in: ""},                         // the client closes its end, the session stays
		"mark":    {code: local, in: "", read: true},             // stores the last zxid seen
		"frame":   {code: local, in: "bytes:bytes", risky: true}, // the bytes of a frame, including its length
		"await":   {code: local, in: "events:int", read: true},   // waits until so many events have arrived
	}
}

// slots returns the parsed arguments of a row.
func (r row) slots() []slot {
	var slots []slot
	for _, column := range strings.Fields(r.in) {
		key, typ, _ := strings.Cut(column, ":")
		slots = append(slots, slot{key, typ})
	}
	return slots
}
