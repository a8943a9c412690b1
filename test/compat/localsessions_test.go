package compat

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/jute"
)

// TestLocalSessions plays one script of raw requests on ensembles with local sessions, without and with upgrading,
// against a follower and against the leader. Sessions, codes, owners, ends of connections, gauges and the dump are
// compared; the differences that are wanted are listed, and must be there.
func TestLocalSessions(t *testing.T) {
	reference, subject := programs(t)
	for _, upgrading := range []bool{false, true} {
		t.Run(fmt.Sprintf("upgrading=%t", upgrading), func(t *testing.T) {
			t.Parallel()
			var played [2]string
			for i, p := range []Program{reference, subject} {
				s := localScript{t: t, zxid: -1, servers: StartEnsemble(t, p, 3, Options{Config: map[string]string{
					"localSessionsEnabled": "true", "maxSessionTimeout": strconv.Itoa(localTimeoutMs),
					"localSessionsUpgradingEnabled": strconv.FormatBool(upgrading),
				}, Properties: scripted.Properties})}
				s.findLeader()
				for _, role := range []string{"follower", "leader"} {
					s.say("on a %s", role)
					s.play(role == "leader")
				}
				s.say("on a survivor")
				s.surviveLeader()
				played[i] = strings.NewReplacer("/follow", "ROOT", "/lead", "ROOT", "zookeeper: ", "").Replace(s.out.String())
				t.Logf("%s:\n%s", p.Name, played[i])
			}
			compareLocal(t, strconv.FormatBool(upgrading), played[0], played[1])
		})
	}
}

// A localDifference is a line that differs, as docs/protocol.md says.
type localDifference struct {
	on, upgrading      string // where the session is, "" for both a follower and the leader; "true", "false", "" for both
	reference, subject string
}

func (d *localDifference) applies(on, upgrading string) bool {
	return (d.on == on || d.on == "" && on != "survivor") && (d.upgrading == "" || d.upgrading == upgrading)
}

var localDifferences = []localDifference{
	// A follower of Apache's has the leader evaluate the multi, which knows nothing of the session.
	{"follower", "false", "writer again multi: ok, a zxid of its own: 0 ok | -112 Session expired | -2 RuntimeInconsistency", "writer again multi: ok, a zxid of its own: 0 ok | -120 Ephemeral node on local session | -2 RuntimeInconsistency"},
	{"follower", "false", "failing multi: ok, a zxid of its own: -112 Session expired | -2 RuntimeInconsistency", "failing multi: ok, a zxid of its own: -120 Ephemeral node on local session | -2 RuntimeInconsistency"},
	{"follower", "false", "first multi: ok, a zxid of its own: 0 ok | -112 Session expired", "first multi: ok, a zxid of its own: 0 ok | -120 Ephemeral node on local session"},
	// A session that has written is in the replicated table: it can be resumed anywhere, and its end is an entry.
	{"", "false", "writer again close: ok, the last zxid", "writer again close: ok, a zxid of its own"},
	{"", "false", "failing close: ok, the last zxid", "failing close: ok, a zxid of its own"},
	{"", "false", "first elsewhere: expired, timeout 0, then closed", "first elsewhere: resumed, timeout 100000"},
	{"", "false", "first elsewhere close: closed", "first elsewhere close: ok, a zxid of its own"},
	{"", "", "plain elsewhere: expired, timeout 0, then closed", "plain elsewhere: resumed, timeout 100000"},
	{"", "", "plain elsewhere create ROOT/moved 0: closed", "plain elsewhere create ROOT/moved 0: ok, a zxid of its own: ROOT/moved, no owner"},
	{"", "false", "plain elsewhere create ROOT/e 1: closed", "plain elsewhere create ROOT/e 1: Ephemeral node on local session, a zxid of its own"},
	{"", "true", "plain elsewhere create ROOT/e 1: closed", "plain elsewhere create ROOT/e 1: ok, a zxid of its own: ROOT/e, its own"},
	{"", "", "plain elsewhere close: closed", "plain elsewhere close: ok, a zxid of its own"},
	{"", "", "plain close: ok, the last zxid", "plain close: closed"},
	// The upgrade takes a zxid ahead of that of the request.
	{"", "true", "writer again create ROOT/e 1: ok, the second zxid from there: ROOT/e, its own", "writer again create ROOT/e 1: ok, a zxid of its own: ROOT/e, its own"},
	{"", "true", "failing create /no/parent 1: NoNode, the second zxid from there", "failing create /no/parent 1: NoNode, a zxid of its own"},
	{"", "true", "first multi: ok, the second zxid from there: 0 ok ROOT/m1 | 0 ok ROOT/m2", "first multi: ok, a zxid of its own: 0 ok ROOT/m1 | 0 ok ROOT/m2"},
	// The loss of the leader ends every local session of Apache's.
	{"survivor", "", "reader create /first 0: closed", "reader create /first 0: ok, a zxid of its own: /first, no owner"},
	{"survivor", "", "reader again: expired, timeout 0, then closed", "reader again: resumed, timeout 100000"},
}

// compareLocal compares two transcripts line by line: they must differ as localDifferences says, and only so.
func compareLocal(t *testing.T, upgrading, reference, subject string) {
	a, b := strings.Split(reference, "\n"), strings.Split(subject, "\n")
	if len(a) != len(b) {
		t.Fatalf("the reference's transcript has %d lines, the subject's %d", len(a), len(b))
	}
	on, seen := "", map[string]bool{}
	for i := range a {
		if where, ok := strings.CutPrefix(a[i], "on a "); ok {
			on = where
		}
		known := slices.IndexFunc(localDifferences, func(d localDifference) bool {
			return d.applies(on, upgrading) && d.reference == a[i] && d.subject == b[i]
		})
		switch {
		case known >= 0:
			seen[fmt.Sprint(on, known)] = true
		case a[i] != b[i]:
			t.Errorf("on a %s, line %d:\n  reference: %s\n  subject:   %s", on, i+1, a[i], b[i])
		}
	}
	for i, d := range localDifferences {
		for _, on := range []string{"follower", "leader", "survivor"} {
			if d.applies(on, upgrading) && !seen[fmt.Sprint(on, i)] {
				t.Errorf("on a %s, nothing differs as it should: %s", on, d.subject)
			}
		}
	}
}

// localTimeoutMs is the timeout of each session. None is to end during the script, even on a busy machine.
const localTimeoutMs = 100_000

// localScript is the script on one ensemble.
type localScript struct {
	t       *testing.T
	servers []*Server
	leader  int
	out     strings.Builder
	zxid    int64 // of the last answer; -1 before the first
}

// A localClient is one connection with a session.
type localClient struct {
	s      *localScript
	name   string
	conn   net.Conn
	id     int64
	passwd []byte
	xid    int32

	answered bool // the connect request was
}

// say adds a line to the transcript.
func (s *localScript) say(format string, args ...any) { fmt.Fprintf(&s.out, format+"\n", args...) }

func (s *localScript) findLeader() {
	for i, server := range s.servers {
		if strings.Contains(s.word(server, "srvr"), "Mode: leader") {
			s.leader = i
		}
	}
}

func (s *localScript) word(server *Server, word string) string {
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(scriptPatience))
	conn.Write([]byte(word))
	text, err := io.ReadAll(conn)
	if err != nil {
		s.t.Fatalf("%s: %v", word, err)
	}
	return string(text)
}

// connect asks for a new session, or for that of was, and says what came of it.
func (s *localScript) connect(name string, server *Server, was *localClient, passwd []byte) *localClient {
	conn, err := net.Dial("tcp", server.Addr)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(scriptPatience))
	req := jute.ConnectRequest{Timeout: localTimeoutMs, HasReadOnly: true, Passwd: make([]byte, jute.PasswdSize)}
	if was != nil {
		req.SessionID, req.Passwd = was.id, was.passwd
	}
	if passwd != nil {
		req.Passwd = passwd
	}
	conn.Write(jute.AppendFrame(nil, req.Append))
	c := &localClient{s: s, name: name, conn: conn}
	frame, err := jute.ReadFrame(conn, nil, 1<<20)
	if err != nil {
		s.say("%s: closed without an answer", name)
		return c
	}
	var res jute.ConnectResponse
	res.Decode(jute.NewDecoder(frame))
	c.id, c.passwd, c.answered = res.SessionID, bytes.Clone(res.Passwd), true
	switch {
	case res.SessionID == 0:
		s.say("%s: expired, timeout %d%s", name, res.Timeout, c.ends())
	case was != nil && res.SessionID == was.id:
		s.say("%s: resumed, timeout %d", name, res.Timeout)
	default:
		s.say("%s: a session of server %v, timeout %d, a password %v", name,
			res.SessionID>>56 == int64(1+slices.Index(s.servers, server)), res.Timeout, !bytes.Equal(res.Passwd,
				make([]byte, jute.PasswdSize)))
	}
	return c
}

// ends says whether the server closes the connection now.
func (c *localClient) ends() string {
	n, err := c.conn.Read(make([]byte, 1))
	var timeout net.Error
	switch {
	case n > 0:
		return ", then more"
	case errors.As(err, &timeout) && timeout.Timeout():
		return ", then nothing"
	}
	return ", then closed"
}

// call sends a request and says what its answer is; more reads the body.
func (c *localClient) call(what string, op jute.Op, record func([]byte) []byte, more func(d *jute.Decoder) string) {
	c.xid++
	c.conn.Write(jute.AppendRequest(nil, c.xid, op, record))
	c.answer(what, more)
}

func (c *localClient) answer(what string, more func(d *jute.Decoder) string) {
	frame, err := jute.ReadFrame(c.conn, nil, 1<<20)
	if err != nil {
		c.s.say("%s %s: closed", c.name, what)
		return
	}
	var h jute.ReplyHeader
	d := jute.NewDecoder(frame)
	h.Decode(d)
	text := ""
	if h.Err == jute.OK && more != nil {
		text = ": " + more(d)
	}
	if h.Xid == jute.XidNotification {
		var ev jute.WatcherEvent
		ev.Decode(d)
		c.s.say("%s %s: event %v %s", c.name, what, ev.Type, ev.Path)
		c.answer(what, more)
		return
	}
	change := "a zxid of its own"
	switch {
	case h.Zxid == c.s.zxid || c.s.zxid < 0:
		change = "the last zxid"
	case h.Zxid == c.s.zxid+2:
		change = "the second zxid from there"
	}
	c.s.say("%s %s: %v, %s%s", c.name, what, h.Err, change, text)
	c.s.zxid = h.Zxid
}

func (c *localClient) create(path string, mode jute.CreateMode) {
	r := jute.CreateRequest{Path: path, ACL: jute.WorldACL(jute.PermAll), Flags: mode}
	c.call(fmt.Sprintf("create %s %d", path, mode), jute.OpCreate2, r.Append, func(d *jute.Decoder) string {
		var stat jute.Stat
		path := d.String()
		stat.Decode(d)
		return path + ", " + c.owner(stat)
	})
}

func (c *localClient) owner(stat jute.Stat) string {
	switch stat.EphemeralOwner {
	case 0:
		return "no owner"
	case c.id:
		return "its own"
	}
	return "of another session"
}

func (c *localClient) multi(what string, ops ...jute.MultiOp) {
	for i := range ops {
		ops[i].ACL = jute.WorldACL(jute.PermAll)
	}
	c.call(what, jute.OpMulti,
		func(b []byte) []byte { return append(b, jute.AppendMulti(nil, ops)...) }, func(d *jute.Decoder) string {
			var texts []string
			results, err := jute.DecodeMultiResponse(d)
			if err != nil {
				return err.Error()
			}
			for _, r := range results {
				texts = append(texts, strings.TrimSpace(fmt.Sprintf("%d %v %s", r.Err, r.Err, r.Path)))
			}
			return strings.Join(texts, " | ")
		})
}

func (c *localClient) exists(path string, watch bool) {
	r := jute.PathWatchRequest{Path: path, Watch: watch}
	c.call("exists "+path, jute.OpExists, r.Append, func(d *jute.Decoder) string {
		var stat jute.Stat
		stat.Decode(d)
		return c.owner(stat)
	})
}

func (c *localClient) sync() {
	c.call("sync", jute.OpSync, func(b []byte) []byte { return jute.AppendString(b, "/") }, nil)
}

func (c *localClient) close() {
	c.call("close", jute.OpCloseSession, nil, nil)
	c.s.say("%s%s", c.name, c.ends())
}

// gauges says what mntr and dump tell of sessions.
func (s *localScript) gauges(server *Server) {
	for line := range strings.Lines(s.word(server, "mntr")) {
		if strings.HasPrefix(line, "zk_global_sessions") || strings.HasPrefix(line, "zk_local_sessions") ||
			strings.HasPrefix(line, "zk_ephemerals_count") {
			s.out.WriteString(line)
		}
	}
	dump, _, _ := strings.Cut(s.word(server, "dump"), "Connections dump:")
	var paths []string
	for line := range strings.Lines(dump) {
		line = setsText.ReplaceAllString(expiryText.ReplaceAllString(idText.ReplaceAllString(line, "ID"), "expire at TIME:"),
			"Sets (N)")
		switch {
		case strings.HasPrefix(line, "0 expire"): // a bucket that Apache keeps for later
		case strings.HasPrefix(line, "\t/"): // in no certain order
			paths = append(paths, line)
		default:
			s.out.WriteString(line)
		}
	}
	slices.Sort(paths)
	s.out.WriteString(strings.Join(paths, ""))
}

var (
	idText     = regexp.MustCompile(`0x[0-9a-f]+`)
	expiryText = regexp.MustCompile(`expire at .*:`)
	setsText   = regexp.MustCompile(`Sets \(\d+\)`)
)

// play plays the script with sessions of the leader, or of a follower.
func (s *localScript) play(onLeader bool) {
	at := s.servers[s.leader]
	next := s.servers[(s.leader+1)%3]
	root := "/lead"
	if !onLeader {
		at, next, root = next, at, "/follow"
	}
	quiet := s.connect("reader", at, nil, nil)
	quiet.exists("/", true)
	quiet.sync()
	s.gauges(at)
	s.connect("reader, wrong password", at, quiet, make([]byte, 16))
	quiet = s.connect("reader again", at, quiet, nil)
	set := jute.SetWatches{Data: []string{"/"}, Exist: []string{}, Child: []string{}, RelativeZxid: s.zxid}
	quiet.call("setWatches", jute.OpSetWatches, func(b []byte) []byte { return set.Append(b, jute.OpSetWatches) }, nil)
	s.connect("reader elsewhere", next, quiet, nil)
	quiet.exists("/", false)
	quiet.close()
	s.connect("reader after close", at, quiet, nil)

	w := s.connect("writer", at, nil, nil)
	w.create(root, jute.ModePersistent)
	w.exists(root, true)
	setData := jute.SetDataRequest{Path: root, Version: -1}
	w.call("setData", jute.OpSetData, setData.Append, nil)
	s.gauges(at)
	w = s.connect("writer again", at, w, nil)
	w.create(root+"/p", jute.ModePersistentSequential)
	s.ephemerals(w, root)
	s.gauges(at)
	w.close()
	s.connect("writer after close", at, w, nil)
	reader := s.connect("reader", at, nil, nil)
	reader.exists(root+"/e", false)
	reader.close()

	failing := s.connect("failing", at, nil, nil)
	failing.create("/no/parent", jute.ModeEphemeral)
	failing.multi("multi", jute.MultiOp{Op: jute.OpCreate, Path: root + "/m", Flags: jute.ModeEphemeral},
		jute.MultiOp{Op: jute.OpDelete, Path: "/no/parent", Version: -1})
	s.gauges(at)
	failing.close()

	first := s.connect("first", at, nil, nil)
	first.multi("multi", jute.MultiOp{Op: jute.OpCreate, Path: root + "/m1"},
		jute.MultiOp{Op: jute.OpCreate2, Path: root + "/m2", Flags: jute.ModeEphemeral})
	first.exists(root+"/m2", false)
	moved := s.connect("first elsewhere", next, first, nil)
	moved.close()

	plain := s.connect("plain", at, nil, nil)
	plain.create(root+"/plain", jute.ModePersistent)
	moved = s.connect("plain elsewhere", next, plain, nil)
	moved.create(root+"/moved", jute.ModePersistent)
	moved.create(root+"/e", jute.ModeEphemeral)
	moved.close()
	plain.close()
}

// surviveLeader kills the leader under a session of another server, which then makes its first write.
func (s *localScript) surviveLeader() {
	at := s.servers[(s.leader+1)%3]
	reader := s.connect("reader", at, nil, nil)
	reader.exists("/", false)
	s.servers[s.leader].Kill()
	reader.create("/first", jute.ModePersistent)
	for deadline := time.Now().Add(startPatience); ; time.Sleep(100 * time.Millisecond) {
		said := s.out.String()
		again := s.connect("reader again", at, reader, nil)
		if again.answered || time.Now().After(deadline) {
			return
		}
		s.out.Reset()
		s.out.WriteString(said)
	}
}

// ephemerals asks for ephemeral znodes in every way.
func (s *localScript) ephemerals(c *localClient, root string) {
	c.create(root+"/e", jute.ModeEphemeral)
	c.create(root+"/e-", jute.ModeEphemeralSequential)
	c.create("bad", jute.ModeEphemeral)
	c.create(root+"/x", 77)
	c.multi("multi", jute.MultiOp{Op: jute.OpCreate, Path: root + "/a"},
		jute.MultiOp{Op: jute.OpCreate, Path: root + "/b", Flags: jute.ModeEphemeral}, jute.MultiOp{
			Op: jute.OpDelete, Path: root + "/a", Version: -1,
		})
	c.exists(root+"/b", false)
	r := jute.CreateRequest{Path: root + "/c", ACL: jute.WorldACL(jute.PermAll), Flags: jute.ModeContainer}
	c.call("createContainer", jute.OpCreateContainer, r.Append, nil)
	c.call("getEphemerals", jute.OpGetEphemerals,
		func(b []byte) []byte { return jute.AppendString(b, "/") }, func(d *jute.Decoder) string {
			paths := d.Strings()
			slices.Sort(paths)
			return fmt.Sprint(paths)
		})
}
