package matrix

import (
	"bufio"
	"cmp"
	"crypto/rand"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/zooid-project/zooid/internal/sasl"
	"github.com/zooid-project/zooid/jute"
)

const (
	// patience is how long to wait for a batch of answers, on a loaded machine.
	patience = time.Minute
	// replyMax bounds a reply in bytes: a cell stores nothing larger.
	replyMax = 1 << 20
	// sessionTimeout (ms) is longer than other clients' work in between.
	sessionTimeout = 60_000
)

// A place is the addresses of a server.
type place struct {
	plain, secure string // host:port
	certificate   tls.Certificate
}

// An identity is a kind of client, with everything that it proves on its connection.
type identity struct {
	name    string
	from    string // its address; "" means 127.0.0.1
	tls     bool   // presents the certificate of ann
	user    string // SASL user to log in as; the password is "secret"
	digests []string
}

const (
	superUser = "super:test"
	loopback  = "127.0.0.1"
)

// identities returns the kinds of clients. The first is the superuser, which prepares the cells.
func identities() []identity {
	return []identity{
		{name: "the superuser", digests: []string{superUser}},
		{name: "nobody"},
		{name: "nobody elsewhere", from: "127.0.0.2"},
		{name: "ann", digests: []string{"ann:secret"}},
		{name: "ann with a wrong password", digests: []string{"ann:wrong"}},
		{name: "bob", digests: []string{"bob:secret"}},
		{name: "ann by certificate", tls: true},
		{name: "ann by SASL", user: "ann"},
		{name: "the superuser by SASL", user: "root"},
		{name: "bob, then ann by SASL and by digest", user: "ann", digests: []string{"bob:secret", "ann:secret"}},
	}
}

// A client is a connection with a session.
type client struct {
	conn net.Conn
	in   *bufio.Reader
	xid  int32
}

// connect opens a connection to a server and a session, and proves the client's identity.
func connect(at place, who identity) (*client, error) {
	from := cmp.Or(who.from, loopback)
	dialer := net.Dialer{Timeout: patience, LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	addr := at.plain
	if who.tls {
		addr = at.secure
	}
	conn, err := dialer.Dial("tcp", addr)
	if err != nil {
		return nil, err
	}
	if who.tls {
		// The server's identity isn't tested here.
		conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{at.certificate}})
	}
	c := &client{conn: conn, in: bufio.NewReaderSize(conn, 64<<10)}
	if err := c.begin(who); err != nil {
		conn.Close()
		return nil, fmt.Errorf("connect as %s to %s: %w", who.name, addr, err)
	}
	return c, nil
}

func (c *client) close() { c.conn.Close() }

// begin opens the session and authenticates the client.
func (c *client) begin(who identity) error {
	c.conn.SetDeadline(time.Now().Add(patience))
	hello := jute.ConnectRequest{Timeout: sessionTimeout, Passwd: make([]byte, jute.PasswdSize), HasReadOnly: true}
	if _, err := c.conn.Write(jute.AppendFrame(nil, hello.Append)); err != nil {
		return err
	}
	answer, err := jute.ReadFrame(c.in, nil, replyMax)
	if err != nil {
		return err
	}
	var r jute.ConnectResponse
	if r.Decode(jute.NewDecoder(answer)); r.Timeout == 0 {
		return errors.New("it gives no session")
	}
	if who.user != "" {
		if err := c.logIn(who.user); err != nil {
			return err
		}
	}
	for _, credential := range who.digests {
		code, err := c.prove("digest", credential)
		if err != nil || code != jute.OK {
			return fmt.Errorf("addauth digest: %v, %w", code, err)
		}
	}
	return nil
}

// prove sends an auth packet and returns the code of its answer.
func (c *client) prove(scheme, credential string) (jute.Code, error) {
	p := jute.AuthPacket{Scheme: scheme, Auth: []byte(credential)}
	if _, err := c.conn.Write(jute.AppendRequest(nil, jute.XidAuth, jute.OpAuth, p.Append)); err != nil {
		return 0, err
	}
	h, _, err := c.reply()
	return h.Err, err
}

// logIn logs in by DIGEST-MD5.
func (c *client) logIn(user string) error {
	login := sasl.NewClient(user, "secret", rand.Reader)
	var challenge []byte
	for {
		token, done, err := login.Step(challenge)
		if err != nil || done && token == nil {
			return err
		}
		c.xid++
		if _, err := c.conn.Write(jute.AppendRequest(nil, c.xid, jute.OpSASL,
			(&jute.SASLPacket{Token: token}).Append)); err != nil {
			return err
		}
		h, d, err := c.sasl()
		if err != nil || h.Err != jute.OK {
			return fmt.Errorf("log in as %s: %v, %w", user, h.Err, err)
		}
		if challenge = d; done {
			return nil
		}
	}
}

// sasl reads the answer to a sasl packet.
func (c *client) sasl() (jute.ReplyHeader, []byte, error) {
	h, d, err := c.reply()
	if err != nil || h.Err != jute.OK {
		return h, nil, err
	}
	var p jute.SASLPacket
	p.Decode(d)
	return h, p.Token, d.Err()
}

// reply reads one frame.
func (c *client) reply() (jute.ReplyHeader, *jute.Decoder, error) {
	frame, err := jute.ReadFrame(c.in, nil, replyMax)
	if err != nil {
		return jute.ReplyHeader{}, nil, err
	}
	d := jute.NewDecoder(frame)
	var h jute.ReplyHeader
	h.Decode(d)
	return h, d, d.Err()
}

// A step is a request.
type step struct {
	op   jute.Op
	body func([]byte) []byte // nil for an empty one
}

// xidOf returns the xid of the nth request; pings have a fixed one.
func xidOf(op jute.Op, n int32) int32 {
	if op == jute.OpPing {
		return jute.XidPing
	}
	return n
}

// ask sends all steps at once, reads their answers, and returns them as text. It passes events to hear.
func (c *client) ask(steps []step, hear func(jute.WatcherEvent)) ([]string, error) {
	c.conn.SetDeadline(time.Now().Add(patience))
	first := c.xid + 1
	sent := make(chan error, 1)
	go func() {
		out := bufio.NewWriterSize(c.conn, 64<<10)
		var frame []byte
		for i := range steps {
			frame = jute.AppendRequest(frame[:0], xidOf(steps[i].op, first+int32(i)), steps[i].op, steps[i].body)
			out.Write(frame)
		}
		sent <- out.Flush()
	}()
	c.xid += int32(len(steps))
	answers := make([]string, 0, len(steps))
	for len(answers) < len(steps) {
		h, d, err := c.reply()
		if err != nil {
			c.conn.Close() // also ends the writing
			<-sent
			return answers, err
		}
		if h.Xid == jute.XidNotification {
			var e jute.WatcherEvent
			e.Decode(d)
			hear(e)
			continue
		}
		at := len(answers)
		if want := xidOf(steps[at].op, first+int32(at)); h.Xid != want {
			return answers, fmt.Errorf("the answer to request %d has the number %d", want, h.Xid)
		}
		answers = append(answers, describe(steps[at].op, h.Err, d))
	}
	return answers, <-sent
}
