// Package history records and reads the histories of runs of a coordination service. A history has each wire event of
// the clients, in the order of time, and the servers' committed logs.
//
//	event.go    the kinds of event, the entries of a log, and History, which has both
//	journal.go  Journal, which writes a history during a run; the file's format
//	history.go  reading a file, and merging several
//
// Package check checks histories; package traffic and the simulator make them.
package history

import "github.com/zooid-project/zooid/jute"

// Kind is the kind of an event on the wire.
type Kind uint8

// The kinds of event. The kind determines which fields of an Event are used; Time and Conn always are.
const (
	// KindConnect: a ConnectRequest was about to be sent. Zxid is its lastZxidSeen, Session the session to resume or 0,
	// Num the requested timeout in milliseconds.
	KindConnect Kind = 1 + iota
	// KindConnected: a ConnectResponse arrived. Session and Num are the session and the granted timeout in
	// milliseconds, both 0 if the session was refused.
	KindConnected
	// KindRequest: a request was about to be sent. Xid, Num (its jute.Op) and Body, the record without its header, are
	// set.
	KindRequest
	// KindReply: a reply arrived. Xid, Zxid, Num (its jute.Code) and Body are set.
	KindReply
	// KindNotification: a watch event arrived. Zxid and Body, a jute.WatcherEvent, are set.
	KindNotification
	// KindDisconnect: either side ended the connection.
	KindDisconnect
	// KindIdentity: the server granted the connection an identity. Body is a
	// jute.ID. It applies to the requests recorded after it.
	KindIdentity
	// KindDump: a znode that a server had after everything had stopped. Conn is the number of the server, Zxid its last
	// zxid, and Body a ustring path and a jute.GetDataResponse.
	KindDump

	kindEntry // an Entry; never in an Event
	kindEnd   // first invalid kind
)

// An Event is one thing that a client sent, received or noticed.
type Event struct {
	Time    int64 // nanoseconds on the journal's monotonic clock
	Zxid    int64
	Session int64
	Body    []byte // part of the history's bytes; must not be modified
	Conn    int32  // the connection, numbered from 0 by Journal.NewConn
	Xid     int32
	Num     int32 // op, code or timeout, by kind
	Kind    Kind
}

// Op returns the operation of a request.
func (e *Event) Op() jute.Op { return jute.Op(e.Num) }

// Code returns the error code of a reply.
func (e *Event) Code() jute.Code { return jute.Code(e.Num) }

// An Entry is one request in a server's committed log, as that server reports it after a run.
type Entry struct {
	Zxid    int64 // 0 if the request took none
	Session int64 // 0 for the servers' own requests
	Cnx     int64 // connection of the request; unique in the ensemble
	Seq     int64 // 1, 2, 3... on that connection
	Time    int64 // milliseconds since 1970, the leader's clock
	Term    int64 // term of the log entry
	Digest  uint64
	Body    []byte
	Xid     int32
	Op      jute.Op // OpCloseSession with Session set and Cnx 0 is an expiry
	Err     jute.Code
	Applied bool // false: a duplicate, a gap, a moved or an ended session
}

// A ServerLog is the committed log of one server, in log order.
type ServerLog struct {
	Server  int32
	Entries []Entry
}

// A History is everything recorded in one run: client events in the order of
// their times, and the servers' logs if they were dumped.
type History struct {
	WallStart int64 // wall clock at time 0, nanoseconds since 1970
	Events    []Event
	Servers   []ServerLog
}

// log returns the log of a server. If the server is new, it appends an empty log.
func (h *History) log(server int32) *ServerLog {
	for i := range h.Servers {
		if h.Servers[i].Server == server {
			return &h.Servers[i]
		}
	}
	h.Servers = append(h.Servers, ServerLog{Server: server})
	return &h.Servers[len(h.Servers)-1]
}
