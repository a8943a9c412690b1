package jute

import (
	"bufio"
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// wireRecord is what every record of a fixed shape can do.
type wireRecord interface {
	Append(b []byte) []byte
	Decode(d *Decoder)
}

// goldenFrame is one line of testdata/golden.
type goldenFrame struct {
	file       string
	line       int
	conn       string
	fromClient bool
	op         string
	frame      []byte
}

func readGolden(t testing.TB) []goldenFrame {
	t.Helper()
	files, err := filepath.Glob("testdata/golden/*.txt")
	if err != nil || len(files) == 0 {
		t.Fatalf("no golden frames: %v", err)
	}
	var frames []goldenFrame
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		s := bufio.NewScanner(bytes.NewReader(text))
		s.Buffer(nil, len(text)+1)
		for n := 1; s.Scan(); n++ {
			f := strings.Fields(s.Text())
			if f[0] == "#" {
				continue
			}
			if len(f) == 3 {
				f = append(f, "") // an empty frame
			}
			frame, err := hex.DecodeString(f[3])
			if err != nil {
				t.Fatalf("%s:%d: %v", file, n, err)
			}
			frames = append(frames, goldenFrame{file, n, f[0], f[1] == ">", f[2], frame})
		}
	}
	return frames
}

// TestGolden decodes every frame that a real client and a real server exchanged
// and encodes it again to the same bytes.
func TestGolden(t *testing.T) {
	seen := map[string]bool{}
	frames := readGolden(t)
	refused := refused(frames)
	for _, g := range frames {
		t.Run(fmt.Sprintf("%s:%d:%s", filepath.Base(g.file), g.line, g.op), func(t *testing.T) {
			var got []byte
			var err error
			if g.fromClient {
				seen["> "+g.op] = true
				got, err = recodeRequest(g.op, g.frame)
			} else {
				var code Code
				got, code, err = recodeReply(g.op, g.frame)
				seen["< "+g.op] = true
				seen["! "+code.String()] = true
			}
			switch {
			case strings.HasPrefix(g.op, "multi") && g.fromClient && refused[g.key(NewDecoder(g.frame).Int())]:
				if g.acceptable() {
					t.Errorf("%x is taken, and Apache refuses it", g.frame)
				}
			case err != nil:
				t.Errorf("%x: %v", g.frame, err)
			case !bytes.Equal(got, g.frame):
				t.Errorf("decoded and encoded again, the frame differs:\nhave %x\nwant %x", got, g.frame)
			}
		})
	}
	for _, want := range goldenMustHave {
		if !seen[want] {
			t.Errorf("no golden frame has %q; it has %v", want, slices.Sorted(maps.Keys(seen)))
		}
	}
}

// refused returns the requests, by file, connection and xid, that Apache
// answered with MarshallingError.
func refused(frames []goldenFrame) map[string]bool {
	found := map[string]bool{}
	for _, g := range frames {
		if d := NewDecoder(g.frame); !g.fromClient && g.op != "connect" {
			var h ReplyHeader
			h.Decode(d)
			found[g.key(h.Xid)] = h.Err == ErrMarshallingError
		}
	}
	return found
}

func (g *goldenFrame) key(xid int32) string { return fmt.Sprint(g.file, g.conn, xid) }

// acceptable reports whether g is a multi that decodes and whose operations
// suit its op code.
func (g *goldenFrame) acceptable() bool {
	d := NewDecoder(g.frame)
	var h RequestHeader
	h.Decode(d)
	ops, err := DecodeMulti(d)
	return err == nil && (len(ops) == 0 || ops[0].IsRead() == (h.Op == OpMultiRead))
}

var goldenMustHave = strings.Split(strings.TrimSpace(`
> connect
> create
> create2
> createContainer
> createTTL
> delete
> deleteContainer
> exists
> getData
> setData
> getACL
> setACL
> getChildren
> getChildren2
> getEphemerals
> getAllChildrenNumber
> sync
> ping
> check
> multi
> multiRead
> reconfig
> checkWatches
> removeWatches
> addWatch
> setWatches
> setWatches2
> auth
> sasl
> whoAmI
> closeSession
< connect
< create
< create2
< createContainer
< createTTL
< delete
< exists
< getData
< setData
< getACL
< setACL
< getChildren
< getChildren2
< getEphemerals
< getAllChildrenNumber
< sync
< ping
< multi
< multiRead
< reconfig
< checkWatches
< removeWatches
< addWatch
< setWatches
< setWatches2
< auth
< sasl
< whoAmI
< closeSession
< notification
! ok
! NoNode
! NodeExists
! BadVersion
! Directory not empty
! NoChildrenForEphemerals
! InvalidACL
! NoAuth
! No such watcher
! AuthFailed
! BadArguments
! MarshallingError
! Unimplemented
`), "\n")

// recodeRequest decodes and encodes a client's frame.
func recodeRequest(op string, frame []byte) ([]byte, error) {
	d := NewDecoder(frame)
	if op == "connect" {
		var r ConnectRequest
		r.Decode(d)
		return r.Append(nil), d.Err()
	}
	var h RequestHeader
	h.Decode(d)
	if d.Err() == nil && h.Op.String() != op {
		return nil, fmt.Errorf("the header says %s", h.Op)
	}
	return recodeRequestBody(h.Append(nil), h.Op, d)
}

func recodeRequestBody(b []byte, op Op, d *Decoder) ([]byte, error) {
	switch op {
	case OpMulti, OpMultiRead:
		ops, err := DecodeMulti(d)
		return AppendMulti(b, ops), err
	case OpSetWatches, OpSetWatches2:
		var r SetWatches
		r.Decode(d, op)
		return r.Append(b, op), d.Err()
	}
	if r := requestRecord(op); r != nil {
		r.Decode(d)
		return r.Append(b), d.Err()
	}
	return append(b, d.Rest()...), d.Err() // no body
}

// requestRecord returns a zero record for the body of a request of op, nil if it
// has none or one whose shape isn't fixed.
func requestRecord(op Op) wireRecord {
	switch op {
	case OpCreate, OpCreate2, OpCreateContainer:
		return new(CreateRequest)
	case OpCreateTTL:
		return new(CreateTTLRequest)
	case OpDelete, OpCheck:
		return new(PathVersionRequest)
	case OpExists, OpGetData, OpGetChildren, OpGetChildren2:
		return new(PathWatchRequest)
	case OpSetData:
		return new(SetDataRequest)
	case OpGetACL, OpSync, OpGetEphemerals, OpGetAllChildrenNumber, OpDeleteContainer:
		return new(PathRequest)
	case OpSetACL:
		return new(SetACLRequest)
	case OpReconfig:
		return new(ReconfigRequest)
	case OpCheckWatches, OpRemoveWatches:
		return new(WatchesRequest)
	case OpAddWatch:
		return new(AddWatchRequest)
	case OpAuth:
		return new(AuthPacket)
	case OpSASL:
		return new(SASLPacket)
	case OpCreateSession:
		return new(createSession)
	}
	return nil
}

// createSession is the record of createSession: the session timeout in milliseconds. Clients never send it.
type createSession struct{ Timeout int32 }

func (r *createSession) Append(b []byte) []byte { return AppendInt(b, r.Timeout) }

func (r *createSession) Decode(d *Decoder) { r.Timeout = d.Int() }

// replyRecord returns a zero record for the body of a successful reply to op, or
// nil as requestRecord does.
func replyRecord(op Op) wireRecord {
	switch op {
	case OpNotification:
		return new(WatcherEvent)
	case OpCreate, OpSync:
		return new(PathResponse)
	case OpCreate2, OpCreateContainer, OpCreateTTL:
		return new(Create2Response)
	case OpExists, OpSetData, OpSetACL:
		return new(Stat)
	case OpGetData, OpReconfig:
		return new(GetDataResponse)
	case OpGetACL:
		return new(GetACLResponse)
	case OpGetChildren, OpGetEphemerals:
		return new(ChildrenResponse)
	case OpGetChildren2:
		return new(Children2Response)
	case OpGetAllChildrenNumber, OpAddWatch:
		return new(IntResponse)
	case OpWhoAmI:
		return new(WhoAmIResponse)
	case OpSASL:
		return new(SASLPacket)
	}
	return nil
}

// recodeReply decodes and encodes a server's frame.
func recodeReply(op string, frame []byte) ([]byte, Code, error) {
	d := NewDecoder(frame)
	if op == "connect" {
		var r ConnectResponse
		r.Decode(d)
		return r.Append(nil), OK, d.Err()
	}
	var h ReplyHeader
	h.Decode(d)
	b := h.Append(nil)
	if h.Err != OK && d.Remaining() == 0 {
		return b, h.Err, d.Err()
	}
	b, err := recodeReplyBody(b, opNamed(op), d)
	return b, h.Err, err
}

func recodeReplyBody(b []byte, op Op, d *Decoder) ([]byte, error) {
	if op == OpMulti || op == OpMultiRead {
		results, err := DecodeMultiResponse(d)
		for i := range results {
			b = results[i].Append(b)
		}
		return AppendMultiEnd(b), err
	}
	if r := replyRecord(op); r != nil {
		r.Decode(d)
		return r.Append(b), d.Err()
	}
	return append(b, d.Rest()...), d.Err()
}

func opNamed(name string) Op {
	for op, row := range ops {
		if row.name == name {
			return op
		}
	}
	return Op(-99)
}
