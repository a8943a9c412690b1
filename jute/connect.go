package jute

// ConnectRequest is the first frame that a client sends. It has no header.
type ConnectRequest struct {
	ProtocolVersion int32  // always 0
	LastZxidSeen    int64  // a server that hasn't applied it refuses the client
	Timeout         int32  // requested session timeout, in milliseconds
	SessionID       int64  // the session to resume; 0 for a new one
	Passwd          []byte // the session's, PasswdSize bytes; zeros for a new one
	ReadOnly        bool   // the client accepts a read-only server

	// HasReadOnly is false for the old form of the record, which ends before ReadOnly. The response must then have the
	// old form too.
	HasReadOnly bool
}

// PasswdSize is the size of a session password in bytes.
const PasswdSize = 16

// ConnectRequestSizeMax bounds the payload of the first frame, in bytes, as the limit of ReadFrame. A request with a
// password of PasswdSize takes 45; the rest is for unusual clients.
const ConnectRequestSizeMax = 4 << 10

// Append appends the record, in the old form if HasReadOnly is false.
func (r *ConnectRequest) Append(b []byte) []byte {
	b = AppendLong(AppendInt(b, r.ProtocolVersion), r.LastZxidSeen)
	b = AppendLong(AppendInt(b, r.Timeout), r.SessionID)
	b = AppendBuffer(b, r.Passwd)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads the record in either form: in the old one if no bytes are left for the last field.
func (r *ConnectRequest) Decode(d *Decoder) {
	*r = ConnectRequest{
		ProtocolVersion: d.Int(), LastZxidSeen: d.Long(), Timeout: d.Int(), SessionID: d.Long(), Passwd: d.Buffer(),
	}
	if d.Err() == nil && d.Remaining() > 0 {
		r.ReadOnly, r.HasReadOnly = d.Bool(), true
	}
}

// ConnectResponse is the first frame that a server sends. It has no header. A Timeout of 0 means that the session is
// gone; the server then closes the connection.
type ConnectResponse struct {
	ProtocolVersion int32
	Timeout         int32 // granted session timeout, in milliseconds
	SessionID       int64
	Passwd          []byte
	ReadOnly        bool // the server is read-only
	HasReadOnly     bool // as in the request
}

// Append appends the record, in the old form if HasReadOnly is false.
func (r *ConnectResponse) Append(b []byte) []byte {
	b = AppendInt(AppendInt(b, r.ProtocolVersion), r.Timeout)
	b = AppendBuffer(AppendLong(b, r.SessionID), r.Passwd)
	if r.HasReadOnly {
		b = AppendBool(b, r.ReadOnly)
	}
	return b
}

// Decode reads the record in either form.
func (r *ConnectResponse) Decode(d *Decoder) {
	*r = ConnectResponse{ProtocolVersion: d.Int(), Timeout: d.Int(), SessionID: d.Long(), Passwd: d.Buffer()}
	if d.Err() == nil && d.Remaining() > 0 {
		r.ReadOnly, r.HasReadOnly = d.Bool(), true
	}
}
