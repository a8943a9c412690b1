package zooid

import (
	"go/types"
	"runtime"
	"slices"
	"strings"
	"testing"
)

// perClient are the types of which there is one for each connection, session, identity, watcher or request that waits,
// by package.
var perClient = map[string][]string{
	"internal/busiest":     {"Client"},
	"internal/expiry":      {"lifetime"},
	"internal/kerberos":    {"login"},
	"internal/memory":      {"Holder"},
	"internal/quorum/peer": {"visit"},
	"internal/replica":     {"Client", "localSession", "longRead", "owner", "request"},
	"internal/sasl":        {"Server", "choice", "followed"},
	"internal/scram":       {"login"},
	"internal/server":      {"inTurn", "tlsHandshake"},
	"internal/socket":      {"Steady", "counted", "network"},
	"internal/tree":        {"session"},
	"internal/turns":       {"Queue", "Turn"},
	"internal/watch":       {"piece", "record", "watchedPath", "watcher"},
}

// ofAll are types of which a server has one, or one for each row of a table, whoever is connected. They aren't looked
// into.
var ofAll = []string{
	"internal/kerberos.Acceptor", "internal/memory.Buffers", "internal/memory.Room", "internal/metrics.Counter",
	"internal/replica.op", "internal/sasl.DigestMD5", "internal/sasl.Following", "internal/socket.Port",
	"internal/tree.Tree",
}

// counted are the fields of variable size in the types of perClient, each with what bounds it and what counts it. What
// is below such a field isn't looked into.
var counted = map[string]string{
	"internal/busiest.Client.identities":   "text of 4 identities (identitiesMax), each within auth.IDsBytesMax: clientBytes has room",
	"internal/busiest.Client.of":           "Client.ids, or what it was before it was replaced",
	"internal/busiest.Client.session":      "a number as text",
	"internal/kerberos.Principal.Names":    "from a ticket that the KDC has sealed; within auth.IDsBytesMax, or the login fails",
	"internal/kerberos.Principal.Realm":    "as Principal.Names",
	"internal/kerberos.context.key":        "a key of its type's size (checkKey)",
	"internal/kerberos.context.session":    "a key, from a ticket that the KDC has sealed",
	"internal/memory.Holder.owner":         "Client.address",
	"internal/replica.Client.Login":        "reader.sasl",
	"internal/replica.Client.Socket":       "server.clientSocket: a socket, and certificates that TLS keeps as well: clientBytes",
	"internal/replica.Client.address":      "the text of an address",
	"internal/replica.arrival.attach":      "a record of a connect request (jute.ConnectRequestSizeMax), until it is applied: clientBytes",
	"internal/replica.Client.established":  "a channel without values",
	"internal/replica.input.free":          "a channel of one empty value",
	"internal/replica.Client.grants":       "auth.IDsMax and IDsBytesMax; addClient counts them as identities",
	"internal/replica.Client.hello":        "its password has jute.PasswdSize bytes: ConnectRequestSizeMax, clientBytes",
	"internal/replica.Client.ids":          "auth.IDsMax and IDsBytesMax; addClient counts them as identities",
	"internal/replica.output.frames":       "outputPauseBytes, memory.Room for large replies; addClient counts it as output",
	"internal/replica.reader.recordIDs":    "Client.ids, or what it was before it was replaced",
	"internal/replica.reader.records":      "recordsKeepBytes between batches; addClient counts it (recordsKept) as unanswered",
	"internal/replica.Client.remote":       "the text of an address",
	"internal/replica.reader.sasl":         "the interface of the types in sasl, scram and kerberos that are looked at here",
	"internal/replica.output.spare":        "outputKeepBytes; addClient counts it as output",
	"internal/replica.Client.why":          "a sentence of this program, about one of its own limits",
	"internal/replica.localSession.enter":  "a record of fixed size: localBytes",
	"internal/replica.localSession.passwd": "jute.PasswdSize: localBytes",
	"internal/replica.namespaceRun.name":   "the first part of a path within metrics.KeyBytesMax",
	"internal/replica.owner.clients":       "an entry for each connection: clientBytes",
	"internal/replica.owner.name":          "an address or identity: ownersRestingMax, and auth.IDsBytesMax",
	"internal/replica.queue.items":         "unansweredMax; addClient counts it as unanswered",
	"internal/replica.request.body":        "unansweredBytesMax and unansweredTotalMax; queue.bytes counts it as unanswered",
	"internal/replica.setWatches.rest":     "a part of request.body",
	"internal/sasl.Server.nonce":           "of fixed size",
	"internal/sasl.choice.chosen":          "the interface of the types in sasl, scram and kerberos that are looked at here",
	"internal/sasl.choice.several":         "the mechanisms of the server",
	"internal/sasl.followed.Login":         "the interface of the types in sasl, scram and kerberos that are looked at here",
	"internal/sasl.followed.began":         "the users of the server, as they were when it began",
	"internal/sasl.followed.user":          "a name within responseBytesMax, which is in Client.ids as well",
	"internal/scram.login.exchange":        "two messages within tokenBytesMax (4 KiB): clientBytes",
	"internal/server.tlsHandshake.address": "the text of an address",
	"internal/socket.Steady.Conn":          "a socket: clientBytes",
	"internal/socket.Steady.TCP":           "a socket: clientBytes",
	"internal/socket.counted.Conn":         "a socket: connectionsMax of a port",
	"internal/socket.network.at":           "an entry for each network with a connection",
	"internal/socket.network.conns":        "an entry for each connection: clientBytes",
	"internal/tree.Scan.Body":              "memory.Room, ReplyBytesMax; addClient counts it as output",
	"internal/tree.Scan.IDs":               "Client.ids, or what it was before it was replaced",
	"internal/tree.Scan.Path":              "a part of request.body",
	"internal/turns.Queue.waiting":         "an entry for each connection: clientBytes",
}

// TestEverythingIsCounted walks the types that live for a connection or session, and fails for a field of variable size
// that no account knows (decision 089): a slice, map, string, channel or interface, or a pointer to such.
func TestEverythingIsCounted(t *testing.T) {
	t.Parallel()
	checked := map[string]*types.Package{"unsafe": types.Unsafe}
	packages := []string{"./internal/server", "./internal/kerberos", "./internal/scram"}
	for _, p := range listDeps(t, "linux", runtime.GOARCH, packages) {
		if p.ImportPath != "unsafe" {
			for _, err := range p.check(checked, runtime.GOARCH, false) {
				t.Fatal(err)
			}
		}
	}
	w := walk{seen: map[types.Type]bool{}, used: map[string]bool{}}
	for dir, names := range perClient {
		for _, name := range names {
			o := checked[module+dir].Scope().Lookup(name)
			if o == nil {
				t.Fatalf("%s has no type %s", dir, name)
			}
			w.of(o.Type(), dir+"."+name)
		}
	}
	slices.Sort(w.unknown)
	for _, field := range w.unknown {
		t.Errorf("%s: say in counted what bounds it, and which account counts it before its memory is taken", field)
	}
	for field := range counted {
		if !w.used[field] {
			t.Errorf("counted has %s, which isn't there", field)
		}
	}
}

// A walk finds fields of variable size.
type walk struct {
	seen    map[types.Type]bool
	used    map[string]bool // entries of counted
	unknown []string
}

// of walks a type; at names the field that has it.
func (w *walk) of(t types.Type, at string) {
	switch u := types.Unalias(t).(type) {
	case *types.Named:
		w.named(u, at)
	case *types.Pointer:
		w.of(u.Elem(), at)
	case *types.Array:
		w.of(u.Elem(), at)
	case *types.Struct:
		for f := range u.Fields() {
			w.field(f, at)
		}
	case *types.Basic:
		if u.Info()&types.IsString != 0 || u.Kind() == types.UnsafePointer {
			w.found(at)
		}
	case *types.Signature: // what a function keeps is a type of its own, or in the stack of a goroutine
	default: // a slice, map, channel or interface
		w.found(at)
	}
}

// named walks a type once: its fields are named after it.
func (w *walk) named(n *types.Named, at string) {
	for arg := range n.TypeArgs().Types() { // of atomic.Pointer
		w.of(arg, at)
	}
	p := n.Obj().Pkg()
	switch {
	case p == nil || !strings.HasPrefix(p.Path(), module):
		switch { // of the standard library
		case p != nil && slices.Contains([]string{"sync", "sync/atomic", "time", "net/netip"}, p.Path()):
		case n.Obj().Name() == "error":
		default:
			w.found(at)
		}
		return
	case w.seen[n] || slices.Contains(ofAll, strings.TrimPrefix(p.Path(), module)+"."+n.Obj().Name()):
		return
	}
	w.seen[n] = true
	if _, ok := n.Underlying().(*types.Struct); ok {
		at = strings.TrimPrefix(p.Path(), module) + "." + n.Obj().Name()
	}
	w.of(n.Underlying(), at)
}

func (w *walk) field(f *types.Var, of string) {
	name := of + "." + f.Name()
	if counted[name] != "" {
		w.used[name] = true
		return
	}
	w.of(f.Type(), name)
}

func (w *walk) found(at string) {
	if !slices.Contains(w.unknown, at) {
		w.unknown = append(w.unknown, at)
	}
}
