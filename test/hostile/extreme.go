package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"strings"

	"github.com/zooid-project/zooid/jute"
)

// frameMax is the size of the largest frame that a server accepts by default.
const frameMax = jute.MaxBufferDefault

// operations are the operations that a client may put in a request's header:
// those that exist, those that only servers use, and some that don't exist.
var operations = []jute.Op{
	jute.OpNotification, jute.OpCreate, jute.OpDelete, jute.OpExists, jute.OpGetData, jute.OpSetData, jute.OpGetACL,
	jute.OpSetACL, jute.OpGetChildren, jute.OpSync, jute.OpPing, jute.OpGetChildren2, jute.OpCheck, jute.OpMulti,
	jute.OpCreate2, jute.OpReconfig, jute.OpCheckWatches, jute.OpRemoveWatches, jute.OpCreateContainer,
	jute.OpDeleteContainer, jute.OpCreateTTL, jute.OpMultiRead, jute.OpAuth, jute.OpSetWatches, jute.OpSASL,
	jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpSetWatches2, jute.OpAddWatch, jute.OpWhoAmI,
	jute.OpCreateSession, jute.OpCloseSession, jute.OpError,
	10, 99, 127, 128, 1 << 20, math.MaxInt32, math.MinInt32, -2, -100,
}

// An extreme makes arguments at the edge of what the protocol allows.
type extreme struct{ *rand.Rand }

func pick[T any](x extreme, list []T) T { return list[x.IntN(len(list))] }

func (x extreme) int() int32 {
	return pick(x, []int32{0, 1, -1, 2, 7, math.MaxInt32, math.MinInt32, math.MaxInt32 - 1, int32(x.Uint32())})
}

func (x extreme) long() int64 {
	return pick(x, []int64{
		0, 1, -1, 5000, math.MaxInt64, math.MinInt64, jute.TTLMax, jute.TTLMax + 1, 1 << 62, int64(x.Uint64()),
	})
}

// rare reports whether something large is due: most requests are small, since
// otherwise only the large ones would be tried.
func (x extreme) rare() bool { return x.IntN(25) == 0 }

// size returns a number of bytes or elements, up to most.
func (x extreme) size(most int) int {
	if x.rare() {
		return pick(x, []int{most, most - 1, most / 2, most / 16})
	}
	return x.IntN(20)
}

func (x extreme) data() []byte {
	if x.IntN(5) == 0 {
		return nil
	}
	if x.IntN(5) == 0 {
		return pick(x, settings)
	}
	return make([]byte, x.size(frameMax-200))
}

// settings would take the service away from honest clients, as the data of a znode below /zookeeper that the sender may
// change.
var settings = [][]byte{
	[]byte("deny all below /\n"), []byte("deny read,write,create,delete,admin below /\n"),
	[]byte("new below / acl world:anyone:r\n"), []byte("count=1,bytes=1;byteHardLimit=1;countHardLimit=1"),
	[]byte("requests=1, bytes=1, watches=1"), []byte(strings.Repeat("deny all below /crash\n", 1000)),
}

// name returns the name of a znode, valid or not.
func (x extreme) name() string {
	return pick(x, []string{
		fmt.Sprint("n", x.IntN(50)), fmt.Sprint("n", x.IntN(50)), fmt.Sprint("n", x.IntN(50)),
		"", ".", "..", "...", " ", "a\x00b", "\x00", "\x01", "\x7f", "\u0085", "\xed\xa0\x80",
		"\xff\xfe", "\xf8\x88\x80\x80\x80",
		"\U0010ffff", "\ufff0", "\uf8ff", "-0000000001", "2147483647", strings.Repeat("x", x.size(frameMax-200)),
		strings.Repeat("ü", x.size(1000)), "zookeeper", "%s%n", "a\nb", "a\r\n\x1b[2J",
	})
}

// path returns a path to write to: below hostileRoot, or one that can't exist.
func (x extreme) path() string {
	switch x.IntN(12) {
	case 0:
		return hostileRoot
	case 1:
		return pick(x, []string{
			"", "hostile", "//", hostileRoot + "/", hostileRoot + "//a", hostileRoot + "/../a", "/\x00", "/./",
		})
	case 2:
		return hostileRoot + strings.Repeat("/d", 1+x.size((frameMax-200)/2))
	case 3:
		return hostileRoot + "/" + x.name() + "/" + x.name()
	case 4:
		return pick(x, []string{
			"/zookeeper", "/zookeeper/config", "/zookeeper/config/x", "/zookeeper/quota/zookeeper_limits",
			"/zookeeper/quota" + hostileRoot, "/zookeeper/quota" + hostileRoot + "/zookeeper_limits",
			"/zookeeper/quota" + hostileRoot + "/zookeeper_stats", "/zookeeper/policy", "/zookeeper/policy/x",
			"/zookeeper/limits", "/zookeeper/limits/connection", "/zookeeper/limits/%2F",
			"/zookeeper/quota/crash/zookeeper_limits",
		})
	}
	return hostileRoot + "/" + x.name()
}

// readPath returns a path to read, which may be one of other clients.
func (x extreme) readPath() string {
	if x.IntN(4) == 0 {
		return pick(x, []string{"/", "/zookeeper/quota", "/crash", "/crash/a"})
	}
	return x.path()
}

func (x extreme) paths(most int) []string {
	list := make([]string, x.size(most))
	for i := range list {
		list[i] = fmt.Sprint("/w", i)
	}
	if len(list) > 0 {
		list[0] = x.readPath()
	}
	return list
}

func (x extreme) id() jute.ID {
	return pick(x, []jute.ID{
		{Scheme: "world", ID: "anyone"}, {Scheme: "auth"}, {Scheme: "digest", ID: "a:b"}, {Scheme: "ip", ID: "127.0.0.1/8"},
		{Scheme: "ip", ID: "::/0"}, {Scheme: "ip", ID: "1.2.3.4/99"}, {Scheme: "super", ID: "super"},
		{Scheme: "sasl", ID: "x"},
		{Scheme: "x509", ID: "CN=*"}, {Scheme: "", ID: ""}, {Scheme: "zooid", ID: "any"}, {Scheme: x.name(), ID: x.name()},
	})
}

func (x extreme) acl() []jute.ACL {
	if x.IntN(3) > 0 {
		return jute.WorldACL(jute.PermAll)
	}
	list := make([]jute.ACL, x.size(20_000))
	for i := range list {
		list[i] = jute.ACL{Perms: jute.Perm(x.int()), ID: jute.ID{Scheme: "digest", ID: fmt.Sprint("u", i, ":x")}}
		if x.IntN(4) == 0 {
			list[i].ID = x.id()
		}
	}
	return list
}

func (x extreme) mode() jute.CreateMode {
	if x.IntN(8) == 0 {
		return jute.CreateMode(x.int())
	}
	return jute.CreateMode(x.IntN(8) - 1)
}

// members returns server lines with addresses at which no server answers.
func (x extreme) members() *string {
	if x.IntN(3) == 0 {
		return nil
	}
	var lines []string
	for i := range x.size(2000) {
		const form = "server.%d=127.0.0.%d:%d:%d:participant;1"
		lines = append(lines, fmt.Sprintf(form, i+4, x.IntN(256), x.IntN(65536), x.IntN(65536)))
	}
	lines = append(lines, pick(x, []string{"", "server.1", "server.-1=a:1:2", "version=ff", "4,5", "1,2,3", "\x00"}))
	text := strings.Join(lines, pick(x, []string{"\n", ","}))
	return &text
}

func (x extreme) create() jute.CreateRequest {
	return jute.CreateRequest{Path: x.path(), Data: x.data(), ACL: x.acl(), Flags: x.mode()}
}

// multi returns the operations of a multi, writes or reads.
func (x extreme) multi(read bool) []jute.MultiOp {
	ops := make([]jute.MultiOp, x.size(9000))
	for i := range ops {
		o := &ops[i]
		o.Path, o.Version = x.shortPath(), x.int()
		switch {
		case read != (x.IntN(400) == 0): // a mix is refused
			o.Op = pick(x, []jute.Op{jute.OpGetData, jute.OpGetChildren})
		default:
			o.Op = pick(x, []jute.Op{
				jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer, jute.OpCreateTTL, jute.OpDelete,
				jute.OpSetData, jute.OpCheck,
			})
			o.Flags, o.TTL, o.ACL = jute.CreateMode(x.IntN(5)), 1+x.Int64N(1000), jute.WorldACL(jute.PermAll)
		}
	}
	return ops
}

// shortPath returns a path so short that thousands fit into a frame.
func (x extreme) shortPath() string { return fmt.Sprintf("%s/n%d", hostileRoot, x.IntN(50)) }

// record returns the record of a request, nearly always a well-formed one.
func (x extreme) record(op jute.Op) []byte {
	b := x.wellFormed(op)
	if len(b) > frameMax-jute.RequestHeaderSize { // a longer one would only end the connection
		b = b[:frameMax-jute.RequestHeaderSize]
	}
	if x.IntN(60) == 0 && len(b) > 0 {
		b = b[:x.IntN(len(b))]
	}
	if x.IntN(60) == 0 {
		b = append(b, make([]byte, x.IntN(100))...)
	}
	return b
}

func (x extreme) wellFormed(op jute.Op) []byte {
	switch op {
	case jute.OpCreate, jute.OpCreate2, jute.OpCreateContainer:
		q := x.create()
		return q.Append(nil)
	case jute.OpCreateTTL:
		return (&jute.CreateTTLRequest{CreateRequest: x.create(), TTL: x.long()}).Append(nil)
	case jute.OpDelete, jute.OpCheck:
		return (&jute.PathVersionRequest{Path: x.path(), Version: x.int()}).Append(nil)
	case jute.OpExists, jute.OpGetData, jute.OpGetChildren, jute.OpGetChildren2:
		return (&jute.PathWatchRequest{Path: x.readPath(), Watch: x.IntN(2) == 0}).Append(nil)
	case jute.OpSetData:
		return (&jute.SetDataRequest{Path: x.path(), Data: x.data(), Version: x.int()}).Append(nil)
	case jute.OpGetACL, jute.OpSync, jute.OpGetEphemerals, jute.OpGetAllChildrenNumber, jute.OpDeleteContainer:
		return (&jute.PathRequest{Path: x.readPath()}).Append(nil)
	case jute.OpSetACL:
		return (&jute.SetACLRequest{Path: x.path(), ACL: x.acl(), Version: x.int()}).Append(nil)
	case jute.OpMulti, jute.OpMultiRead:
		return jute.AppendMulti(nil, x.multi(op == jute.OpMultiRead))
	case jute.OpReconfig:
		q := jute.ReconfigRequest{Joining: x.members(), Leaving: x.members(), NewMembers: x.members(), CurConfigID: x.long()}
		return q.Append(nil)
	case jute.OpCheckWatches, jute.OpRemoveWatches:
		return (&jute.WatchesRequest{Path: x.readPath(), Type: jute.WatcherType(x.IntN(8))}).Append(nil)
	case jute.OpAddWatch:
		return (&jute.AddWatchRequest{Path: x.readPath(), Mode: jute.AddWatchMode(x.int())}).Append(nil)
	case jute.OpSetWatches, jute.OpSetWatches2:
		w := jute.SetWatches{RelativeZxid: x.long(), Data: x.paths(90_000), Exist: x.paths(1000), Child: x.paths(1000)}
		w.Persistent, w.PersistentTree = x.paths(1000), x.paths(1000)
		return w.Append(nil, op)
	case jute.OpAuth:
		auth := pick(x, [][]byte{[]byte("user:password"), []byte(x.name()), {}, nil, make([]byte, x.size(frameMax-200))})
		scheme := pick(x, []string{"digest", "digest", "digest", "ip", "sasl", "x509", "world", "", x.name()})
		return (&jute.AuthPacket{Type: x.int(), Scheme: scheme, Auth: auth}).Append(nil)
	case jute.OpSASL:
		token := pick(x, [][]byte{nil, {}, []byte(`username="a",realm="b",nonce="c"`), []byte(x.name())})
		return (&jute.SASLPacket{Token: token}).Append(nil)
	case jute.OpCreateSession:
		return jute.AppendInt(nil, x.int()) // the timeout
	}
	return make([]byte, x.size(1000))
}
