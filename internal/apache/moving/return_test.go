//go:build unix

package moving

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/zooid-project/zooid/internal/apache/back"
	"github.com/zooid-project/zooid/internal/apache/files"
	"github.com/zooid-project/zooid/internal/apache/proof"
	"github.com/zooid-project/zooid/internal/config"
	"github.com/zooid-project/zooid/internal/tool/terminal"
	"github.com/zooid-project/zooid/jute"
)

// TestReturnCommand: what zooid migrate return and digest say to wrong arguments.
func TestReturnCommand(t *testing.T) {
	t.Parallel()
	const where = "return -quorum 127.0.0.1:1 -election 127.0.0.1:1 -from 127.0.0.1 "
	none := filepath.Join(t.TempDir(), "none.cfg")
	for _, c := range []struct {
		args string
		code int
		says string
	}{
		{"return -h", 0, "usage: zooid migrate return"},
		{"return x", 2, "want the IP addresses of the observers"},
		{"return -from 127.0.0.1 x", 2, "-quorum and -election"},
		{where + "x", 2, "names all Apache servers"},
		{where + "-observers 1,x x", 2, "want the ids of servers"},
		{where + "-observers 1,1 x", 2, "each once"},
		{where + "-observers 1 -stop x -start y x", 2, "-stop, -stop-observer and -start"},
		{where + "-observers 1 -check", 2, "name the zoo.cfg"},
		{where + "-observers 1 -check -id 255 x", 2, "0 to 254"},
		{where + "-observers 1 -listen x x", 2, "no flag -listen"},
		{where + "-observers 1 -check " + none, 1, "none.cfg"},
		{"digest -h", 0, "usage: zooid migrate digest"},
		{"digest", 2, "name Apache's dataDir"},
		{"digest " + none, 1, "none.cfg"},
	} {
		var out bytes.Buffer
		if code := run(append([]string{"migrate"}, strings.Fields(c.args)...), &out, &out); code != c.code ||
			!strings.Contains(out.String(), c.says) {
			t.Errorf("zooid migrate %s: exit %d, %q; want %d and %q", c.args, code, out.String(), c.code, c.says)
		}
	}
}

// TestTwoReturns: a return that is started while another one waits for its observers names the other one, not the ports
// that it has.
func TestTwoReturns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	journal, _, err := proof.OpenJournal(filepath.Join(dir, returnJournal))
	if err != nil {
		t.Fatal(err)
	}
	defer journal.Close()
	cfg := filepath.Join(t.TempDir(), "zoo.cfg")
	if err := os.WriteFile(cfg, []byte("dataDir="+dir+"\nclientPort=2181\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	code := run([]string{
		"migrate", "return", "-quorum", l.Addr().String(), "-election", "127.0.0.1:0", "-from", "127.0.0.1",
		"-observers", "1", "-stop", "x", "-stop-observer", "x", "-start", "x", cfg,
	}, &out, &out)
	if code != switchRefused || !strings.Contains(out.String(), "another process, running this command") {
		t.Errorf("exit %d, %q", code, out.String())
	}
}

// TestReturnTwice: a return that is run again after it has succeeded says so.
func TestReturnTwice(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	journal, _, err := proof.OpenJournal(filepath.Join(dir, returnJournal))
	if err == nil {
		try := proof.NewTry()
		err = errors.Join(journal.Begin(try, stepStart, returnPlan{}), journal.End(try, stepServe), journal.Close())
	}
	if err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	r := &returnRun{server: &config.Config{}, says: newSayer(&said, "zooid migrate return")}
	r.server.Storage.DataDir = dir
	before, err := r.openJournal()
	if err != nil || before.Step != "" ||
		!strings.Contains(said.String(), "has succeeded: it started Apache's servers at ") {
		t.Errorf("%+v, %v; it says %s", before, err, &said)
	}
	if err := r.journal.Close(); err != nil {
		t.Error(err)
	}
}

// TestReturnReady: nothing begins unless the server leads and each observer named has what the server had three seconds
// ago.
func TestReturnReady(t *testing.T) {
	t.Parallel()
	long := moment{time.Now().Add(-time.Hour), 7}
	now := time.Now().Add(time.Minute) // however long this test takes
	peers := []back.Peer{
		{ID: 1, Host: "a", Zxid: 9, At: now}, {ID: 2, Host: "b", Zxid: 7, At: now}, {ID: 3, Host: "c", Zxid: 6, At: now},
		{ID: 5, Host: "d", Zxid: 9, At: time.Now().Add(-behindMax)},
	}
	for _, c := range []struct {
		mode      string
		history   []moment
		observers []int64
		says      string
	}{
		{"leader", []moment{long}, []int64{1, 2}, ""},
		{"standalone", []moment{long, {time.Now(), 99}}, []int64{1}, ""},
		{"follower", []moment{long}, []int64{1}, "is a follower. Run the command on the leader's machine"},
		{"", []moment{long}, []int64{1}, "doesn't answer"},
		{"leader", nil, []int64{1}, "watched long enough"},
		{"leader", []moment{{time.Now(), 7}}, []int64{1}, "watched long enough"},
		{"leader", []moment{long}, []int64{1, 4}, "observer 4 isn't connected"},
		{"leader", []moment{long}, []int64{1, 3}, "observer 3 is at zxid 0x6; Zooid was at 0x7"},
		{"leader", []moment{long}, []int64{1, 5}, "observer 5 hasn't answered for 3s"},
	} {
		l := &leadership{now: back.Progress{Answer: back.Answer{Mode: c.mode}, Observers: peers}, history: c.history}
		hosts, err := l.ready(c.observers)
		if c.says == "" && (err != nil || len(hosts) != len(c.observers) || hosts[1] != "a") ||
			c.says != "" && (err == nil || !strings.Contains(err.Error(), c.says)) {
			t.Errorf("%q, %v: %v, %v; want %q", c.mode, c.observers, hosts, err, c.says)
		}
		if final := errors.Is(err, errOther); final != (c.mode == "follower") {
			t.Errorf("%q: it is waited for: %v", c.mode, !final)
		}
	}
}

// TestReturnParts: first so many servers are stopped that each majority of the rest needs this command's own.
func TestReturnParts(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		voters, observers, own int
		down                   []int64
		first, rest            string
	}{
		{0, 0, 0, nil, "[]", "[]"},
		{1, 0, 1, nil, "[]", "[]"},
		{2, 0, 1, nil, "[]", "[2]"},
		{3, 0, 2, nil, "[1]", "[3]"},
		{3, 0, 1, []int64{3}, "[3]", "[2]"}, // 1 and 2 still have a majority
		{3, 2, 1, nil, "[4 5 2]", "[3]"},
		{4, 0, 1, nil, "[2]", "[3 4]"},
		{5, 0, 5, nil, "[1 2]", "[3 4]"},
		{5, 0, 1, []int64{4}, "[4 2]", "[3 5]"},
		{7, 0, 1, nil, "[2 3 4]", "[5 6 7]"},
	} {
		f := returnRun{server: &config.Config{}}
		f.word = c.down
		f.server.Quorum.MyID = int64(c.own)
		for id := 1; id <= c.voters+c.observers; id++ {
			f.server.Quorum.Members.Servers = append(f.server.Quorum.Members.Servers,
				config.Member{ID: int64(id), Observer: id > c.voters})
		}
		first, rest := f.parts()
		if fmt.Sprint(idsOf(first)) != c.first || fmt.Sprint(idsOf(rest)) != c.rest {
			t.Errorf("%d voters: first %d, then %d; want %s and %s", c.voters, idsOf(first), idsOf(rest), c.first, c.rest)
		}
		// This command's server and the rest are a majority, and the rest alone isn't.
		if n := len(rest); c.voters > 0 && (2*(n+1) <= c.voters || 2*n > c.voters) {
			t.Errorf("%d voters: %d are left", c.voters, n)
		}
	}
}

// TestReturnMembers: the servers that must stop are those of the membership in the data, not of the zoo.cfg.
func TestReturnMembers(t *testing.T) {
	t.Parallel()
	const now = "server.1=a:2888:3888\nserver.2=b:2888:3888\nserver.3=c:2888:3888\nversion=200000004"
	for _, c := range []struct {
		text, servers, says string
	}{
		{now, "[1 2 3]", ""},
		{"", "[1]", ""}, // a standalone server's
		{"server.2=b:2888:3888\nversion=200000004", "[1]", "isn't a member"},
		{"server.1", "[1]", "read the membership"},
	} {
		r := returnRun{server: &config.Config{}}
		r.server.Quorum.MyID = 1
		r.server.Quorum.Members.Servers = []config.Member{{ID: 1}}
		err := r.takeMembers(c.text)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
			fmt.Sprint(r.zooids()) != c.servers {
			t.Errorf("%q: %v, %v; want %s and %q", c.text, r.zooids(), err, c.servers, c.says)
		}
	}
	// A reconfig after the look at the membership: somebody has added a server that wasn't stopped.
	r := returnRun{plan: returnPlan{Members: "server.1=a:2888:3888\nversion=100000002"}}
	l := &leadership{end: func() {}, finished: make(chan struct{}), done: back.Done{Members: now}}
	close(l.finished)
	if err := r.handOver(t.Context(), l); err == nil || !strings.Contains(err.Error(), "a reconfig changed") {
		t.Errorf("a reconfig in the meantime: %v", err)
	}
}

// TestReconfigAtReturn: what leads the observers evaluates a reconfig in the log as the server has. Refusing it would
// make another tree than the server's.
func TestReconfigAtReturn(t *testing.T) {
	t.Parallel()
	evaluated := false
	r := returnRun{program: &Program{Reconfigure: func(string, *jute.ReconfigRequest, bool) (string, jute.Code) {
		evaluated = true
		return "", 0
	}}}
	r.quorum, r.election, r.server = "127.0.0.1:0", "127.0.0.1:0", &config.Config{}
	if err := r.listen(r.server, r.program); err != nil {
		t.Fatal(err)
	}
	r.o.Quorum.Close()
	r.o.Election.Close()
	if reconfigure := r.o.Reconfigure; reconfigure != nil {
		reconfigure("", nil, false)
	}
	if !evaluated {
		t.Error("it refuses the reconfigs in the log")
	}
}

// TestReturnGoesOn: a return that was cut short begins anew if Zooid answers, and isn't carried on where that isn't
// safe: before it was known that the log has everything, and where others may have served since.
func TestReturnGoesOn(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port := l.Addr().(*net.TCPAddr).Port
	for name, c := range map[string]struct {
		step    string
		answers bool
		done    bool
		says    string
	}{
		"Zooid serves":               {stepWhole, true, false, ""},
		"Zooid serves beside Apache": {stepStart, true, true, "stop all Zooid servers"},
		"the first stops":            {stepStop, false, true, "its log may be incomplete"},
		"others run":                 {stepWhole, false, true, "the Zooid server 2 runs"},
		"others run, later":          {stepObservers, false, true, "the Zooid server 2 runs"},
	} {
		var said bytes.Buffer
		f := returnRun{server: &config.Config{}, says: &sayer{w: &said, line: terminal.NewProgress(&said)}}
		f.server.Quorum.MyID = 1
		f.server.Quorum.Members.Servers = []config.Member{
			{ID: 1}, {ID: 2, Addrs: []config.PeerAddr{{Host: "127.0.0.1", QuorumPort: port}}},
		}
		f.o.Ask = func(context.Context) (back.Answer, error) {
			if c.answers {
				return back.Answer{Mode: "leader"}, nil
			}
			return back.Answer{}, errors.New("nobody answers")
		}
		code, done, err := f.goOn(t.Context(), proof.Record{Step: c.step, Data: []byte("{}")}, &said)
		if done != c.done || (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
			done && code != switchRefused {
			t.Errorf("%s: exit %d, done: %v, %v; want %q", name, code, done, err, c.says)
		}
	}
}

// TestReturnEnded: a Zooid server has stopped if a port that was open is closed, and none is open. Neither its
// command's word nor silence shows that.
func TestReturnEnded(t *testing.T) {
	t.Parallel()
	m := &config.Member{ID: 2, Addrs: []config.PeerAddr{{Host: "h", QuorumPort: 1}, {Host: "h", QuorumPort: 2}}}
	const open, closed, unknown = proof.Open, proof.Closed, proof.Unknown
	for _, c := range []struct {
		before, after [2]proof.Port
		known         bool
		says          string
	}{
		{[2]proof.Port{open, open}, [2]proof.Port{closed, closed}, false, ""},
		{[2]proof.Port{open, unknown}, [2]proof.Port{closed, unknown}, false, ""},
		{[2]proof.Port{open, open}, [2]proof.Port{closed, open}, true, "something listens"},
		{[2]proof.Port{open, unknown}, [2]proof.Port{unknown, closed}, false, "can't be checked"},
		{[2]proof.Port{closed, closed}, [2]proof.Port{closed, closed}, false, "can't be checked"}, // a firewall
		{[2]proof.Port{unknown, unknown}, [2]proof.Port{unknown, unknown}, false, "can't be checked"},
		{[2]proof.Port{unknown, unknown}, [2]proof.Port{unknown, unknown}, true, ""}, // -stopped
	} {
		r := returnRun{plan: returnPlan{Before: map[string]proof.Port{"h:1": c.before[0], "h:2": c.before[1]}}}
		err := r.ended(m, map[string]proof.Port{"h:1": c.after[0], "h:2": c.after[1]}, c.known)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v, then %v, known %v: %v; want %q", c.before, c.after, c.known, err, c.says)
		}
	}
}

// TestReturnStopsDead: the command of a server that has stopped by the operator's word may fail, as on a dead machine;
// that of another may not.
func TestReturnStopsDead(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, c := range []struct {
		word []int64
		port int
		says string
	}{
		{nil, 1, "stop the Zooid server 2: the command failed"},
		{[]int64{2}, 1, ""},
		{[]int64{2}, l.Addr().(*net.TCPAddr).Port, "something listens"},
	} {
		var said bytes.Buffer
		r := returnRun{server: &config.Config{}, says: &sayer{w: &said, line: terminal.NewProgress(&said)}}
		r.stop, r.word = "exit 255", c.word
		m := &config.Member{ID: 2, Addrs: []config.PeerAddr{{Host: "127.0.0.1", QuorumPort: c.port}}}
		err := r.stopOne(t.Context(), m)
		if (err == nil) != (c.says == "") || err != nil && !strings.Contains(err.Error(), c.says) ||
			err == nil && !strings.Contains(said.String(), "the command failed") {
			t.Errorf("-stopped %d: %v, %q; want %q", c.word, err, said.String(), c.says)
		}
	}
}

// TestReturnReaches: a return doesn't begin if a server's stop couldn't be seen, unless by the operator's word.
func TestReturnReaches(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	r := returnRun{server: &config.Config{}}
	r.server.Quorum.MyID = 1
	r.server.Quorum.Members.Servers = []config.Member{
		{ID: 1}, {ID: 2, Addrs: []config.PeerAddr{{Host: "127.0.0.1", QuorumPort: port}}},
	}
	if before, err := r.reach(t.Context()); err != nil || before[l.Addr().String()] != proof.Open {
		t.Errorf("%v, %v", before, err)
	}
	l.Close()
	if before, err := r.reach(t.Context()); err == nil || !strings.Contains(err.Error(), "-stopped 2") {
		t.Errorf("nobody listens: %v, %v", before, err)
	}
	r.word = []int64{2}
	if before, err := r.reach(t.Context()); err != nil || before[l.Addr().String()] != proof.Closed {
		t.Errorf("by the operator's word: %v, %v", before, err)
	}
}

// TestDigestCommand: the digest of files, which is refused while a process has one open, and of damaged ones.
func TestDigestCommand(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	digest, err := files.Write(dir, &files.Content{
		Zxid: 0x500000007, Epoch: 5, Sessions: []files.Session{{ID: 7, Timeout: 4000}},
		Znodes: func(visit func(string, []byte, []jute.ACL, *files.Stat) error) error {
			for _, path := range []string{"/", "/zookeeper", "/zookeeper/config", "/zookeeper/quota"} {
				if err := visit(path, nil, nil, &files.Stat{}); err != nil {
					return err
				}
			}
			return nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	print := func() (int, string) {
		var out bytes.Buffer
		code := run([]string{"migrate", "digest", "-without-log", dir}, &out, &out)
		return code, out.String()
	}
	want := digestLine(&back.Done{Zxid: 0x500000007, Digest: digest, Znodes: 4, Sessions: 1})
	if code, said := print(); code != 0 || said != want+"\n" {
		t.Errorf("exit %d, %q; want %q", code, said, want)
	}
	snapshot := filepath.Join(dir, files.Version2, "snapshot.500000007")
	if _, err := os.Stat("/proc/self/fd"); err == nil {
		open, err := os.Open(snapshot)
		if err != nil {
			t.Fatal(err)
		}
		if code, said := print(); code != 1 || !strings.Contains(said, "Stop the server first") {
			t.Errorf("while a file is open: exit %d, %q", code, said)
		}
		open.Close()
	}
	if err := os.WriteFile(filepath.Join(dir, files.Version2, "log.500000008"), []byte("ZKLG"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, said := print(); code != exitDamaged {
		t.Errorf("damaged files: exit %d, %q", code, said)
	}
}
