package jute

import (
	"encoding/binary"
	"errors"
	"flag"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/freeport"
)

// capture regenerates testdata/golden from a real Apache server and its Java
// client:
//
//	go test ./jute -run TestCapture -capture '/path/to/apache-zookeeper-3.9.5/lib/*'
var capture = flag.String("capture", "", "class path of an Apache ZooKeeper server; rewrites testdata/golden with what it says")

// TestCapture runs an ensemble of one Apache server and records what its own
// client and a raw one exchange with it.
func TestCapture(t *testing.T) {
	if *capture == "" {
		t.Skip("-capture is not given")
	}
	s := startApache(t, *capture)
	version := s.version(t)
	t.Run("java", func(t *testing.T) {
		rec := record(t, s.client)
		jaas := writeFile(t, "client.jaas", `Client { org.apache.zookeeper.server.auth.DigestLoginModule required username="bob" password="pw"; };`)
		cmd := exec.Command("java", "-cp", *capture, "-Djava.security.auth.login.config="+jaas, "-Dzookeeper.fips-mode=false",
			"-Dorg.slf4j.simpleLogger.defaultLogLevel=error", "testdata/capture/Client.java", rec.address, s.member)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("the Java client: %v\n%s", err, out)
		}
		rec.save(t, "java.txt", "Apache ZooKeeper "+version+", its Java client and its server; rewritten by TestCapture")
	})
	t.Run("raw", func(t *testing.T) {
		rec := record(t, s.client)
		rawScript(t, rec.address)
		rec.save(t, "raw.txt", "Apache ZooKeeper "+version+", its server and a raw client; rewritten by TestCapture")
	})
}

type apache struct{ client, member string }

// startApache starts a server that ends with the test and waits until it answers.
func startApache(t *testing.T, classPath string) apache {
	dir := t.TempDir()
	ports := freeport.Take(t, 3)
	s := apache{client: fmt.Sprintf("127.0.0.1:%d", ports[2])}
	s.member = fmt.Sprintf("server.1=127.0.0.1:%d:%d:participant;%s", ports[0], ports[1], s.client)
	cfg := fmt.Sprintf("tickTime=1000\ninitLimit=10\nsyncLimit=5\ndataDir=%s\nstandaloneEnabled=false\nreconfigEnabled=true\nadmin.enableServer=false\n%s\n",
		dir, s.member)
	if err := os.WriteFile(filepath.Join(dir, "myid"), []byte("1\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	jaas := writeFile(t, "server.jaas", `Server { org.apache.zookeeper.server.auth.DigestLoginModule required user_bob="pw"; };`)
	cmd := exec.Command("java", "-cp", classPath, "-Djava.security.auth.login.config="+jaas, "-Dzookeeper.fips-mode=false",
		"-Dzookeeper.extendedTypesEnabled=true", "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:D/InIHSb7yEEbrWz8b9l71RjZJU=",
		"-Dzookeeper.authProvider.1=org.apache.zookeeper.server.auth.SASLAuthenticationProvider", "-Dorg.slf4j.simpleLogger.defaultLogLevel=error",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", writeFile(t, "zoo.cfg", cfg))
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cmd.Process.Kill(); cmd.Wait() })
	for range 300 {
		if c, err := dial(s.client); err == nil {
			c.close()
			return s
		}
		time.Sleep(100 * time.Millisecond)
	}
	t.Fatal("the Apache server doesn't answer within 30 seconds")
	return s
}

// version asks the four-letter word srvr.
func (s apache) version(t *testing.T) string {
	conn, err := net.Dial("tcp", s.client)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	fmt.Fprint(conn, "srvr")
	text, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	_, after, _ := strings.Cut(string(text), "Zookeeper version: ")
	version, _, _ := strings.Cut(after, "-")
	return version
}

func writeFile(t *testing.T, name, text string) string {
	file := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// recorder is a proxy that writes down the frames passing through it.
type recorder struct {
	address string

	mu    sync.Mutex
	lines []string
	conns int
}

func record(t *testing.T, server string) *recorder {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	rec := &recorder{address: l.Addr().String()}
	go func() {
		for {
			client, err := l.Accept()
			if err != nil {
				return
			}
			upstream, err := net.Dial("tcp", server)
			if err != nil {
				client.Close()
				continue
			}
			rec.mu.Lock()
			rec.conns++
			p := &passage{recorder: rec, id: rec.conns}
			rec.mu.Unlock()
			go p.pump(upstream, client, true)
			go p.pump(client, upstream, false)
		}
	}()
	return rec
}

func (rec *recorder) save(t *testing.T, name, title string) {
	rec.mu.Lock()
	defer rec.mu.Unlock()
	text := "# " + title + "\n# connection, direction, operation, frame without its length\n" + strings.Join(rec.lines, "\n") + "\n"
	if err := os.WriteFile(filepath.Join("testdata", "golden", name), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
}

// passage is one connection through the recorder. Its fields are guarded by the
// recorder's lock.
type passage struct {
	recorder *recorder
	id       int
	started  [2]bool // a frame went from the server, from the client
	pending  []header
}

type header struct {
	xid int32
	op  Op
}

func (p *passage) pump(dst, src net.Conn, fromClient bool) {
	defer dst.Close()
	defer src.Close()
	for {
		frame, err := ReadFrame(src, nil, 1<<22)
		if err != nil || !p.note(frame, fromClient) {
			return
		}
		if _, err := dst.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...)); err != nil {
			return
		}
	}
}

// note records a frame; it returns false if the connection shall end here.
func (p *passage) note(frame []byte, fromClient bool) bool {
	p.recorder.mu.Lock()
	defer p.recorder.mu.Unlock()
	dir, side := '<', 0
	if fromClient {
		dir, side = '>', 1
	}
	name := "connect"
	if p.started[side] {
		d := NewDecoder(frame)
		xid := d.Int()
		if fromClient {
			h := header{xid, Op(d.Int())}
			if h.op == OpSync && d.String() == "/cut" {
				return false
			}
			p.pending = append(p.pending, h)
			name = h.op.String()
		} else if name = "notification"; xid != XidNotification {
			name = "unasked"
			for i, h := range p.pending {
				if h.xid == xid {
					name = h.op.String()
					p.pending = append(p.pending[:i:i], p.pending[i+1:]...)
					break
				}
			}
		}
	}
	p.started[side] = true
	p.recorder.lines = append(p.recorder.lines, fmt.Sprintf("%d %c %s %x", p.id, dir, name, frame))
	return true
}

// rawConn is a client that says what it is told to.
type rawConn struct {
	conn net.Conn
	xid  int32
}

func dial(address string) (*rawConn, error) {
	return dialWith(address, &ConnectRequest{Timeout: 5000, Passwd: make([]byte, PasswdSize), HasReadOnly: true})
}

func dialWith(address string, r *ConnectRequest) (*rawConn, error) {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return nil, err
	}
	c := &rawConn{conn: conn}
	conn.SetDeadline(time.Now().Add(20 * time.Second))
	if err := c.send(r.Append(nil)); err != nil {
		return nil, err
	}
	if _, err := ReadFrame(conn, nil, 1<<20); err != nil {
		conn.Close()
		return nil, err
	}
	return c, nil
}

func (c *rawConn) close() { c.conn.Close() }

func (c *rawConn) send(frame []byte) error {
	_, err := c.conn.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(frame))), frame...))
	return err
}

// do sends a request and waits for its reply, passing over notifications. A
// connection that the server closes is no error here.
func (c *rawConn) do(t *testing.T, op Op, body []byte) {
	t.Helper()
	c.xid++
	h := RequestHeader{Xid: c.xid, Op: op}
	switch op {
	case OpAuth:
		h.Xid = XidAuth
	case OpPing:
		h.Xid = XidPing
	}
	if err := c.send(append(h.Append(nil), body...)); err != nil {
		t.Fatalf("%s: %v", op, err)
	}
	for {
		frame, err := ReadFrame(c.conn, nil, 1<<20)
		if err != nil {
			if errors.Is(err, io.EOF) {
				return
			}
			t.Fatalf("%s: %v", op, err)
		}
		if NewDecoder(frame).Int() == h.Xid {
			return
		}
	}
}

// rawScript sends what Apache's client never does: old handshakes, requests
// that fail before they reach the pipeline, and operations it has no call for.
func rawScript(t *testing.T, address string) {
	for _, id := range []int64{0, 0x1234567} { // a new session, one that doesn't exist
		for _, old := range []bool{false, true} {
			c, err := dialWith(address,
				&ConnectRequest{Timeout: 5000, SessionID: id, Passwd: make([]byte, PasswdSize), HasReadOnly: !old})
			if err != nil {
				t.Fatal(err)
			}
			if id == 0 {
				c.do(t, OpPing, nil)
				c.do(t, OpCloseSession, nil)
			}
			c.close()
		}
	}
	path := func(p string) []byte { return AppendString(nil, p) }
	acl := WorldACL(PermAll)
	single := func(op Op, body []byte) {
		c, err := dial(address)
		if err != nil {
			t.Fatal(err)
		}
		defer c.close()
		c.do(t, op, body)
	}
	single(OpCheck, (&PathVersionRequest{"/", -1}).Append(nil))
	single(Op(77), nil)
	single(OpAuth, (&AuthPacket{Scheme: "foo", Auth: []byte("x")}).Append(nil))

	c, err := dial(address)
	if err != nil {
		t.Fatal(err)
	}
	defer c.close()
	create := func(p string, acl []ACL, mode CreateMode) []byte {
		return (&CreateRequest{p, []byte("r"), acl, mode}).Append(nil)
	}
	c.do(t, OpCreate, create("/r", acl, 0))
	c.do(t, OpCreate, create("/r/nil", nil, 0))
	c.do(t, OpCreate, create("/r/mode", acl, 99))
	c.do(t, OpCreate, create("r", acl, 0))
	c.do(t, OpCreate, create("/r/closed", []ACL{{PermAll, ID{"digest", "a:b"}}}, 0))
	c.do(t, OpCreateContainer, create("/r/c", acl, ModeContainer))
	c.do(t, OpDeleteContainer, path("/r/c"))
	c.do(t, OpExists, (&PathWatchRequest{"/r\x00", false}).Append(nil))
	c.do(t, OpGetData, (&PathWatchRequest{"/r/closed", false}).Append(nil))
	c.do(t, OpGetData, (&PathWatchRequest{"/r", true}).Append(nil))
	c.do(t, OpSetACL, (&SetACLRequest{"/r", acl, 7}).Append(nil))
	for typ := WatcherType(1); typ <= 6; typ++ {
		c.do(t, OpCheckWatches, (&WatchesRequest{"/r", typ}).Append(nil))
	}
	c.do(t, OpAddWatch, (&AddWatchRequest{"/r", 9}).Append(nil))
	c.do(t, OpAddWatch, (&AddWatchRequest{"", AddWatchPersistent}).Append(nil))
	c.do(t, OpRemoveWatches, (&WatchesRequest{"/none", WatcherAny}).Append(nil))
	watches := &SetWatches{RelativeZxid: 0, Data: []string{"/r", "/none"}, Exist: []string{"/r"}, Child: []string{"/none"}}
	c.do(t, OpSetWatches, watches.Append(nil, OpSetWatches))
	c.do(t, OpSetWatches2, watches.Append(nil, OpSetWatches2))
	c.do(t, OpMulti,
		AppendMulti(nil,
			[]MultiOp{
				{Op: OpCreate, Path: "/r/m", ACL: acl, Flags: ModeContainer}, {Op: OpCreate2, Path: "/r/m2", ACL: acl},
				{Op: OpDelete, Path: "/r/m", Version: -1}, {Op: OpSetData, Path: "/r/m2", Version: 0},
			}))
	for _, op := range []MultiOp{
		{Op: OpGetACL, Path: "/r"},
		{Op: OpExists, Path: "/r"},
		{Op: OpGetData, Path: "/r"},
		{Op: OpCreate, Path: "/r/x1", ACL: acl, Flags: 99},
		{Op: OpCreate2, Path: "/r/x2", ACL: acl, Flags: -1},
		{Op: OpCreateContainer, Path: "/r/x3", ACL: acl, Flags: 7},
		{Op: OpCreate, Path: "/r/x4", ACL: acl, Flags: ModePersistentWithTTL},
		{Op: OpCreateContainer, Path: "/r/x5", ACL: acl, Flags: ModePersistentSequentialWithTTL},
		{Op: OpCreateContainer, Path: "/r/x6", ACL: acl, Flags: ModePersistent},
		{Op: OpCreateTTL, Path: "/r/x7", ACL: acl, Flags: 99, TTL: 1000},
		{Op: OpCreateTTL, Path: "/r/x8", ACL: acl, Flags: ModePersistent, TTL: 1000},
		{Op: OpCreateTTL, Path: "/r/x9", ACL: acl, Flags: ModePersistentWithTTL, TTL: 0},
		{Op: OpCreateTTL, Path: "/r/x10", ACL: acl, Flags: ModePersistentWithTTL, TTL: -5},
		{Op: OpCreateTTL, Path: "/r/x11", ACL: acl, Flags: ModeContainer, TTL: -1},
	} {
		c.do(t, OpMulti, AppendMulti(nil, []MultiOp{op}))
		if op.Op == OpCreate {
			c.do(t, OpMultiRead, AppendMulti(nil, []MultiOp{op}))
		}
	}
	c.do(t, OpMultiRead, AppendMulti(nil, []MultiOp{{Op: OpDelete, Path: "/r/none", Version: -1}}))
	c.do(t, OpMulti, AppendMulti(nil, []MultiOp{{Op: OpGetData, Path: "/r"}, {Op: OpDelete, Path: "/r/none"}}))
	c.do(t, OpMultiRead, AppendMulti(nil, []MultiOp{{Op: OpGetChildren, Path: "/r"}, {Op: OpGetData, Path: "/r/closed"}}))
	c.do(t, OpReconfig, (&ReconfigRequest{CurConfigID: -1}).Append(nil))
	c.do(t, OpSASL, (&SASLPacket{Token: []byte("junk")}).Append(nil))
}
