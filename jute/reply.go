package jute

import "encoding/binary"

// ReplyHeader is the beginning of every frame that a server sends after the handshake. If Err isn't OK, the frame has
// no record, or one to ignore.
type ReplyHeader struct {
	Xid int32 // the request's, or XidNotification

	// Zxid in the reply to a write is the zxid of the write; in other replies, the last one that the server had applied;
	// in a notification, that of the change. Replies to auth, some refusals, and notifications of servers before 3.9 have
	// a value below 1, which means nothing.
	Zxid int64

	Err Code
}

// ReplyHeaderSize is the encoded size of a ReplyHeader in bytes.
const ReplyHeaderSize = 16

// Append appends the record.
func (h *ReplyHeader) Append(b []byte) []byte {
	return AppendInt(AppendLong(AppendInt(b, h.Xid), h.Zxid), int32(h.Err))
}

// Decode reads the record.
func (h *ReplyHeader) Decode(d *Decoder) { h.Xid, h.Zxid, h.Err = d.Int(), d.Long(), Code(d.Int()) }

// PutReplyHeader overwrites the ReplyHeader at the start of b, which must have at least ReplyHeaderSize bytes. It is
// for code that knows the header only after the body.
func PutReplyHeader(b []byte, h ReplyHeader) {
	_ = b[ReplyHeaderSize-1]
	binary.BigEndian.PutUint32(b, uint32(h.Xid))
	binary.BigEndian.PutUint64(b[4:], uint64(h.Zxid))
	binary.BigEndian.PutUint32(b[12:], uint32(h.Err))
}

// WatcherEvent is the body of a notification.
type WatcherEvent struct {
	Type  EventType
	State KeeperState
	Path  string
}

// Append appends the record.
func (e *WatcherEvent) Append(b []byte) []byte {
	return AppendString(AppendInt(AppendInt(b, int32(e.Type)), int32(e.State)), e.Path)
}

// Decode reads the record.
func (e *WatcherEvent) Decode(d *Decoder) {
	e.Type, e.State, e.Path = EventType(d.Int()), KeeperState(d.Int()), d.String()
}

// PathResponse is the reply to create and sync.
type PathResponse struct{ Path string }

// Append appends the record.
func (r *PathResponse) Append(b []byte) []byte { return AppendString(b, r.Path) }

// Decode reads the record.
func (r *PathResponse) Decode(d *Decoder) { r.Path = d.String() }

// Create2Response is the reply to create2, createContainer and createTTL.
type Create2Response struct {
	Path string
	Stat Stat
}

// Append appends the record.
func (r *Create2Response) Append(b []byte) []byte { return r.Stat.Append(AppendString(b, r.Path)) }

// Decode reads the record.
func (r *Create2Response) Decode(d *Decoder) {
	r.Path = d.String()
	r.Stat.Decode(d)
}

// GetDataResponse is the reply to getData and reconfig.
type GetDataResponse struct {
	Data []byte
	Stat Stat
}

// Append appends the record.
func (r *GetDataResponse) Append(b []byte) []byte { return r.Stat.Append(AppendBuffer(b, r.Data)) }

// Decode reads the record.
func (r *GetDataResponse) Decode(d *Decoder) {
	r.Data = d.Buffer()
	r.Stat.Decode(d)
}

// GetACLResponse is the reply to getACL.
type GetACLResponse struct {
	ACL  []ACL
	Stat Stat
}

// Append appends the record.
func (r *GetACLResponse) Append(b []byte) []byte { return r.Stat.Append(AppendACLs(b, r.ACL)) }

// Decode reads the record.
func (r *GetACLResponse) Decode(d *Decoder) {
	r.ACL = DecodeACLs(d)
	r.Stat.Decode(d)
}

// ChildrenResponse is the reply to getChildren and getEphemerals.
type ChildrenResponse struct{ Children []string }

// Append appends the record.
func (r *ChildrenResponse) Append(b []byte) []byte { return AppendStrings(b, r.Children) }

// Decode reads the record.
func (r *ChildrenResponse) Decode(d *Decoder) { r.Children = d.Strings() }

// Children2Response is the reply to getChildren2.
type Children2Response struct {
	Children []string
	Stat     Stat
}

// Append appends the record.
func (r *Children2Response) Append(b []byte) []byte {
	return r.Stat.Append(AppendStrings(b, r.Children))
}

// Decode reads the record.
func (r *Children2Response) Decode(d *Decoder) {
	r.Children = d.Strings()
	r.Stat.Decode(d)
}

// IntResponse is the reply to getAllChildrenNumber and, with 0, to addWatch, and the record of an OpError.
type IntResponse struct{ Value int32 }

// Append appends the record.
func (r *IntResponse) Append(b []byte) []byte { return AppendInt(b, r.Value) }

// Decode reads the record.
func (r *IntResponse) Decode(d *Decoder) { r.Value = d.Int() }

// ClientInfo is one identity in the reply to whoAmI.
type ClientInfo struct{ Scheme, User string }

// WhoAmIResponse is the reply to whoAmI, a request without a record. Its vector is never null: Append writes nil
// Clients as an empty one, and Decode returns an empty slice for null.
type WhoAmIResponse struct{ Clients []ClientInfo }

// Append appends the record.
func (r *WhoAmIResponse) Append(b []byte) []byte {
	b = AppendInt(b, int32(len(r.Clients)))
	for _, c := range r.Clients {
		b = AppendString(AppendString(b, c.Scheme), c.User)
	}
	return b
}

// Decode reads the record.
func (r *WhoAmIResponse) Decode(d *Decoder) {
	n := max(d.Count(8), 0)
	r.Clients = make([]ClientInfo, 0, n)
	for range n {
		r.Clients = append(r.Clients, ClientInfo{d.String(), d.String()})
	}
}
