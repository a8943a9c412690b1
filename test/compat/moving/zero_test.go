package moving

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/serverid"
	"github.com/zooid-project/zooid/jute"
	"github.com/zooid-project/zooid/zk"
)

// TestServerZero moves an ensemble of the servers 0, 1 and 2 by zooid import, with the server lines that it has. Its
// servers say of themselves what Apache's said, a session that server 0 began goes on, and new ones get such ids. Then
// server 0 dies and returns, leaves by reconfig and joins again.
func TestServerZero(t *testing.T) {
	need(t)
	for _, version := range tried([]string{"3.8.4", "3.9.5"}, "3.9.5") {
		t.Run(version, func(t *testing.T) {
			e := startNumbered(t, version, 0, 3, "reconfigEnabled=true\n")
			for _, s := range e.servers { // a server that hasn't met the others says less
				e.awaitServing(s)
			}
			said, membership := inQuorum(t, e.servers[0].addr), serverLines(e.awaitConfig())
			// The session is without an owner while the servers change, and must outlive that.
			addr := e.servers[0].addr
			conn, reply := shake(t, addr, &jute.ConnectRequest{Timeout: 120000, Passwd: make([]byte, 16)})
			conn.Close()
			leader := e.leader()
			for i := range e.servers {
				if i != leader {
					e.servers[i].stop()
				}
			}
			e.servers[leader].stop()
			z := &zooids{t: t, program: zooid(t), dir: t.TempDir()}
			z.takePlaces(e)
			t.Log(command(t, z.program, "import", e.servers[leader].dir, z.place(0)))
			for i := range z.servers {
				z.start(i)
			}
			for i := range z.servers {
				z.awaitServing(i)
			}

			if now := inQuorum(t, addr); now != said {
				t.Errorf("conf of server 0:\n%s\nApache's:\n%s", now, said)
			}
			if now := serverLines(z.members()); now != membership {
				t.Errorf("/zookeeper/config:\n%s\nApache's:\n%s", now, membership)
			}
			if _, resumed := shake(t, addr, &jute.ConnectRequest{
				Timeout: 120000, SessionID: reply.SessionID, Passwd: reply.Passwd,
			}); resumed.SessionID != reply.SessionID || uint64(reply.SessionID)>>56 != 0 {
				t.Errorf("session %#x of Apache's server 0 is %#x now", reply.SessionID, resumed.SessionID)
			}
			_, begun := shake(t, addr, &jute.ConnectRequest{Timeout: 120000, Passwd: make([]byte, 16)})
			if begun.SessionID == 0 || uint64(begun.SessionID)>>56 != 0 {
				t.Errorf("server 0 begins session %#x", begun.SessionID)
			}
			if mntr := word(addr, "mntr"); !strings.Contains(mntr, "zk_zooid_voters\t0,1,2\n") {
				t.Errorf("mntr of server 0:\n%s", mntr)
			}

			z.servers[0].kill()
			z.awaitServing(1)
			z.reconfig(zk.Reconfig{Leaving: []string{"0"}}, "1 2")
			z.start(0)
			z.awaitServing(0)
			line, _, _ := strings.Cut(membership, "\n") // which names no port of clients: zoo.cfg does
			z.reconfig(zk.Reconfig{Joining: []string{line + ";" + addr}}, "0 1 2")
			z.awaitServing(0)
			if now := inQuorum(t, addr); !strings.Contains(now, "serverId=0") {
				t.Errorf("conf of server 0, which has joined again:\n%s", now)
			}
			for i, s := range z.servers {
				if strings.Contains(s.output.String(), fmt.Sprint(serverid.Raft(0))) {
					t.Errorf("server %d speaks of a server that nobody knows:\n%s", i, s.output)
				}
			}
		})
	}
}

// TestSwitchZero moves an ensemble of the servers 0, 1 and 2 by zooid migrate switch, with the server lines that it
// has, while a client writes: by server 0 alone, which the others join, and by -seed from server 0 and from server 1,
// where the operator starts the servers, and servers whose lines differ are refused. Nothing is lost, the servers keep
// their ids, and the command speaks of no others.
func TestSwitchZero(t *testing.T) {
	need(t)
	program := zooid(t)
	for _, one := range []struct {
		version string
		own     int
		seed    bool
	}{{"3.8.4", 0, false}, {"3.9.5", 1, true}, {"3.8.4", 0, true}, {"3.9.5", 0, false}} {
		if testing.Short() && (one.version != "3.9.5" || !one.seed) {
			continue
		}
		t.Run(fmt.Sprintf("%s/%d/%v", one.version, one.own, one.seed), func(t *testing.T) {
			e := startNumbered(t, one.version, 0, 3, "")
			for _, s := range e.servers {
				e.awaitServing(s)
			}
			z := &zooids{t: t, program: program, dir: t.TempDir(), own: one.own, seed: one.seed}
			z.takePlaces(e)
			told := startWriter(t, z.addrs)
			told.await(50)
			said := z.switchZero(e)
			for i := range z.servers {
				if z.servers[i] == nil {
					z.join(i)
				}
			}
			told.await(20)
			for i, addr := range z.addrs {
				z.awaitServing(i)
				if conf := inQuorum(t, addr); !strings.HasPrefix(conf, fmt.Sprintf("serverId=%d\n", i)) {
					t.Errorf("conf of server %d:\n%s", i, conf)
				}
				if log, err := os.ReadFile(z.log(i)); err == nil {
					said = append(said, log...)
				}
				said = append(said, z.servers[i].output.Bytes()...)
			}
			z.servers[0].kill()
			told.await(20)
			z.start(0)
			z.awaitServing(0)
			told.judge(z.addrs)
			if strings.Contains(string(said), fmt.Sprint(serverid.Raft(0))) {
				t.Errorf("a server is named that nobody knows:\n%s", said)
			}
		})
	}
}

// switchZero runs zooid migrate switch, and returns what it says. With -seed the operator starts the servers.
func (z *zooids) switchZero(e *ensemble) []byte {
	t := z.t
	t.Helper()
	dir, stop := filepath.Join(t.TempDir(), "copy"), z.stopping(e, "", "")
	if !z.seed {
		said, err := z.switching(e, dir, "-stop", stop).CombinedOutput()
		t.Logf("%s", said)
		if err != nil {
			t.Fatal(err)
		}
		z.adopt(z.own)
		return said
	}
	own, err := os.ReadFile(z.config(2))
	if err == nil { // a rehearsal finds what this server would found
		err = os.WriteFile(z.config(2), []byte(strings.Replace(string(own), "server.0=", "server.9=", 1)), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	refused, err := z.switching(e, dir, "-check").CombinedOutput()
	want := "in this configuration server 2 is one of [1 2 9]"
	if err == nil || !strings.Contains(string(refused), want) {
		t.Errorf("with other server lines: %v, want %q\n%s", err, want, refused)
	}
	if err := os.WriteFile(z.config(2), own, 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := z.switching(e, dir, "-stop", stop)
	at := slices.Index(cmd.Args, "-start")
	cmd.Args = slices.Delete(cmd.Args, at, at+2)
	w := watch(t, cmd)
	w.until("the last step", func() bool { return strings.Contains(w.out.text(), "start the Zooid servers [0 1 2] now") })
	for i := range z.servers {
		z.start(i)
	}
	<-w.ended
	t.Log(w.out.text())
	if code := cmd.ProcessState.ExitCode(); code != 0 {
		t.Fatalf("exit code %d", code)
	}
	return append(refused, w.out.text()...)
}

// takePlaces writes the configurations of Zooid servers with the ids, the ports and the server lines of Apache's.
func (z *zooids) takePlaces(e *ensemble) {
	z.t.Helper()
	z.first = e.first
	secret := filepath.Join(z.dir, "secret")
	err := os.WriteFile(secret, []byte("the secret of this ensemble of the tests\n"), 0o600)
	for i, s := range e.servers {
		z.addrs = append(z.addrs, s.addr)
		text, readErr := os.ReadFile(e.configs[i])
		if err == nil {
			err = readErr
		}
		if err == nil {
			err = os.MkdirAll(z.place(i), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(z.place(i), "myid"), fmt.Appendln(nil, z.first+i), 0o600)
		}
		if err == nil {
			text = []byte(strings.ReplaceAll(string(text), "dataDir="+s.dir+"\n",
				"dataDir="+z.place(i)+"\nquorum.secretFile="+secret+"\n"))
			err = os.WriteFile(z.config(i), text, 0o600)
		}
	}
	if err != nil {
		z.t.Fatal(err)
	}
}

// awaitServing waits until a server serves.
func (z *zooids) awaitServing(i int) {
	z.t.Helper()
	if !awaited(func() bool { return serves(z.addrs[i]) }) {
		z.t.Fatalf("the server at %s doesn't serve:\n%s", z.addrs[i], z.servers[i].output)
	}
}

// members returns the content of /zookeeper/config.
func (z *zooids) members() string {
	z.t.Helper()
	c := open(z.t, &server{addr: strings.Join(z.addrs, ",")}, zk.Options{})
	defer c.Close()
	data, _, err := c.Get(z.t.Context(), "/zookeeper/config")
	if err != nil {
		z.t.Fatal(err)
	}
	return string(data)
}

// reconfig changes the membership, which must name these servers then.
func (z *zooids) reconfig(change zk.Reconfig, want string) {
	t := z.t
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), startPatience)
	defer cancel()
	c := open(t, &server{addr: strings.Join(z.addrs[1:], ",")}, zk.Options{})
	defer c.Close()
	var text []byte
	var err error
	if !awaited(func() bool { // the ensemble may be electing, or know of a server only in a moment
		text, _, err = c.Reconfig(ctx, change)
		return err == nil
	}) {
		t.Fatalf("%+v: %v", change, err)
	}
	var ids []string
	for line := range strings.Lines(string(text)) {
		if id, ok := strings.CutPrefix(line, "server."); ok {
			id, _, _ = strings.Cut(id, "=")
			ids = append(ids, id)
		}
	}
	if strings.Join(ids, " ") != want {
		t.Errorf("%+v: the servers are %v; want %s", change, ids, want)
	}
}

// inQuorum returns what conf says of a server in its ensemble.
func inQuorum(t *testing.T, addr string) string {
	t.Helper()
	conf := ""
	if !awaited(func() bool {
		conf = word(addr, "conf")
		return strings.Contains(conf, "membership:")
	}) {
		t.Fatalf("conf of the server at %s:\n%s", addr, conf)
	}
	conf = conf[strings.Index(conf, "serverId="):]
	if at := strings.Index(conf, "version="); at >= 0 { // the zxid of the membership
		conf = conf[:at]
	}
	return conf
}

// serverLines returns the lines of a membership without its version.
func serverLines(membership string) string {
	lines, _, _ := strings.Cut(membership, "version=")
	return strings.TrimSpace(lines)
}

// shake makes a connection and sends its connect request.
func shake(t *testing.T, addr string, req *jute.ConnectRequest) (net.Conn, jute.ConnectResponse) {
	t.Helper()
	conn, err := net.DialTimeout("tcp", addr, startPatience)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(startPatience))
	var reply jute.ConnectResponse
	if _, err := conn.Write(jute.AppendFrame(nil, req.Append)); err != nil {
		t.Fatal(err)
	}
	frame, err := jute.ReadFrame(conn, nil, 1<<20)
	if err != nil {
		t.Fatal(err)
	}
	d := jute.NewDecoder(frame)
	if reply.Decode(d); d.Err() != nil {
		t.Fatal(d.Err())
	}
	return conn, reply
}
