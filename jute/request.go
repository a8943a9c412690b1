package jute

// RequestHeader is the beginning of every frame that a client sends after the handshake.
type RequestHeader struct {
	Xid int32
	Op  Op
}

// RequestHeaderSize is the encoded size of a RequestHeader in bytes.
const RequestHeaderSize = 8

// Append appends the record.
func (h *RequestHeader) Append(b []byte) []byte { return AppendInt(AppendInt(b, h.Xid), int32(h.Op)) }

// Decode reads the record.
func (h *RequestHeader) Decode(d *Decoder) { h.Xid, h.Op = d.Int(), Op(d.Int()) }

// CreateRequest is the record of create, create2 and createContainer.
type CreateRequest struct {
	Path  string
	Data  []byte
	ACL   []ACL
	Flags CreateMode
}

// Append appends the record.
func (r *CreateRequest) Append(b []byte) []byte {
	b = AppendString(b, r.Path)
	b = AppendBuffer(b, r.Data)
	b = AppendACLs(b, r.ACL)
	return AppendInt(b, int32(r.Flags))
}

// Decode reads the record.
func (r *CreateRequest) Decode(d *Decoder) {
	r.Path, r.Data, r.ACL, r.Flags = d.String(), d.Buffer(), DecodeACLs(d), CreateMode(d.Int())
}

// CreateTTLRequest is the record of createTTL: a CreateRequest and a time to live in milliseconds.
type CreateTTLRequest struct {
	CreateRequest
	TTL int64
}

// Append appends the record.
func (r *CreateTTLRequest) Append(b []byte) []byte {
	return AppendLong(r.CreateRequest.Append(b), r.TTL)
}

// Decode reads the record.
func (r *CreateTTLRequest) Decode(d *Decoder) {
	r.CreateRequest.Decode(d)
	r.TTL = d.Long()
}

// PathVersionRequest is the record of delete and check: a path and the expected version, -1 for any.
type PathVersionRequest struct {
	Path    string
	Version int32
}

// Append appends the record.
func (r *PathVersionRequest) Append(b []byte) []byte {
	return AppendInt(AppendString(b, r.Path), r.Version)
}

// Decode reads the record.
func (r *PathVersionRequest) Decode(d *Decoder) { r.Path, r.Version = d.String(), d.Int() }

// PathWatchRequest is the record of exists, getData, getChildren and getChildren2: a path, and whether to set a watch
// on it.
type PathWatchRequest struct {
	Path  string
	Watch bool
}

// Append appends the record.
func (r *PathWatchRequest) Append(b []byte) []byte {
	return AppendBool(AppendString(b, r.Path), r.Watch)
}

// Decode reads the record.
func (r *PathWatchRequest) Decode(d *Decoder) { r.Path, r.Watch = d.String(), d.Bool() }

// PathRequest is the record of getACL, sync, getEphemerals,
// getAllChildrenNumber and deleteContainer.
type PathRequest struct{ Path string }

// Append appends the record.
func (r *PathRequest) Append(b []byte) []byte { return AppendString(b, r.Path) }

// Decode reads the record.
func (r *PathRequest) Decode(d *Decoder) { r.Path = d.String() }

// SetDataRequest is the record of setData. Version is the expected version of the data, -1 for any.
type SetDataRequest struct {
	Path    string
	Data    []byte
	Version int32
}

// Append appends the record.
func (r *SetDataRequest) Append(b []byte) []byte {
	return AppendInt(AppendBuffer(AppendString(b, r.Path), r.Data), r.Version)
}

// Decode reads the record.
func (r *SetDataRequest) Decode(d *Decoder) {
	r.Path, r.Data, r.Version = d.String(), d.Buffer(), d.Int()
}

// SetACLRequest is the record of setACL. Version is the expected version of the ACL (Stat.Aversion), -1 for any.
type SetACLRequest struct {
	Path    string
	ACL     []ACL
	Version int32
}

// Append appends the record.
func (r *SetACLRequest) Append(b []byte) []byte {
	return AppendInt(AppendACLs(AppendString(b, r.Path), r.ACL), r.Version)
}

// Decode reads the record.
func (r *SetACLRequest) Decode(d *Decoder) {
	r.Path, r.ACL, r.Version = d.String(), DecodeACLs(d), d.Int()
}

// WatchesRequest is the record of checkWatches and removeWatches.
type WatchesRequest struct {
	Path string
	Type WatcherType
}

// Append appends the record.
func (r *WatchesRequest) Append(b []byte) []byte {
	return AppendInt(AppendString(b, r.Path), int32(r.Type))
}

// Decode reads the record.
func (r *WatchesRequest) Decode(d *Decoder) { r.Path, r.Type = d.String(), WatcherType(d.Int()) }

// AddWatchRequest is the record of addWatch, which sets a persistent watch on a path.
type AddWatchRequest struct {
	Path string
	Mode AddWatchMode
}

// Append appends the record.
func (r *AddWatchRequest) Append(b []byte) []byte {
	return AppendInt(AppendString(b, r.Path), int32(r.Mode))
}

// Decode reads the record.
func (r *AddWatchRequest) Decode(d *Decoder) { r.Path, r.Mode = d.String(), AddWatchMode(d.Int()) }

// SetWatches is the record of setWatches and setWatches2, which set a client's watches again after a reconnect. The
// lists must not be nil, since Apache's server fails on null. Each request adds to those before it, so a client whose
// paths are too long for one request sends several.
type SetWatches struct {
	RelativeZxid               int64 // the last zxid that the client has seen
	Data, Exist, Child         []string
	Persistent, PersistentTree []string // setWatches2 only
}

// Append appends the record of op, which is OpSetWatches or OpSetWatches2.
func (r *SetWatches) Append(b []byte, op Op) []byte {
	b = AppendLong(b, r.RelativeZxid)
	b = AppendStrings(AppendStrings(AppendStrings(b, r.Data), r.Exist), r.Child)
	if op == OpSetWatches2 {
		b = AppendStrings(AppendStrings(b, r.Persistent), r.PersistentTree)
	}
	return b
}

// Decode reads the record of op, which is OpSetWatches or OpSetWatches2.
func (r *SetWatches) Decode(d *Decoder, op Op) {
	*r = SetWatches{RelativeZxid: d.Long(), Data: d.Strings(), Exist: d.Strings(), Child: d.Strings()}
	if op == OpSetWatches2 {
		r.Persistent, r.PersistentTree = d.Strings(), d.Strings()
	}
}

// ReconfigRequest is the record of reconfig, which changes the ensemble's membership: either by NewMembers, all servers
// from now on, or by Joining and Leaving. Servers are given as in zoo.cfg, such as
// "server.4=host:2888:3888:participant;2181", and Leaving by their ids, such as "4,5"; commas separate them. A nil
// pointer is encoded as null: the client omitted the text.
type ReconfigRequest struct {
	Joining, Leaving, NewMembers *string
	CurConfigID                  int64 // expected config version, -1 for any
}

// Append appends the record.
func (r *ReconfigRequest) Append(b []byte) []byte {
	for _, s := range []*string{r.Joining, r.Leaving, r.NewMembers} {
		if s == nil {
			b = AppendNullString(b)
		} else {
			b = AppendString(b, *s)
		}
	}
	return AppendLong(b, r.CurConfigID)
}

// Decode reads the record.
func (r *ReconfigRequest) Decode(d *Decoder) {
	for _, p := range []**string{&r.Joining, &r.Leaving, &r.NewMembers} {
		*p = nil
		if s, ok := d.NullString(); ok {
			*p = &s
		}
	}
	r.CurConfigID = d.Long()
}

// AuthPacket is the record of auth, which adds an identity to the connection. Its frame has XidAuth. Type is always 0.
type AuthPacket struct {
	Type   int32
	Scheme string
	Auth   []byte
}

// Append appends the record.
func (r *AuthPacket) Append(b []byte) []byte {
	return AppendBuffer(AppendString(AppendInt(b, r.Type), r.Scheme), r.Auth)
}

// Decode reads the record.
func (r *AuthPacket) Decode(d *Decoder) { r.Type, r.Scheme, r.Auth = d.Int(), d.String(), d.Buffer() }

// SASLPacket is a SASL token, in either direction. A nil Token is encoded as null.
type SASLPacket struct{ Token []byte }

// Append appends the record.
func (r *SASLPacket) Append(b []byte) []byte { return AppendBuffer(b, r.Token) }

// Decode reads the record.
func (r *SASLPacket) Decode(d *Decoder) { r.Token = d.Buffer() }
