package server

import (
	"encoding/binary"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zooid-project/zooid/internal/quorum"
	"github.com/zooid-project/zooid/internal/replica"
	"github.com/zooid-project/zooid/internal/tree"
	"github.com/zooid-project/zooid/jute"
)

var rewrite = flag.Bool("rewrite", false, "write the transcripts in testdata anew")

// A wordStage is a real server with clients that speak the protocol by hand, for
// transcripts of what the four-letter words say of them.
type wordStage struct {
	t       *testing.T
	s       *Server
	clients map[string]*wordClient
	names   []string // of clients, in the order in which they connected
}

// wordClient has one session and waits for each reply.
type wordClient struct {
	conn    net.Conn
	xid     int32
	session int64
	passwd  []byte
}

func newWordStage(t *testing.T, opt Options) *wordStage {
	t.Helper()
	opt.DataDir, opt.Listen = t.TempDir(), []string{"127.0.0.1:0"}
	if opt.FourLetterWords == nil {
		opt.FourLetterWords = []string{"*"}
	}
	opt.Version = "9.8.7-test, built on 2026-01-01 00:00 UTC"
	opt.MaxClientConnections = 60
	opt.Settings.FeatureLevel, opt.Settings.ExtendedTypes = tree.FeatureLevelMax, true
	s, err := Open(opt)
	if err != nil {
		t.Fatal(err)
	}
	st := &wordStage{t: t, s: s, clients: map[string]*wordClient{}}
	t.Cleanup(func() {
		for _, c := range st.clients {
			c.conn.Close()
		}
		s.Close()
	})
	st.await("the server serves", func() bool { return s.Status().Serving })
	return st
}

// await waits for what happens on the server's goroutines after a client has
// seen its effect.
func (st *wordStage) await(what string, ready func() bool) {
	st.t.Helper()
	if !within(ready) {
		st.t.Fatalf("it never came to be that %s", what)
	}
}

func (st *wordStage) dial() net.Conn {
	st.t.Helper()
	conn, err := net.Dial("tcp", st.s.Addrs()[0].String())
	if err != nil {
		st.t.Fatal(err)
	}
	conn.SetDeadline(time.Now().Add(patience))
	return conn
}

// word sends bytes and returns all that comes back until the server closes. No
// other word is under way then.
func (st *wordStage) word(bytes string) string {
	st.t.Helper()
	st.await("only clients are connected", func() bool { return st.s.connections.count() == len(st.clients) })
	conn := st.dial()
	defer conn.Close()
	if _, err := io.WriteString(conn, bytes); err != nil {
		st.t.Fatal(err)
	}
	text, err := io.ReadAll(conn)
	if err != nil {
		st.t.Fatalf("%q: %v after %q", bytes, err, text)
	}
	return string(text)
}

// connect gives the client of a new name a session. A client that has one comes back with it on another connection.
func (st *wordStage) connect(name string, timeout int32) {
	st.t.Helper()
	c := &wordClient{conn: st.dial()}
	req := jute.ConnectRequest{Timeout: timeout, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
	if before := st.clients[name]; before != nil {
		before.conn.Close()
		req.SessionID, req.Passwd = before.session, before.passwd
	} else {
		st.names = append(st.names, name)
	}
	var res jute.ConnectResponse
	if err := c.send(req.Append(nil)); err != nil {
		st.t.Fatal(err)
	}
	frame, err := c.receive()
	if err != nil {
		st.t.Fatal(err)
	}
	res.Decode(jute.NewDecoder(frame))
	if res.SessionID == 0 {
		st.t.Fatalf("%s got no session", name)
	}
	c.session, c.passwd = res.SessionID, res.Passwd
	st.clients[name] = c
}

func (c *wordClient) send(record []byte) error {
	_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(record))), record...))
	return err
}

func (c *wordClient) receive() ([]byte, error) {
	var size [4]byte
	if _, err := io.ReadFull(c.conn, size[:]); err != nil {
		return nil, err
	}
	frame := make([]byte, binary.BigEndian.Uint32(size[:]))
	_, err := io.ReadFull(c.conn, frame)
	return frame, err
}

// call sends a request and returns its reply's code; notifications that come
// before it are passed over.
func (c *wordClient) call(op jute.Op, body []byte) (jute.Code, error) {
	c.xid++
	xid := c.xid
	if op == jute.OpPing {
		xid = jute.XidPing
	}
	h := jute.RequestHeader{Xid: xid, Op: op}
	if err := c.send(append(h.Append(nil), body...)); err != nil {
		return 0, err
	}
	for {
		frame, err := c.receive()
		if err != nil {
			return 0, err
		}
		var h jute.ReplyHeader
		h.Decode(jute.NewDecoder(frame))
		if h.Xid == xid {
			return h.Err, nil
		}
	}
}

// do carries out one line of a transcript.
func (st *wordStage) do(line string) string {
	st.t.Helper()
	f := strings.Fields(line)
	switch f[0] {
	case "word":
		return st.sayWord(f[1], f[2:])
	case "connect":
		timeout, _ := strconv.Atoi(f[2])
		st.connect(f[1], int32(timeout))
		return "connected\n"
	}
	c := st.clients[f[0]]
	code, err := c.call(asRecord(f[1], f[2:]))
	if err != nil {
		return err.Error() + "\n"
	}
	return fmt.Sprintln(code)
}

// sayWord runs a word; for mntr arguments are expressions of which a line must
// match one.
func (st *wordStage) sayWord(name string, only []string) string {
	text := st.word(name)
	if len(only) > 0 {
		var lines []string
		for line := range strings.Lines(text) {
			if regexp.MustCompile(`^zk_(` + strings.Join(only, "|") + `)\t`).MatchString(line) {
				lines = append(lines, line)
			}
		}
		text = strings.Join(lines, "")
	}
	text = st.normal(text)
	if !strings.HasSuffix(text, "\n") {
		text += "(no newline)\n"
	}
	return text
}

func asRecord(op string, args []string) (jute.Op, []byte) {
	arg := func(i int) string {
		if i < len(args) {
			return args[i]
		}
		return ""
	}
	read := jute.PathWatchRequest{Path: arg(0), Watch: arg(1) == "watch"}
	create := jute.CreateRequest{Path: arg(0), Data: []byte(arg(1)), ACL: jute.WorldACL(jute.PermAll)}
	switch op {
	case "create":
		return jute.OpCreate, create.Append(nil)
	case "ephemeral":
		create.Flags = 1
		return jute.OpCreate, create.Append(nil)
	case "ttl":
		ttl := jute.CreateTTLRequest{CreateRequest: create, TTL: 1e6}
		ttl.Flags = 5
		return jute.OpCreateTTL, ttl.Append(nil)
	case "set":
		set := jute.SetDataRequest{Path: arg(0), Data: []byte(arg(1)), Version: -1}
		return jute.OpSetData, set.Append(nil)
	case "delete":
		del := jute.PathVersionRequest{Path: arg(0), Version: -1}
		return jute.OpDelete, del.Append(nil)
	case "get":
		return jute.OpGetData, read.Append(nil)
	case "exists":
		return jute.OpExists, read.Append(nil)
	case "children":
		return jute.OpGetChildren, read.Append(nil)
	case "children2":
		return jute.OpGetChildren2, read.Append(nil)
	case "addwatch":
		add := jute.AddWatchRequest{Path: arg(0), Mode: jute.AddWatchPersistentRecursive}
		return jute.OpAddWatch, add.Append(nil)
	case "sync":
		return jute.OpSync, jute.AppendString(nil, arg(0))
	case "ping":
		return jute.OpPing, nil
	}
	return jute.OpWhoAmI, nil
}

// vary matches what differs from run to run.
var vary = []struct {
	pattern *regexp.Regexp
	instead string
}{
	{regexp.MustCompile(`(est|lresp|llat|minlat|avglat|maxlat)=\d+`), "$1=N"},
	{regexp.MustCompile(`(?m)^(Latency min/avg/max:) \d+/\d+\.\d+/\d+$`), "$1 N/N.N/N"},
	{regexp.MustCompile(`(_size: |DirSize=|LogSize=)\d+`), "${1}N"},
	{regexp.MustCompile(`expire at \w{3} \w{3} \d\d \d\d:\d\d:\d\d \w+ \d{4}:`), "expire at DATE:"},
	{regexp.MustCompile(`clientPort=\d+`), "clientPort=PORT"},
	{regexp.MustCompile(`(data(Log)?Dir)=\S+`), "$1=DIR"},
	{regexp.MustCompile(`(?m)^(\w+\.[\w.]+)=.+$`), "$1=SOMETHING"}, // envi
	{regexp.MustCompile(`127\.0\.0\.1:\d+`), "127.0.0.1:ASKER"},
}

// normal replaces what differs from run to run: sessions and ports by the names
// of their clients.
func (st *wordStage) normal(text string) string {
	for _, name := range st.names {
		c := st.clients[name]
		text = strings.ReplaceAll(text, replica.SessionText(c.session), "SESSION-"+name)
		text = strings.ReplaceAll(text, c.conn.LocalAddr().String()+"[", "127.0.0.1:"+name+"[")
		text = strings.ReplaceAll(text, c.conn.LocalAddr().String()+" ", "127.0.0.1:"+name+" ")
	}
	for _, v := range vary {
		text = v.pattern.ReplaceAllString(text, v.instead)
	}
	return text
}

// TestFourLetterWords plays testdata/words.txt: a command, ----, and what came
// of it.
func TestFourLetterWords(t *testing.T) {
	t.Parallel()
	const file = "testdata/words.txt"
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	st := newWordStage(t, Options{Serving: Serving{Tick: time.Minute}, SessionlessTimeout: time.Hour})
	var got strings.Builder
	for part := range strings.SplitSeq(string(b), "\n====\n") {
		command, _, _ := strings.Cut(part, "\n----\n")
		command = strings.TrimSpace(command)
		if command == "" {
			continue
		}
		got.WriteString(command + "\n----\n")
		for line := range strings.Lines(command) {
			if !strings.HasPrefix(line, "#") {
				got.WriteString(st.do(line))
			}
		}
		got.WriteString("\n====\n")
	}
	if *rewrite {
		if err := os.WriteFile(file, []byte(got.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want := strings.Split(string(b), "\n")
	for i, line := range strings.Split(got.String(), "\n") {
		if i >= len(want) || line != want[i] {
			t.Fatalf("%s:%d: the words say now\n%s\ninstead of\n%s\nLook at the whole difference after -rewrite.", file, i+1,
				line, strings.Join(want[min(i, len(want)):min(i+1, len(want))], ""))
		}
	}
}

// TestWordsWhileNotServing asks everything of a server that doesn't serve yet.
func TestWordsWhileNotServing(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{Serving: Serving{Tick: time.Hour}}) // its timers don't end what follows
	st.s.replica.CheckReach(1, 0)
	const refused = "This ZooKeeper instance is not currently serving requests"
	for name, want := range map[string]string{
		"ruok": "imok", "isro": "null", "gtmk": "306", "hash": refused,
		"srvr": refused + "\n", "stat": refused + "\n", "cons": refused + "\n", "conf": refused + "\n",
		"dirs": refused + "\n", "dump": refused + "\n", "crst": refused + "\n", "srst": refused + "\n",
		"wchc": refused + "\n", "wchp": refused + "\n", "wchs": refused + "\n",
	} {
		if got := st.word(name); got != want {
			t.Errorf("%q: %q, want %q", name, got, want)
		}
	}
	// mntr says why: this server has a leader, itself, and its disk and loop work.
	want := regexp.MustCompile("^" + refused + "\nzk_zooid_raft_has_leader\t1\nzk_log_awaits_room\t0\n" +
		"zk_fsync_in_flight_ms\t\\d+\nzk_last_turn_ms\t\\d+\n$")
	if got := st.word("mntr"); !want.MatchString(got) {
		t.Errorf("mntr: %q", got)
	}
	st.s.replica.Lead(quorum.Leadership{})
	if got := st.word("mntr"); !strings.HasPrefix(got, refused+"\nzk_zooid_raft_has_leader\t0\n") {
		t.Errorf("mntr without a leader: %q", got)
	}
	if got := st.word("stmk\x00\x00\x00\x00\x00\x00\x01\x02"); got != "258" {
		t.Errorf("stmk: %q", got)
	}
	if got := st.word("envi"); !strings.HasPrefix(got, "Environment:\nzookeeper.version=9.8.7") {
		t.Errorf("envi: %q", got)
	}
}

// telnetInterrupt is what telnet sends on ^C.
const telnetInterrupt = "\xff\xf4\xff\xfd"

func TestWhitelist(t *testing.T) {
	t.Parallel()
	const refusal = " is not executed because it is not in the whitelist.\n"
	for _, c := range []struct {
		list    string
		allowed string
		refused string
	}{
		{"", "srvr", "ruok stat mntr cons envi"},
		{"ruok", "srvr ruok", "stat"},
		{" ruok , isro,nope", "ruok isro srvr", "wchs"},
		{"ruok,*", "ruok wchs mntr conf", ""},
		{"*,nope", "dump hash gtmk", ""},
	} {
		st := newWordStage(t, Options{FourLetterWords: strings.Split(c.list, ",")})
		for _, w := range strings.Fields(c.allowed) {
			if got := st.word(w); strings.Contains(got, refusal) {
				t.Errorf("whitelist %q: %s was refused: %q", c.list, w, got)
			}
		}
		for _, w := range strings.Fields(c.refused) {
			if got := st.word(w); got != w+refusal {
				t.Errorf("whitelist %q: %s says %q", c.list, w, got)
			}
		}
		if got := st.word(telnetInterrupt); got != map[bool]string{true: "telnet close" + refusal}[!strings.Contains(c.list,
			"*")] {
			t.Errorf("whitelist %q: the telnet interrupt says %q", c.list, got)
		}
	}
}

// TestWordsFromOddClients covers those that close their side before the answer,
// send more than the word, or less.
func TestWordsFromOddClients(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	for _, c := range []struct{ send, want string }{
		{"ruok", "imok"}, {"ruok\n", "imok"}, {"ruok\r\nand more of it", "imok"},
		{"stmk", ""}, {"stmk123", ""}, {"stmk\x00\x00\x00\x00\x00\x00\x00\x07more", "7"}, {"gtmk", "7"},
		{"RUOK", ""}, {"abcd", ""}, {telnetInterrupt, ""}, {"ru", ""}, {"", ""},
	} {
		conn := st.dial()
		if _, err := io.WriteString(conn, c.send); err != nil {
			t.Fatal(err)
		}
		if err := conn.(*net.TCPConn).CloseWrite(); err != nil {
			t.Fatal(err)
		}
		if got, err := io.ReadAll(conn); err != nil || string(got) != c.want {
			t.Errorf("%q half closed: %q, %v, want %q", c.send, got, err, c.want)
		}
		conn.Close()
	}
	if got := st.word("ruok\n"); got != "imok" {
		t.Errorf("ruok with a newline: %q", got)
	}
}

// TestMaskThatNeverComes sends stmk without a mask, and stays connected.
func TestMaskThatNeverComes(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	synctest.Test(t, func(t *testing.T) {
		client, conn := net.Pipe()
		began := time.Now()
		go func() {
			st.s.acceptor.fourLetterWord(conn, "stmk", nil)
			conn.Close()
		}()
		answer, err := io.ReadAll(client)
		if waited := time.Since(began); len(answer) > 0 || err != nil || waited != wordMaskTimeout {
			t.Errorf("answer %q, %v, after %v, want none after %v", answer, err, waited, wordMaskTimeout)
		}
	})
}

// TestLayouts holds the words to the expressions by which Apache's own tests
// read them.
func TestLayouts(t *testing.T) {
	t.Parallel()
	st := newWordStage(t, Options{})
	st.connect("A", 30000)
	const (
		version = `Zookeeper version: .+`
		conn    = ` /[0-9.:\[\]]+\[[015]\]\(queued=\d+,recved=\d+,sent=\d+\)`
		full    = ` /[0-9.:\[\]]+\[[015]\]\(queued=\d+,recved=\d+,sent=\d+(,sid=0x[0-9a-f]+,lop=\w+,est=\d+,to=\d+,(lcxid=0x[0-9a-f]+,)?lzxid=0x[0-9a-f]+,lresp=\d+,llat=\d+,minlat=\d+,avglat=\d+,maxlat=\d+)?\)`
		rest    = `Latency min/avg/max: \d+/\d+\.\d{1,4}/\d+
Received: \d+
Sent: \d+
Connections: \d+
Outstanding: \d+
Zxid: 0x[0-9a-f]+
Mode: \w+
Node count: \d+
`
	)
	for name, layout := range map[string]string{
		"srvr": version + "\n" + rest,
		"stat": version + "\nClients:\n(" + conn + "\n)+\n" + rest,
		"cons": "(" + full + "\n)+\n",
		"mntr": `zk_version\t.+\nzk_server_state\tstandalone\n(zk_\S+\t-?\d+(\.\d+)?(E\d+)?\n)+zk_zooid_lineage\t[0-9a-f]{16}\n(zk_zooid_\w*voters\t(none|[\d,]+)\n){3}zk_zooid_lost_entry\t\d+\nzk_zooid_drained\t(none|[\d,]+)\nzk_zooid_unheard_voters\t(none|[\d,]+)\nzk_zooid_rules_waiting\tnone\n(zk_zooid_\w*clients\t(none|\S+)\n){2}zk_zooid_foreign_servers\tnone\nzk_zooid_same_id\tnone\n`,
		"conf": `clientPort=\d+\nsecureClientPort=-1\ndataDir=.+\ndataDirSize=\d+\ndataLogDir=.+\ndataLogSize=\d+\ntickTime=\d+\nmaxClientCnxns=\d+\nminSessionTimeout=\d+\nmaxSessionTimeout=\d+\nclientPortListenBacklog=-?\d+\nserverId=\d+\n`,
		"dirs": `datadir_size: \d+\nlogdir_size: \d+\n`,
		"wchs": `\d+ connections watching \d+ paths\nTotal watches:\d+\n`,
		"envi": `Environment:\n([a-z.]+=.+\n){18}`,
	} {
		if got := st.word(name); !regexp.MustCompile(`^` + layout + `$`).MatchString(got) {
			t.Errorf("%s says\n%s\nwhich is not\n%s", name, got, layout)
		}
	}
}
